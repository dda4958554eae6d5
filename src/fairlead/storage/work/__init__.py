"""The queue of work as rows, once for each table that has its shape: those of runs and of jobs.

    table    WorkTable finds work: what is released, late, cancelled, orphaned
    changes  WorkRows: what releases, claims, takeovers and cancellations make of a row
    journal  Journal.write: the one way in which the state of work changes; entries share transactions

It imports nothing of runs or jobs; their modules give it their tables, columns and states, and what is settled.
"""
