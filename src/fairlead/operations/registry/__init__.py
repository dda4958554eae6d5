"""The registry of nodes.

    publishing  Registry: publishers, nodes and versions made, read and deleted; bans by the operator
    archives    NodeArchives: archives of versions: announced with a signed link, sent once, downloaded by anybody

It imports `assets`. What is deleted leaves its id reserved, and every act is recorded with who did it.
"""
