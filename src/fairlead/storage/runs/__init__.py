"""Runs as rows: written in batches, all or nothing, with their holds, keys, results and webhooks.

    entries      write_entries: what a batch of entries decides; batch.py holds it, entry_statements.py is its SQL,
                 raises.py has the entries that change a hold
    idempotency  keys of runs, and the results kept for them
    queue        where a queued run is, and how many are ahead of it
    runs         runs by owner and by work, and their release
    webhooks     the webhooks of runs, and the outcome of each attempt

It imports `db`, `accounts`, `ledger` and `work`, and never `jobs`. Every change names the state it expects to find.
"""
