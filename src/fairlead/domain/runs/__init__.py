"""A run: one call of a model, from admission to its entry in the books.

states     the life of a run: a table from state and transition to state
selection  which legs serve a call, or why none does; retries.py says what may be tried again or elsewhere
entries    what is written of a run; replays.py and outcomes.py are what is kept of its end
queue      statuses, and how long until it is worth asking
webhooks   what is posted when a queued run ends, how it is signed, and when again
"""
