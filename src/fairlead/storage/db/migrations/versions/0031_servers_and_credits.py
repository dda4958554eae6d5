"""For which tables the version of a server was made, and the idempotency keys of credits."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """A server of the version before leaves both empty, and books a credit whatever its key."""
    told = "of the tables that its version was made for; null where it is of a version before 0031"
    op.add_column("servers", sa.Column("revision", sa.String(32), comment=told))
    told = "SHA-256 of the workspace's id and the caller's key"
    op.create_table(
        "credit_keys",
        sa.Column("id", sa.String(64), nullable=False, comment=told),
        sa.Column("entry_id", _INT, nullable=False, comment="what was booked with it"),
        sa.PrimaryKeyConstraint("id", name="pk_credit_keys"),
    )
