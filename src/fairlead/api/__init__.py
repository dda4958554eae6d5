"""What callers see: each API is a dialect with its own schemas, statuses and error envelope.

    http         what the APIs share of HTTP: reading, answering, route records, answers to faults
    router       /v1 and /v2: models, runs, the queue
    cloud        /api and /ws: workflows as their editors submit and watch them
    jobs         /api/v2: jobs, assets and deployments, for programs
    admin        /api/admin/v1: members, workspaces, keys and money
    registry     publishers, their nodes and versions
    routes       what belongs to no API: signed links (assets.py), operators' questions (operator.py)
    openapi      /openapi.json, made of the route records of all of them
    application  the ASGI application; entrance.py stands before it while the server starts

It imports the domain and operations; of storage, providers, identity and the engine it knows nothing. The APIs do not
import each other, and a handler translates: what it would decide belongs to operations or to the domain.
"""
