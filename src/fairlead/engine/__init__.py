"""How a workflow is executed, and the processes it is executed in.

`hosts` has both sides of an engine process: the server's pool, and the program that is the process. Inside one, `graph`
checks a workflow and executes it, `nodes` declares what can stand in one, `packs` loads nodes of others, and `media`
and `texts` are what nodes work on. Each may import those named after it, `domain` and `processes`, and nothing else of
Fairlead: the engine knows neither workspaces nor money. A server imports the server's side of `hosts`, and of `packs`
what finds and copies them; decoders of media and code of packs stay out of its process.
"""
