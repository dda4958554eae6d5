"""The model router's API: /v1 and /v2 models."""
