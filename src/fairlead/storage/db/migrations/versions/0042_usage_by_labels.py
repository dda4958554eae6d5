"""What runs have cost by their labels."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Runs have had labels only since the version of this table; a server of the version before counts none."""
    op.create_table(
        "label_days",
        sa.Column("workspace_id", sa.String(36), nullable=False),
        sa.Column("day", sa.String(10), nullable=False, comment="the UTC date on which the runs ended"),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("value", sa.Text(), nullable=False, comment="= and the value; empty for all runs with the name"),
        sa.Column("runs", _INT, nullable=False),
        sa.Column("succeeded", _INT, nullable=False),
        sa.Column("charge", _INT, nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_label_days_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("workspace_id", "day", "name", "value", name="pk_label_days"),
    )
