"""What is released, by workspace: workers take it in turn over workspaces, and no more by age over all."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_RELEASED = sa.text("state = 'released'")


def upgrade() -> None:
    """A server of the version before finds what is released by the same condition, and sorts it by age itself."""
    for table, number in (("runs", "place"), ("jobs", "number")):
        op.drop_index(f"ix_{table}_released", table_name=table)
        op.create_index(
            f"ix_{table}_released",
            table,
            ["workspace_id", number],
            sqlite_where=_RELEASED,
            postgresql_where=_RELEASED,
        )
