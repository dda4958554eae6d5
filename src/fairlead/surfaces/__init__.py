"""What callers see: each API is a dialect with its own schemas, statuses and envelope."""
