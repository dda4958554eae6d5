"""Messaging within one process: what is published is there at once, and goes to nobody else."""
