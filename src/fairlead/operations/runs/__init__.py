"""Runs: admitted, executed and settled in that order, at once or out of the queue.

    requests  CallChecks: a call checked in two stages, headers and body, and made ready for a leg; refusals.py is the
              order of what is refused
    estimate  Estimator: its price, told before it is made
    admit     Admitter: the decision, one durable entry
              (large_bodies.py has large bodies read in processes of their own)
    execute   Executor: asks partners through dispatch.py, closes the books, then answers; results.py keeps the end
    replay    told again, to anyone who calls with its idempotency key
    work      queued runs as work: resume.py makes one whole out of the books, void.py gives one up
    collect   Collector: how a queued run stands and what it ended in; watch.py streams it, cancel.py ends it
    awaited_runs  runs that jobs of this server wait for
    webhooks  telling receivers that a queued run has ended

It imports `accounts`, `assets`, `catalog` and `work`, and never `jobs`. Nothing of a run depends on the connection
that asked for it, and no answer is given before it is durable.
"""
