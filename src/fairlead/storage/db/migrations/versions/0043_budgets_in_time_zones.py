"""When periods of budgets begin: a time zone, a time of day and a weekday."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Budgets that exist begin at midnight in UTC. A server of the version before begins all of them so."""
    _add("time_zone", sa.String(64), "UTC", "whose calendar its periods are by")
    integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    _add("reset_minute", integer, sa.text("0"), "of the day; when a period begins")
    _add("reset_weekday", sa.String(9), "monday", "on which one of a week does")
    _add("since_at", integer, sa.text("0"), "when on `since`; 0 as the day began")
    _add("spent_before", integer, sa.text("0"), "charges of `since` before that")
    is_charged = sa.text("charge > 0")
    columns = ["workspace_id", "finished_at"]
    op.create_index("ix_runs_charged", "runs", columns, sqlite_where=is_charged, postgresql_where=is_charged)


def _add(
    name: str, kind: sa.types.TypeEngine[int] | sa.types.TypeEngine[str], default: str | sa.TextClause, comment: str
) -> None:
    op.add_column("budgets", sa.Column(name, kind, nullable=False, server_default=default, comment=comment))
