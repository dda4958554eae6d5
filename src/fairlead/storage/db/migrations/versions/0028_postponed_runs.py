"""Queued runs that go back to wait for their partner: not before when, and how often they have."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_WAITING = sa.text("state = 'parked' OR state = 'released'")
_COLUMNS = {
    "not_before": "when it may get a slot, at the earliest",
    "postponed": "how often it went back to wait",
    "tries": "how often of these its partner was called",
}


def upgrade() -> None:
    """Runs there are may be given a slot at once.

    A server of the version before gives one whatever the columns say, by the index that stays.
    """
    for name, told in _COLUMNS.items():
        op.add_column("runs", sa.Column(name, _INT, nullable=False, server_default=sa.text("0"), comment=told))
    op.create_index(
        "ix_runs_waiting_until",
        "runs",
        ["workspace_id", "place", "hold", "not_before"],
        sqlite_where=_WAITING,
        postgresql_where=_WAITING,
    )
