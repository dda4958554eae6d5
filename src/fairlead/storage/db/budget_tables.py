"""The tables of budgets, of the usage that only they and reports count, of alerts, and of limits of requests."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    false,
    text,
    true,
)

from fairlead.storage.db.tables import metadata, partial_index

_UUID: Final = String(36)
_INT: Final = BigInteger().with_variant(Integer(), "sqlite")

budgets = Table(
    "budgets",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("scope", String(16), nullable=False, comment="workspace, team, key or model"),
    Column("subject", String(193), nullable=False, comment="which team, key or model; empty for the workspace"),
    Column("target", String(256), nullable=False, comment="workspace, scope and subject in one: how runs look it up"),
    Column("period", String(8), nullable=False, comment="day, month or total"),
    Column("amount", _INT, nullable=False, comment="what its runs may cost in a period"),
    Column("held", _INT, nullable=False, server_default=text("0"), comment="what is held for its live runs"),
    Column("spent", _INT, nullable=False, server_default=text("0"), comment="their charges from `since` on"),
    Column("since", String(10), nullable=False, comment="the first day (UTC) of the period that `spent` is of"),
    Column("thresholds", Text, nullable=False, comment="JSON array of percents at which people are told"),
    Column("is_enforced", Boolean, nullable=False, server_default=true(), comment="whether runs past it are refused"),
    Column("told_refusal", Boolean, nullable=False, server_default=false(), comment="told in this period"),
    Column("created_at", _INT, nullable=False),
    Column("additions", Text, nullable=False, server_default="[]", comment="JSON array of what is added for a time"),
    Column("time_zone", String(64), nullable=False, server_default="UTC", comment="whose calendar its periods are by"),
    Column("reset_minute", _INT, nullable=False, server_default=text("0"), comment="of the day; when a period begins"),
    Column("reset_weekday", String(9), nullable=False, server_default="monday", comment="on which one of a week does"),
    Column("since_at", _INT, nullable=False, server_default=text("0"), comment="when on `since`; 0 as the day began"),
    Column("spent_before", _INT, nullable=False, server_default=text("0"), comment="charges of `since` before that"),
)
Index("uq_budgets_target_period", budgets.c.target, budgets.c.period, unique=True)
Index("ix_budgets_workspace_id_id", budgets.c.workspace_id, budgets.c.id)

label_days = Table(
    "label_days",
    metadata,
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), primary_key=True),
    Column("day", String(10), primary_key=True, comment="the UTC date on which the runs ended"),
    Column("name", String(40), primary_key=True),
    Column("value", Text, primary_key=True, comment="= and the value; empty for all runs with the name"),
    Column("runs", _INT, nullable=False),
    Column("succeeded", _INT, nullable=False),
    Column("charge", _INT, nullable=False),
)

alert_channels = Table(
    "alert_channels",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("kind", String(16), nullable=False, comment="webhook, email or slack"),
    Column("sealed", LargeBinary, nullable=False, comment="the address, as provider_keys.sealed"),
    Column("shown", String(300), nullable=False, comment="of the address, what may be shown"),
    Column("created_at", _INT, nullable=False),
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", _INT, primary_key=True, autoincrement=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("kind", String(16), nullable=False, comment="threshold, refusal, anomaly or test"),
    Column("budget_id", _UUID, comment="null for an anomaly; the budget may have been deleted since"),
    Column("once", String(200), nullable=False, unique=True, comment="names what is told once"),
    Column("figures", Text, nullable=False, comment="JSON object of what it says"),
    Column("at", _INT, nullable=False),
)
Index("ix_alerts_workspace_id_id", alerts.c.workspace_id, alerts.c.id)

alert_deliveries = Table(
    "alert_deliveries",
    metadata,
    Column("id", _INT, primary_key=True, autoincrement=True),
    Column("alert_id", _INT, ForeignKey("alerts.id"), nullable=False, index=True),
    Column("channel_id", _UUID, nullable=False, comment="where nothing is left to do, it may have been deleted since"),
    Column("tries", _INT, nullable=False, server_default=text("0")),
    Column("next_at", _INT, comment="null when nothing more is tried"),
    Column("delivered_at", _INT),
    Column("gave_up_at", _INT),
    Column("status", _INT, comment="what the receiver answered to the last try; null where it did not"),
    Column("error", String(200)),
)
partial_index("ix_alert_deliveries_due", alert_deliveries.c.next_at, where=alert_deliveries.c.next_at.is_not(None))

rate_limits = Table(
    "rate_limits",
    metadata,
    Column("id", _UUID, primary_key=True, comment="also of its window in rate_windows"),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("scope", String(16), nullable=False, comment="key or model"),
    Column("subject", String(193), nullable=False, comment="which key or model"),
    Column("per_minute", _INT, nullable=False),
    Column("created_at", _INT, nullable=False),
)
Index("uq_rate_limits_subject", rate_limits.c.workspace_id, rate_limits.c.scope, rate_limits.c.subject, unique=True)
