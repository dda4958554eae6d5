"""Prices and books."""
