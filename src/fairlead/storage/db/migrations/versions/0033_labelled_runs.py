"""The labels of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runs there are have none; a server of the version before leaves the column empty."""
    told = "JSON object of texts that the caller found it by; null for none"
    op.add_column("runs", sa.Column("labels", sa.Text(), comment=told))
