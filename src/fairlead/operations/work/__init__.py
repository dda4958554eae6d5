"""Work that is queued, whatever it is: released, claimed, timed out, cancelled elsewhere, taken over.

    queue             WorkQueue: one kind of work, by what its WorkKind passes in
    places            places for work that is executed at this server
    presence          a server's sign of life
    store             WorkStore: entries made durable; FaultError where that is impossible
    stored_documents  StoredDocuments: large documents of work as blobs

It imports no other noun: what differs between runs and jobs is passed in.
"""
