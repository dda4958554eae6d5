"""Blobs: bytes kept under their own BLAKE3, in a local folder or in any S3-compatible store.

    opening       local_blobs, bucket_blobs: a folder, or a bucket
    ports         Blobs, FileBlobs: what others ask of a store
    store         StoredBlobs: write, read, list and remove
    markers       which installation a store belongs to, said by the store; gate.py what that allows
    writer        one blob being written; local_files.py puts its file in place
    reading       bytes are compared with their names before the first of them is handed out
    adoption      files of other programs, copied into inodes that only the server has ever had open
    local_copies  a bounded folder of copies, for programs that read files
    references    which rows name which blob: the sweep asks it; which store is recorded
    errors        why a blob cannot be written or read

Nothing but `references` knows of the database. A blob is never changed, and never read without being verified.
"""
