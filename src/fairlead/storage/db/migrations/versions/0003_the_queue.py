"""The queue: parked and released runs, cancellation, webhooks, usage by day, budgets of keys, what befell a run."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_WAITING = "state = 'parked' OR state = 'released'"
_ZERO = sa.text("0")
_DAYS = {
    "postgresql": "to_char(to_timestamp(finished_at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    "sqlite": "date(finished_at / 1000, 'unixepoch')",
}
_USAGE = """
    INSERT INTO usage_days (workspace_id, day, key_id, model_id, runs, succeeded, charge)
    SELECT workspace_id, DAY, COALESCE(key_id, ''), model_id, COUNT(*),
           SUM(CASE WHEN state = 'succeeded' THEN 1 ELSE 0 END), COALESCE(SUM(charge), 0)
      FROM runs WHERE finished_at IS NOT NULL
     GROUP BY workspace_id, DAY, COALESCE(key_id, ''), model_id
"""


def upgrade() -> None:
    _widen_workspaces()
    _widen_keys()
    _widen_runs()
    _keep_events()
    _keep_webhooks()
    _count_usage()


def _widen_workspaces() -> None:
    for column in (
        sa.Column("waiting", _INT, nullable=False, server_default=_ZERO, comment="queued runs no worker has claimed"),
        sa.Column("parked", _INT, nullable=False, server_default=_ZERO, comment="of them, those without a slot"),
        sa.Column("parked_held", _INT, nullable=False, server_default=_ZERO, comment="what is held for the parked"),
        sa.Column("last_place", _INT, nullable=False, server_default=_ZERO, comment="the newest number in the queue"),
        sa.Column(
            "webhook_secret", _INT, nullable=False, server_default=_ZERO, comment="which secret: counts rotations"
        ),
        sa.Column("webhook_rotated_at", _INT, comment="the secret before is good for a while after"),
    ):
        op.add_column("workspaces", column)


def _widen_keys() -> None:
    for column in (
        sa.Column("held", _INT, nullable=False, server_default=_ZERO, comment="what is held for its runs"),
        sa.Column("budget", _INT, comment="what its runs may cost in a period; null no bound"),
        sa.Column("budget_period", sa.String(length=8), comment="day, month or total"),
    ):
        op.add_column("api_keys", column)
    # Runs may be unfinished while their database is brought up to date.
    op.execute(
        "UPDATE api_keys SET held = COALESCE((SELECT SUM(runs.hold) FROM runs WHERE runs.key_id = api_keys.id"
        " AND runs.finished_at IS NULL), 0)"
    )


def _widen_runs() -> None:
    for column in (
        sa.Column("place", _INT, comment="its number in the queue of its workspace; null for a synchronous run"),
        sa.Column("least", _INT, comment="the least it was estimated to cost"),
        sa.Column("dropped", sa.Text(), comment="JSON array of what a translation left out"),
        sa.Column("base_url", sa.String(length=2048), comment="what the links of a queued run begin with"),
        sa.Column("claimed_at", _INT, comment="when a worker claimed a queued run"),
        sa.Column("cancel_requested_at", _INT),
    ):
        op.add_column("runs", column)
    op.drop_index("ix_runs_live", "runs")
    for name, columns, condition in (
        ("ix_runs_working", ["server_id"], "state = 'accepted' OR state = 'dispatched'"),
        ("ix_runs_waiting", ["workspace_id", "place", "hold"], _WAITING),
        ("ix_runs_queued_since", ["created_at"], "place IS NOT NULL AND finished_at IS NULL"),
        ("ix_runs_unwanted", ["server_id"], "cancel_requested_at IS NOT NULL AND finished_at IS NULL"),
        ("ix_runs_released", ["id"], "state = 'released'"),
    ):
        op.create_index(name, "runs", columns, sqlite_where=sa.text(condition), postgresql_where=sa.text(condition))


def _keep_events() -> None:
    op.create_table(
        "run_events",
        sa.Column("id", _INT, autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("attempt", _INT, nullable=False),
        sa.Column("detail", sa.String(length=300), nullable=False),
        sa.Column("at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_events_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_events")),
    )
    op.create_index("ix_run_events_run_id", "run_events", ["run_id"])


def _keep_webhooks() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("tries", _INT, nullable=False),
        sa.Column("next_at", _INT, comment="null while the run goes on, and when nothing more is tried"),
        sa.Column("delivered_at", _INT),
        sa.Column("gave_up_at", _INT),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_webhook_deliveries_run_id")),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_webhook_deliveries_workspace_id")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_webhook_deliveries")),
    )
    is_due = sa.text("next_at IS NOT NULL")
    op.create_index(
        "ix_webhook_deliveries_due", "webhook_deliveries", ["next_at"], sqlite_where=is_due, postgresql_where=is_due
    )
    op.create_table(
        "webhook_tries",
        sa.Column("id", _INT, autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("number", _INT, nullable=False),
        sa.Column("at", _INT, nullable=False),
        sa.Column("milliseconds", _INT, nullable=False),
        sa.Column("status", _INT, comment="what the receiver answered; null where it did not"),
        sa.Column("error", sa.String(length=200)),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_webhook_tries_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_tries")),
    )
    op.create_index("ix_webhook_tries_run_id", "webhook_tries", ["run_id"])


def _count_usage() -> None:
    op.create_table(
        "usage_days",
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False, comment="the UTC date on which the runs ended"),
        sa.Column("key_id", sa.String(length=36), nullable=False, comment="empty for tokens"),
        sa.Column("model_id", sa.String(length=193), nullable=False),
        sa.Column("runs", _INT, nullable=False),
        sa.Column("succeeded", _INT, nullable=False),
        sa.Column("charge", _INT, nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_usage_days_workspace_id")),
        sa.PrimaryKeyConstraint("workspace_id", "day", "key_id", "model_id", name=op.f("pk_usage_days")),
    )
    op.execute(_USAGE.replace("DAY", _DAYS[op.get_bind().dialect.name]))
