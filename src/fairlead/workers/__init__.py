"""The other way in: what goes on without anybody asking for it."""
