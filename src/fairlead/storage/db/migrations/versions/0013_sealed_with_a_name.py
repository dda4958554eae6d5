"""Webhook secrets that are kept sealed, and which master secret the others derive from."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Secrets go on being derived until one is rotated; then what they were is kept."""
    op.create_table(
        "webhook_secrets",
        sa.Column("workspace_id", sa.String(36), sa.ForeignKey("workspaces.id"), primary_key=True),
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False, comment="counts rotations"),
        sa.Column("sealed", sa.LargeBinary(), nullable=False, comment="as provider_keys.sealed"),
    )
    op.create_table(
        "webhook_origin",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False, comment="1: there is one row"),
        sa.Column(
            "secret",
            sa.String(32),
            nullable=False,
            comment="the master secret that secrets without a row derive from",
        ),
    )
