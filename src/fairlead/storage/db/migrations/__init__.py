"""The history of the tables, as Alembic revisions."""
