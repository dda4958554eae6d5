"""What is worth knowing about a running server: one closed list of observations, and who listens to it."""
