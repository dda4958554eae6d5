"""What the APIs share of HTTP: the record of a route, and how a route finds the handler that answers it."""
