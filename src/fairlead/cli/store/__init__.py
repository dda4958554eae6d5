"""Commands for the stored files of an installation, and for its backup and restore."""
