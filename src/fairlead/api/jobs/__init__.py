"""The jobs API: jobs that are submitted, listed, watched and canceled by programs (docs/jobs.md).

    api          the API as a whole; routes.py is the list of its routes
    jobs         submitted, listed, read, watched, canceled
    queries      what a list is asked for, and where it goes on
    assets       sent, made from a hash, read, fetched, deleted
    deployments  made, released, stopped, started, deleted; addresses.py says where they are called
    credentials  who calls, and who may know of a deployment
    documents wire errors   types of what travels, answers made of records, the error envelope

It imports `http` and operations, and no other API. The workflow of a submission is not read here.
"""
