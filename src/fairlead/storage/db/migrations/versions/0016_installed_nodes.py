"""How often each published node was installed."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Nobody has counted so far."""
    op.add_column("published_nodes", sa.Column("installs", _INT, server_default=sa.text("0"), nullable=False))
