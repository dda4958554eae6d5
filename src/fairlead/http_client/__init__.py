"""Our HTTP/1.1 client: small, bounded, and the same for partners, result assets and key sets (docs/why.md).

    transport    asks over connections that it keeps, and reads the answer within bounds of bytes and time
    outcomes     Reply, an answer; TransportError and its kinds, the ways to end without one
    connections  one connection each; answers.py reads what comes over it
    targets      where a URL leads; addresses.py checks that it is an address that may be called

It imports `deadlines` alone, and knows nothing of partners. Nothing is read without a bound.
"""
