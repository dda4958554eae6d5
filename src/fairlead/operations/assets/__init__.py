"""Files, whose bytes are blobs: those that runs result in, and those of workflows.

    results       AssetCopier, AssetReader, AssetSweeper: copied, served, swept
    files         WorkflowFiles: uploaded, found by name, made by jobs; FileLinks signs links
    records       Assets: the same files as assets of the jobs API, by id
    downloads     Downloads: links that stand in workflows in place of a file
    views         files as they are looked at: pictures made of them, masks drawn over them
    moderation    which bytes are not kept
    stored_files  BlobAudit: whether every blob that is named is there and whole

It imports no other noun. Bytes are decoded by engine hosts, never here, and a link is its own credential.
"""
