"""The database: connections and transactions, entries that share one, the tables, and the history of the tables.

    database      open_database, Database.read and .write: functions over a connection, run in a transaction
    group_commit  GroupCommit: entries that arrive together share one durable transaction; committer.py waits for disks
    statements    Prepared and its like: SQL compiled once; insert_into: INSERTs with ON CONFLICT
    tables        every table; member_tables.py has those of people, schema.py those of secrets, and all triggers
    migrate       migrate: brings a database to HEAD, the newest revision of `migrations`
    number_blocks sets of numbers as they are kept

It imports no other package of storage: of runs, jobs and workspaces it knows the tables, never a rule.
"""
