"""Partners that ship with Fairlead: separate programs that speak their own wire protocols over HTTP."""
