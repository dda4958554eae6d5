"""Work on texts that callers write, within bounds of length and time.

`check_length` and `as_json` (bounds), `Pattern` (patterns) for regular expressions, `fill` (templates) for texts with
places to fill in, and `expressions` for arithmetic. Imports nothing of Fairlead; runs no program of a caller's.
"""
