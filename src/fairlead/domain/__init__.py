"""Nouns and rules: what is true without a clock, a socket or a table.

    work runs jobs        states, entries and rules of queued work, and of its two kinds
    ledger                prices, holds and charges, budgets, and who may have a slot
    accounts              who calls, and what belongs to a workspace
    assets                files: of results and of workflows
    catalog               models, their schemas, who serves them, and what nodes are made of them
    deployments registry  nouns for which one module is enough
    faults                everything that can be refused or go wrong, and its bucket

The other modules are what these share: days, pointers and conditions on documents, files that people write.

It imports nothing else of Fairlead: no I/O, no clock, no randomness, no framework. A rule is given what it needs.
"""
