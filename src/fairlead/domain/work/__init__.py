"""What runs and jobs have in common: work that waits for a slot, is claimed by one server, and ends once.

`states` is the state machine that both fill with their own states; `entries` are the records that both write;
`place_shares` says whose work is next, and `round_robin` takes it of one workspace after another. What is executed and
what is settled is in `domain/runs` and `domain/jobs`.
"""
