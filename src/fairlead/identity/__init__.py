"""Secrets, and the verification of JSON Web Tokens.

    tokens         verifies JSON Web Tokens; key_sets.py finds the keys of their issuers
    oidc           OidcClient: signs people in at a provider of theirs
    master_secret  the server's own; secret_ring.py has it and those of before while it is rotated
    sealing        Sealer: what is kept sealed with it
    links          Links: signs links to assets

It imports the domain, `documents` and the HTTP client. A secret goes into no log, no error and no answer.
"""
