"""A server: its settings, its wiring, the web server in front, and its life from start to end.

`read_settings` (settings) reads the options, `installation` the folders, secrets and providers they name;
`running_server` (lifecycle) wires all of it, in the order of `base`, `runs`, `jobs` and `http_app`, and stops it in the
reverse; `WebServer` (web) serves it, with `SocketProtocol` (sockets) for WebSockets; `Drain` (drain) says when nothing
new is to begin. May import every package but `cli`, and is imported by `cli` alone: others are given the values they
need, never the settings.
"""
