"""Jobs: submitted, executed, watched, cancelled, read.

    submit       a workflow checked and made durable; submissions.py does so as the jobs API has it
    work         jobs as work: begun, stopped, expired, taken over
    execute      an engine host does the work, the books have the last word, and only then is it told
    callbacks    what a host asks; patience.py repeats what an outage keeps from an answer
    models       partners' models, run for nodes; model_files.py exchanges their files, model_faults.py words failures
    cancel       ends a job that waits, stops one that is executed; abandon.py ends those of deleted deployments
    read         one job, those of a workspace, its events; watch.py streams it, outputs.py shows what it has made
    nodes        the classes of nodes there are
    store        the journal of jobs, and their large workflows

It imports every other noun but `registry`, and none imports it. Code of nodes and pictures of callers are left to
engine hosts, and a job's end is published only when it is durable.
"""
