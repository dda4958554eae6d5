"""What each workspace keeps: counted by triggers, and limited by a setting or by a limit of its own."""

import sqlalchemy as sa
from alembic import op

from fairlead.storage.db.schema import count_all, make_triggers

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """What servers of the version before keep and delete is counted as well: the database does it."""
    op.create_table(
        "storage_usage",
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("bytes", _INT, server_default=sa.text("0"), nullable=False),
        sa.Column("files", _INT, server_default=sa.text("0"), nullable=False),
        sa.Column("bytes_limit", _INT, comment="its own; 0 none, null that of the settings"),
        sa.Column("files_limit", _INT, comment="likewise"),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_storage_usage_workspace_id_workspaces")
        ),
        sa.PrimaryKeyConstraint("workspace_id", name=op.f("pk_storage_usage")),
    )
    make_triggers(op.get_bind())
    count_all(op.get_bind())
