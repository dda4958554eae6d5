"""What the parts of all servers tell each other as it happens. It may be lost: the database stays the truth.

`wakeups` is the port for hints to look now, `event_hub` the one for what callers watch: events of jobs and changes of
runs. `messaging` has both. `local` implements them within one process; `server/messaging.py` alone names it, and
`tests/messaging` has what any implementation must pass.

It imports the domain only. Nothing in it may wait for a subscriber or a listener, and no message may be the only record
of anything.
"""
