"""Fairlead: a self-hosted control plane for generative media."""

__version__ = "0.1.0"
