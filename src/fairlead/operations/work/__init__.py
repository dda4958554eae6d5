"""Work that is queued, whatever it is: claimed, timed out, cancelled elsewhere.

`queue.WorkQueue` does this for runs and for jobs. What differs, which is what is executed and what is settled, is
passed in as a `queue.WorkKind`. `store.WorkStore` makes entries durable, and `places.Places` bounds what is executed
here at a time. Nothing here imports `operations/runs` or `operations/jobs`.
"""
