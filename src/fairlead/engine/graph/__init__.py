"""Workflows: read, checked, and executed node by node.

`read_document` (documents) and `Graph` (graph) read a workflow, `validate` (validation) says what is wrong with it,
`Executor` (executor) executes it and reports each node by events. May import `nodes`.
"""
