"""The markups of workspaces."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Workspaces there are have none; a server of the version before charges by the markup of its settings."""
    told = "percent added to list prices, such as -7.5; null that of the settings"
    op.add_column("workspaces", sa.Column("markup", sa.String(8), comment=told))
