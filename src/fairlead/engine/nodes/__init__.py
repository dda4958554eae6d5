"""Nodes: how one is declared, what it may ask for while it runs, and the families that come with the engine.

`node`, `Input` and `Output` (node) declare one; `Context` (context) is what its function may use, `NodeContext`
(node_context) what the executor hands it; `Registry` (registry) has all classes, `own_nodes` (families) those that
come with the engine, one module a family. May import `media` and `texts`; nothing is registered at import.
"""
