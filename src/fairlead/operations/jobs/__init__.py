"""Jobs: submitted, executed, watched, cancelled, read."""
