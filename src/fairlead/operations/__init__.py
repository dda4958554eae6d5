"""Verbs: each opens its transaction, asks the rules, and calls the ways out.

    accounts     who calls; workspaces, keys, secrets and quotas
    catalog      the catalog in force, replaced when its files change
    ledger       the books for people: entries, statements, usage, and the proof
    assets       files: of results and of workflows, kept, shown, signed and forgotten
    deployments  made, released, stopped, deleted, and kept ready
    work         the queue of work as a server works on it, for runs and jobs alike
    runs         admitted, executed, settled, collected, watched, cancelled, taken over
    jobs         submitted, executed, watched, cancelled, read
    registry     publishers, nodes, versions and their archives
    overview     what there is to see of the installation when the metrics are read
    clock        ids and times; readiness.py says whether this server can take work; outages.py makes faults of outages

It imports the domain, storage, providers, engine, identity, messaging and observing, and nothing of HTTP: what it
refuses is a fault, whose status each API decides. No partner is called within a transaction.
"""
