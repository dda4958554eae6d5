"""Files as rows: each names a blob, whose bytes are in `blobs`.

    results  Asset: copies of what partners have made, served in place of their links
    files    WorkflowFile: files of workflows by name; those that live jobs need are not deleted
    records  the same files by id, whichever API has made them

It imports `db` and `accounts`. A row is written in the transaction that counts it, and no bytes are touched here.
"""
