"""Child processes of a server: how they are started, watched, ended, and started again.

Everything that runs beside the server is started here: engine processes, moderators, the built-in partner and the
simulator. `Child` is one process with all it starts; `Restarts` says when the next may begin; `Heartbeats` ends those
that are silent. `rpc` carries calls between a server and a child; their owner defines them, and no owner is known here.
"""
