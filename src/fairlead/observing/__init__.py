"""What is worth knowing about a running server: one closed list of observations, and who listens to it.

    observations  every observation, and Observer, which receives them
    logs metrics traces   the listeners; run_meters.py and loop_meter.py are metrics of runs and of the event loop

It imports the domain. No behaviour hangs on an observation, and none carries a secret or the body of a call.
"""
