"""Processes in which an operator's own callable judges bytes: it may hang, crash and fill memory, and harms nobody.

    pool      the server's side: bytes are judged in time, or it is said that they could not be
    program   the process; protocol.py is what a server asks of it, by processes/rpc.py

It imports `processes` and the domain. The callable is never imported into the server.
"""
