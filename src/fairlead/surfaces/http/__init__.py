"""What the APIs share of HTTP: the record of a route, how it finds its handler, and the answers to faults."""
