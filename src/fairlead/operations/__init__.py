"""Verbs: each opens its transaction, asks the rules, and calls the ways out."""
