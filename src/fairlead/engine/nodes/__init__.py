"""The nodes that come with the engine, one module a family."""
