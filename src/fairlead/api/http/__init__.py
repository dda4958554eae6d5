"""What the APIs share of HTTP; it knows none of them.

    asgi             reading a body within bounds, and JSON in it; sending an answer, knowing who left
    route            Route: the record of a route, from which routing, OpenAPI and the tests' tables follow
    api              one API: its routes, and one envelope around everything that goes wrong in them
    faults           what every API answers to a fault, unless it has other words
    headers          the names of headers
    forms            forms with files, read as they come
    representations  which part of a document is wanted, and who has it already
    credentials      which header won; sessions.py reads the cookie of a session
    cross_origin     pages of other origins
    forwarding       how a caller reached this server; hosts.py says which hosts a call may name
    cursors          positions in the catalog and the registry, opaque to callers
    schemas          types of what documents of several APIs share

No file is ever held in memory here, and no body is parsed before it was measured.
"""
