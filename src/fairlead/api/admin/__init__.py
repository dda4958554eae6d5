"""The administration API, `/api/admin/v1`: all that an operator or a member does over HTTP (docs/administration.md).

    api        the API as a whole: its paths, and the routes of every noun
    access     who calls, and whether they have the right that a route asks for; principal_of, actor_of, reach_of
    bodies     reading bodies, limits and cursors
    errors     the error envelope
    documents  what is sent and answered, as types; forms.py makes them of what operations give
    <noun>     handlers of a noun and its routes: sessions, members, ...

It imports `http` and operations, and no other API. No handler checks rights: the route names the right that it requires
(`Route.right`), and a workspace that the caller cannot see is answered like one that does not exist. Every change is
written to the audit log by the operation that makes it.
"""
