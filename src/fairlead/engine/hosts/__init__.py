"""Processes in which nodes are executed, apart from the server, and how they are looked after."""
