"""Jobs as rows: written in batches, all or nothing, with their events and the slots of their workspaces.

    entries    write_job_entries: what a batch of entries decides
    jobs       jobs as they are read: one, a list, the queue, events; and expired ones
    labels     which jobs have a label
    ids        what a job is found by: public ids and idempotency keys
    documents  blobs that hold large workflows

It imports `db`, `accounts`, `assets`, `deployments` and `work`, and never `runs`. Every change names the state it
expects to find.
"""
