"""Commands for what a workspace has: budgets, keys at providers, limits of requests, and who is told of its money."""
