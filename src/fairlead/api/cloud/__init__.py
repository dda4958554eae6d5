"""The cloud workflow API: /api and /ws (docs/cloud.md).

    api          the API as a whole; routes.py is the list of its routes
    submissions  submitting a workflow, which is not read on the way
    jobs         how jobs stand, and cancelling; the queue and the history, as editors ask for them
    uploads      files for workflows, and masks; views.py shows files
    nodes        the classes of nodes there are
    editors      settings, and files of their user
    socket       watching jobs; frames.py has a message for every event
    bodies credentials documents wire errors   what is read, who calls, types, answers, the error envelope

It imports `http` and operations, and no other API. A message is made once for all who watch, and no watcher is waited
for.
"""
