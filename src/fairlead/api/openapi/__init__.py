"""The service's own OpenAPI document: every API, made of its route records."""
