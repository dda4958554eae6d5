"""Processes in which nodes are executed, apart from the server, and how they are looked after.

    service    what a server and a process may ask of each other, defined once; processes/rpc.py carries it
    pool       the server's side: hosts that execute jobs (places.py) and that check and render (validator_pool.py)
    templates  what hosts are forked from; process.py is one process
    program    the process's side: host.py answers, event_sender.py sends events
    policies   what a host may see, reach and use

It imports the rest of the engine, `processes`, `documents` and the domain. A host belongs to one workspace, and
everything that it sends is checked.
"""
