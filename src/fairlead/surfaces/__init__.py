"""What callers see: each API is a dialect with its own shapes, statuses and envelope."""
