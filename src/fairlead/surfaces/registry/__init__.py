"""The registry over HTTP: publishers, the nodes they have published, and their versions (G-01 to G-03)."""
