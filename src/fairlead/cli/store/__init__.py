"""Commands for what an installation keeps: which store its files are in, its backup, and its restore."""
