"""Observations of a running server: one closed list, and its listeners.

    observations  every observation, and Observer, which receives them
    logs metrics traces   the listeners; run_meters.py, place_meter.py, loop_meter.py and latency_meters.py are metrics
                  of runs and what they wait for, of the event loop, and of calls and transactions;
                  installation_meter.py has what a look has shown

It imports the domain. No behaviour hangs on an observation, and none carries a secret or the body of a call.
"""
