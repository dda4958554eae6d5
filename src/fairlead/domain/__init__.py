"""Nouns and rules: what is true without a clock, a socket or a table.

    work runs jobs       states, entries and rules of queued work, and of its two kinds
    billing              prices, holds and charges, budgets, and who may have a slot
    catalog              models, their schemas, and who serves them
    callers assets deployments registry webhooks   the other nouns, a module each
    faults               everything that can be refused or go wrong, and its bucket

It imports nothing else of Fairlead: no I/O, no clock, no randomness, no framework. A rule is given what it needs.
"""
