"""An index of what was paid in, for statements of a month."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_IS_PAID_IN = sa.text("run_id IS NULL")


def upgrade() -> None:
    """Entries of runs are not in it, and cost nothing more."""
    op.create_index(
        "ix_ledger_entries_paid_in",
        "ledger_entries",
        ["workspace_id", "id"],
        sqlite_where=_IS_PAID_IN,
        postgresql_where=_IS_PAID_IN,
    )
