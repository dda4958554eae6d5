"""Confinement of processes that run third-party code: what it may see, reach and use, decided before it is loaded.

`Policy` says what a process may do, and travels to it. The process calls `apply` once, while it has one thread and
before it imports anything untrusted; a process that is forked from it calls `narrow`, to keep less. Both return a
`Report` of the mechanisms that hold, and raise ConfinementError where one is missing that the policy requires.

The server's side: `syscall_filter` compiles the filter of system calls that a policy carries, `probe` starts a process
that tries what must fail, `end_descendants` and `tree_usage` handle everything that a process has started.

Nothing here knows jobs, packs or workspaces, and nothing is imported but the standard library, msgspec, and for the
filter the binding of libseccomp.
"""
