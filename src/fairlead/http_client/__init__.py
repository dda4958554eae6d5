"""Our HTTP/1.1 client: small, bounded, and the same for partners, result assets and key sets (docs/why.md)."""
