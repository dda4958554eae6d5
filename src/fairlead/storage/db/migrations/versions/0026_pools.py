"""Pools: which servers may claim a queued run or a job."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_RELEASED = sa.text("state = 'released'")
_NAME = sa.String(32)


def upgrade() -> None:
    """Rows there are have the default pool, without being written again.

    A server of the version before claims from every pool, by the indexes that stay.
    """
    default = sa.text("'default'")
    for table, number, told in (
        ("runs", "place", "whose servers execute a queued run"),
        ("jobs", "number", "whose servers execute it"),
    ):
        op.add_column(table, sa.Column("pool", _NAME, nullable=False, server_default=default, comment=told))
        op.create_index(
            f"ix_{table}_released_pool",
            table,
            ["pool", "workspace_id", number],
            sqlite_where=_RELEASED,
            postgresql_where=_RELEASED,
        )
    told = "where its jobs are executed; null where other rules say it"
    op.add_column("deployments", sa.Column("pool", _NAME, comment=told))
    told = "JSON, its pools by kind of work; null where it is of a version without pools"
    op.add_column("servers", sa.Column("pools", sa.Text, comment=told))
