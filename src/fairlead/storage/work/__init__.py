"""The queue of work as rows, once for each table that has its shape: those of runs and of jobs.

`table.WorkTable` has the statements that find work: what is released, late, cancelled, orphaned. It imports nothing of
runs or jobs; their modules give it their table, their columns and their states.
"""
