"""The model router's API: /v1 and /v2 models (docs/router.md, docs/queue.md).

    routes       the list of its routes
    runs         the synchronous run, as a raw ASGI application: the hot path
    queue        submit, status, collect, cancel, and a stream of the status
    estimates    what a call would cost
    handlers     catalog, detail, schema document, public snapshot
    provider_keys usage webhooks   what belongs to the caller's workspace
    generations  everything in which v1 and v2 differ
    documents wire errors          types of what travels, answers made of records, the error envelope

It imports `http` and operations, and no other API. `runs` stays without a framework.
"""
