"""What is done with runs: admitted, executed, answered in time, taken over."""
