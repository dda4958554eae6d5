"""Budgets of workspaces, teams, keys and models in a table of their own, alerts, and limits of requests."""

import datetime
import uuid

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_UUID = sa.String(length=36)
_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Budgets of keys are carried over with what is held and spent; stop servers of the version before first."""
    op.add_column("api_keys", sa.Column("team", sa.String(64), comment="whose budgets its runs count against"))
    op.add_column(
        "workspaces",
        sa.Column(
            "budgets", _INT, nullable=False, server_default=sa.text("0"), comment="how many it has; 0 looks up none"
        ),
    )
    op.alter_column("rate_windows", "workspace_id", new_column_name="meter_id")
    _make_budgets()
    _make_alerts()
    _make_rate_limits()
    _carry_over(op.get_bind())
    op.drop_column("api_keys", "budget")
    op.drop_column("api_keys", "budget_period")


def _of_workspace(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f(f"fk_{name}_workspace_id_workspaces"))


def _make_budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("scope", sa.String(16), nullable=False, comment="workspace, team, key or model"),
        sa.Column(
            "subject", sa.String(193), nullable=False, comment="which team, key or model; empty for the workspace"
        ),
        sa.Column(
            "target", sa.String(256), nullable=False, comment="workspace, scope and subject in one: how runs look it up"
        ),
        sa.Column("period", sa.String(8), nullable=False, comment="day, month or total"),
        sa.Column("amount", _INT, nullable=False, comment="what its runs may cost in a period"),
        sa.Column("held", _INT, server_default=sa.text("0"), nullable=False, comment="what is held for its live runs"),
        sa.Column("spent", _INT, server_default=sa.text("0"), nullable=False, comment="their charges from `since` on"),
        sa.Column(
            "since", sa.String(10), nullable=False, comment="the first day (UTC) of the period that `spent` is of"
        ),
        sa.Column("thresholds", sa.Text(), nullable=False, comment="JSON array of percents at which people are told"),
        sa.Column(
            "is_enforced",
            sa.Boolean(),
            server_default=sa.true(),
            nullable=False,
            comment="whether runs past it are refused",
        ),
        sa.Column(
            "told_refusal", sa.Boolean(), server_default=sa.false(), nullable=False, comment="told in this period"
        ),
        sa.Column("created_at", _INT, nullable=False),
        _of_workspace("budgets"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
    )
    op.create_index("uq_budgets_target_period", "budgets", ["target", "period"], unique=True)
    op.create_index("ix_budgets_workspace_id_id", "budgets", ["workspace_id", "id"])


def _make_alerts() -> None:
    op.create_table(
        "alert_channels",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False, comment="webhook, email or slack"),
        sa.Column("sealed", sa.LargeBinary(), nullable=False, comment="the address, as provider_keys.sealed"),
        sa.Column("shown", sa.String(300), nullable=False, comment="of the address, what may be shown"),
        sa.Column("created_at", _INT, nullable=False),
        _of_workspace("alert_channels"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_channels")),
    )
    op.create_index(op.f("ix_alert_channels_workspace_id"), "alert_channels", ["workspace_id"])
    op.create_table(
        "alerts",
        sa.Column("id", _INT, autoincrement=True, nullable=False),
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False, comment="threshold, refusal, anomaly or test"),
        sa.Column("budget_id", _UUID, comment="null for an anomaly; the budget may have been deleted since"),
        sa.Column("once", sa.String(200), nullable=False, comment="names what is told once"),
        sa.Column("figures", sa.Text(), nullable=False, comment="JSON object of what it says"),
        sa.Column("at", _INT, nullable=False),
        _of_workspace("alerts"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
        sa.UniqueConstraint("once", name=op.f("uq_alerts_once")),
    )
    op.create_index("ix_alerts_workspace_id_id", "alerts", ["workspace_id", "id"])
    op.create_table(
        "alert_deliveries",
        sa.Column("id", _INT, autoincrement=True, nullable=False),
        sa.Column("alert_id", _INT, nullable=False),
        sa.Column(
            "channel_id", _UUID, nullable=False, comment="where nothing is left to do, it may have been deleted since"
        ),
        sa.Column("tries", _INT, server_default=sa.text("0"), nullable=False),
        sa.Column("next_at", _INT, comment="null when nothing more is tried"),
        sa.Column("delivered_at", _INT),
        sa.Column("gave_up_at", _INT),
        sa.Column("status", _INT, comment="what the receiver answered to the last try; null where it did not"),
        sa.Column("error", sa.String(200)),
        sa.ForeignKeyConstraint(["alert_id"], ["alerts.id"], name=op.f("fk_alert_deliveries_alert_id_alerts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_deliveries")),
    )
    op.create_index(op.f("ix_alert_deliveries_alert_id"), "alert_deliveries", ["alert_id"])
    is_due = sa.text("next_at IS NOT NULL")
    op.create_index(
        "ix_alert_deliveries_due", "alert_deliveries", ["next_at"], sqlite_where=is_due, postgresql_where=is_due
    )


def _make_rate_limits() -> None:
    op.create_table(
        "rate_limits",
        sa.Column("id", _UUID, nullable=False, comment="also of its window in rate_windows"),
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("scope", sa.String(16), nullable=False, comment="key or model"),
        sa.Column("subject", sa.String(193), nullable=False, comment="which key or model"),
        sa.Column("per_minute", _INT, nullable=False),
        sa.Column("created_at", _INT, nullable=False),
        _of_workspace("rate_limits"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rate_limits")),
    )
    op.create_index("uq_rate_limits_subject", "rate_limits", ["workspace_id", "scope", "subject"], unique=True)


def _carry_over(connection: sa.Connection) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    starts = {"day": today, "month": today.replace(day=1), "total": datetime.date.min}
    keys = connection.execute(
        sa.text(
            "SELECT id, workspace_id, held, budget, budget_period, created_at FROM api_keys WHERE budget IS NOT NULL"
        )
    ).all()
    for key in keys:
        of_key = {"workspace": key.workspace_id, "key": key.id, "since": starts[key.budget_period].isoformat()}
        spent = connection.execute(
            sa.text(
                "SELECT COALESCE(SUM(charge), 0) FROM usage_days"
                " WHERE workspace_id = :workspace AND key_id = :key AND day >= :since"
            ),
            of_key,
        ).scalar_one()
        connection.execute(
            sa.text(
                "INSERT INTO budgets (id, workspace_id, scope, subject, target, period, amount, held, spent, since,"
                " thresholds, created_at) VALUES (:id, :workspace, 'key', :key, :target, :period, :amount, :held,"
                " :spent, :since, '[50,80,100]', :created_at)"
            ),
            {
                **of_key,
                "id": str(uuid.uuid4()),
                "target": f"{key.workspace_id} key {key.id}",
                "period": key.budget_period,
                "amount": key.budget,
                "held": key.held,
                "spent": int(spent),
                "created_at": key.created_at,
            },
        )
    connection.execute(
        sa.text(
            "UPDATE workspaces SET budgets = (SELECT COUNT(*) FROM budgets WHERE budgets.workspace_id = workspaces.id)"
        )
    )
