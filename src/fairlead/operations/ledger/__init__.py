"""The books, for people.

    budgets     what may be spent, by whom and when
    alerts      channels of workspaces, and sending alerts by them until they are received
    books       what was booked, and the proof that it adds up
    statements  everything that explains what a run came to
    usage       UsageReader: what a workspace has used, by day, model and key

It imports no other noun, and moves no money: the entries of `runs` do.
"""
