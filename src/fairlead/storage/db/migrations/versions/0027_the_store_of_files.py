"""Which store of files is the installation's."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is recorded: the first server that starts records its store."""
    op.create_table(
        "blob_store",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False, comment="1: there is one row"),
        sa.Column("marker", sa.String(36), nullable=False, comment="names an object that the installation's store has"),
        sa.Column("recorded_at", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_blob_store"),
    )
