"""A run: one call of a model, from admission to its entry in the books."""
