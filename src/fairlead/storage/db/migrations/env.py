"""Alembic's entry: migrates the database whose connection `migrate.py` hands over."""

from alembic import context

from fairlead.storage.db.migrate import REVISION_TABLE
from fairlead.storage.db.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=True,
    version_table=REVISION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
