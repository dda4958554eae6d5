"""What can be run: models, their schemas, and who serves them."""
