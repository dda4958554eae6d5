"""A job: one execution of a workflow, from its submission to its outputs."""
