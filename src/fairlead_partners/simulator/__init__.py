"""Every vendor of the catalog on one port: the wire protocols, without the vendors (PROTOCOL.md)."""
