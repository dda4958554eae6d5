"""Commands for what a workspace has: budgets, keys at providers, limits of requests, and alert channels."""
