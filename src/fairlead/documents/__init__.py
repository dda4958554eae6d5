"""JSON documents from outside, before anything is made of them.

`values.has_more_values` counts what a document holds in its bytes, and `values.ValueCount` counts one that comes in
pieces. Both are for everything that is sent to us: bodies of requests, partners' answers, key sets. Nothing here knows
what a document means, and no document may be built before it is counted.
"""
