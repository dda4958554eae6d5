"""The books, for people.

    books       what was booked, and the proof that it adds up
    statements  everything that explains what a run came to
    usage       UsageReader: what a workspace has used, by day, model and key

It imports no other noun, and only reads: money is moved by the entries of `runs`.
"""
