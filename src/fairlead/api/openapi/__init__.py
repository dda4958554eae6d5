"""The service's own OpenAPI document: every API, made of the route tables and of what is said of each route."""
