"""When a model was last tried at its vendor, and by which version."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0033"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """A server of the version before shows none of it."""
    op.create_table(
        "model_verifications",
        sa.Column("model_id", sa.String(200), nullable=False),
        sa.Column("provider", sa.String(64), nullable=False, comment="who served it"),
        sa.Column("verified_at", _INT, nullable=False),
        sa.Column("version", sa.String(64), nullable=False, comment="of the program that tried it"),
        sa.Column("address", sa.String(300), nullable=False, comment="of the provider's API"),
        sa.Column("run_id", sa.String(36), nullable=False),
        sa.Column("charge", _INT, nullable=False),
        sa.PrimaryKeyConstraint("model_id", "provider", name="pk_model_verifications"),
    )
