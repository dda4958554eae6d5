"""A job: one execution of a workflow, from its submission to its outputs.

states       the life of a job, and the seven statuses that the jobs API shows of it
jobs         the records; entries.py is what is written, events.py what is published, updates.py what its watchers see
faults       what can be refused or fail; errors.py the kinds of errors of a job, findings.py what is wrong by node
outputs      what its nodes have made; asset_references.py what stands for files in a workflow
listing      lists of jobs, and the labels they are found by
"""
