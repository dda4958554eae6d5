"""The database: connections and transactions, the tables, and the history of the tables.

    database      Database.read and .write: functions over a connection, run in a transaction
    opening       open_database: one by its URL, of sqlite or postgresql
    snapshots     open_snapshot: a database as it was at one moment, read in steps
    statements    Prepared and its like: SQL compiled once; insert_into: INSERTs with ON CONFLICT
    tables        every table; those of a subject are beside it (budget_tables.py …), schema.py has the triggers
    migrate       migrate: brings a database to HEAD, the newest revision of `migrations`
    figures       read_figures: how large a database is, and how long its log
    table_copy    TableCopier: rows in pages, to lines of JSON and back, and into another database
    copies        how far the copy of another database into one is
    table_files   tables as files of lines, for backups
    number_blocks sets of numbers as they are kept

It imports no other package of storage: of runs, jobs and workspaces it knows the tables, never a rule.
"""
