"""Indexes by which the runs and the ledger of one workspace are listed, whatever others have."""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Each index takes some seconds a million rows to make."""
    op.create_index("ix_runs_workspace_id_id", "runs", ["workspace_id", "id"])
    op.create_index("ix_ledger_entries_workspace_id_id", "ledger_entries", ["workspace_id", "id"])
