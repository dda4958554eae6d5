"""What the parts of all servers tell each other as it happens. It may be lost: the database stays the truth.

`event_hub` is the port for events of jobs, which callers watch. `local` implements it within one process.
It imports the domain only, and is used by operations and workers.
"""
