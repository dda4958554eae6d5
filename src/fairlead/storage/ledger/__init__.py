"""The account book as rows: integers of 10^-8 dollars, and a proof that they agree.

    ledger      entries and exports of the book; disagreements proves it against the runs
    budgets     what may be spent, by whom and when: made, changed, listed, counted again
    run_books   BudgetBook, UsageBook: what the runs of a batch change in addition
    alerts      alerts about budgets and unusual days, and their deliveries
    usage       what runs have cost, by day, key and model
    account     a workspace's entries in pages, and a month in sums
    archives    what moves into archives, and their records; archive_files.py are their files, archived_lines.py exports
    statements  the statements of runs

It imports `db`, `accounts` and `work`. The books are written by `runs`, in the transaction of the run; nothing here
moves money.
"""
