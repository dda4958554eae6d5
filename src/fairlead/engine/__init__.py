"""How a graph of nodes is executed."""
