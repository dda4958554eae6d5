"""Background work, which goes on without a call.

    work       the loop that claims queued work and has it executed, in turn over workspaces
    janitor    announces the server, takes over from silent ones, and forgets what has expired
    webhooks   posts what is due; deployments.py keeps releases ready; partner.py starts the programs that ship
    periodic   runs work again and again until the server stops

It imports operations, `processes` and observing, and no API. What is to be done is decided there; here is only when.
"""
