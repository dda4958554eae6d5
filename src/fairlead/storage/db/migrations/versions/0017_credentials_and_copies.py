"""Deployments say which kinds of tokens they take, and releases which copies of packs they have."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Deployments that there are take all kinds, and releases have no copies: they use the packs as they are."""
    told = "JSON array of the kinds of tokens it takes beside keys; null for all"
    op.add_column("deployments", sa.Column("token_kinds", sa.Text(), comment=told))
    kept = "JSON array of the copies of its packs; null before they are made, or before 0017"
    op.add_column("releases", sa.Column("copies", sa.Text(), comment=kept))
