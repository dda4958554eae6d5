"""For which tables the version of a server was made, so that none is upgraded under servers that could not go on."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A server of the version before leaves it empty."""
    told = "of the tables that its version was made for; null where it is of a version before 0031"
    op.add_column("servers", sa.Column("revision", sa.String(32), comment=told))
