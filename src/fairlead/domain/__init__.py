"""Nouns and rules: what is true without a clock, a socket or a table."""
