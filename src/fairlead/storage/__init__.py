"""What is stored: the only package that uses SQL, stores blobs, and reads the files of the catalog.

Each noun has a package, or a module where one is enough; `db` is what they all stand on:

    db           the database: connections, transactions, tables, migrations
    work         the queue of work as rows, and the journal of what is written of it, for runs and jobs alike
    accounts     workspaces, their API keys and provider keys, what is counted of them
    catalog      files of models, read and checked
    ledger       the account book: what was held, charged and used, and its proof
    assets       files: results of runs, files of workflows
    deployments  deployments and their releases
    runs         entries of runs, their queue, keys, kept results and webhooks
    jobs         entries of jobs, their lists, labels and ids
    registry     publishers, their nodes and versions
    blobs        the bytes of all files

It imports the domain, and nothing that knows of HTTP or of partners. A function is given a connection and never opens
a transaction of its own; what must be written together is one function. No partner is called in here, and nothing is
decided that the domain could decide.
"""
