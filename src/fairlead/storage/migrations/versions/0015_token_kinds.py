"""Deployments say which kinds of tokens they take; those there are take all, as before."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A column that is null takes nothing away from anybody."""
    told = "JSON array of the kinds of tokens it takes beside keys; null for all"
    op.add_column("deployments", sa.Column("token_kinds", sa.Text(), comment=told))
