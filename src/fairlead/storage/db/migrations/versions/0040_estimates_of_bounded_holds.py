"""The most that a run was estimated to cost, where it is held for less."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Runs there are were held for the most; so are those that a server of the version before admits."""
    told = "the most it was estimated to cost; null where it was held for that"
    op.add_column("runs", sa.Column("most", _INT, comment=told))
