"""The entries of a workspace without an index of their own."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Only the command line lists them; the index was written twice for every run."""
    op.drop_index("ix_ledger_entries_workspace_id", table_name="ledger_entries")
