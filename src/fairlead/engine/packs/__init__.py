"""Node packs: third-party nodes, loaded unmodified from folders inside host processes.

    finding  finds packs; copies.py keeps those of releases
    loader   loads them; class_mapping.py and schemas.py read the two forms in which nodes are declared
    calling  calls their functions and takes what they return, by tensors.py and videos.py
    shims    what they import

It imports the rest of the engine. Code of packs runs in hosts alone, and never in the server.
"""
