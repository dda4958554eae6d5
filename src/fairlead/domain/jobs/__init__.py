"""A job: one execution of a workflow, from its submission to its outputs.

states       the life of a job, and the seven statuses that the jobs API shows of it
jobs         the records; entries.py is what is written, events.py what is told, progress.py how far one is
faults       what can be refused or fail; errors.py the kinds of errors of a job, findings.py what is wrong by node
filenames    names of files; assets.py, asset_references.py and outputs.py what stands for them
partner_*    what nodes of partners' models are, made of their schemas
"""
