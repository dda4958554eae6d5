"""How partners are spoken to: each is a file, and one exchange serves them all."""
