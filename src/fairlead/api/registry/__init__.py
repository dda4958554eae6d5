"""The registry over HTTP: publishers, the nodes they have published, and their versions (docs/registry.md).

    api       the API as a whole; routes.py is the list of its routes
    handlers  reading is everybody's, changing takes a credential
    wire      answers made of domain records, and their types
    errors    the error envelope

It imports `http` and operations, and no other API. A call that is refused deletes nothing.
"""
