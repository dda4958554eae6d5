"""The cloud workflow API: /api and /ws (cloud-workflow-and-registry.md)."""
