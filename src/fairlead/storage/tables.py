"""The tables, once for both dialects. Times are milliseconds since 1970 (UTC), money is 10^-8 dollars.

Ids are UUIDs as text: SQLite has no other form, and one form keeps exports and logs comparable.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

_UUID = String(36)
_INT = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits in both; SQLite numbers its rows by themselves only in a column spelled INTEGER."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("billing", String(16), nullable=False),
    Column("balance", _INT, nullable=False),
    Column("held", _INT, nullable=False),
    Column("cap", _INT, nullable=False, comment="what a postpaid workspace may owe"),
    Column("in_flight", _INT, nullable=False),
    Column("in_flight_limit", _INT, nullable=False, comment="-1 none, 0 blocked"),
    Column("models", Text, comment="JSON array of allowed model patterns; null allows all"),
    Column("providers", Text, comment="JSON array of allowed providers; null allows all"),
    Column("gates", Text, nullable=False, comment="JSON object: rollout switch -> on or off"),
    Column("created_at", _INT, nullable=False),
    CheckConstraint("held >= 0", name="held"),
    CheckConstraint("in_flight >= 0", name="in_flight"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("digest", String(64), nullable=False, unique=True, comment="SHA-256 of the key; the key itself is not kept"),
    Column("hint", String(16), nullable=False, comment="first and last characters, to tell keys apart"),
    Column("label", String(100), nullable=False),
    Column("models", Text, comment="JSON array of allowed model patterns; null allows all"),
    Column("created_at", _INT, nullable=False),
    Column("revoked_at", _INT),
)

servers = Table(
    "servers",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("seen_at", _INT, nullable=False, comment="renewed by the living; runs of the silent are taken over"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("key_id", _UUID),
    Column("model_id", String(193), nullable=False),
    Column("provider", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempt", _INT, nullable=False),
    Column("server_id", _UUID, nullable=False),
    Column("handle", Text, comment="the partner's name for the work"),
    Column("hold", _INT, nullable=False),
    Column("charge", _INT),
    Column("rate_version", String(64), nullable=False),
    Column("reason", String(64), comment="completed, or the bucket of the failure"),
    Column("upstream_status", _INT),
    Column("caller_left", Boolean, nullable=False),
    Column("request", LargeBinary, comment="kept while the run is live"),
    Column("created_at", _INT, nullable=False),
    Column("finished_at", _INT),
)
Index("ix_runs_live", runs.c.server_id, sqlite_where=runs.c.finished_at.is_(None),
      postgresql_where=runs.c.finished_at.is_(None))  # fmt: skip
Index("ix_runs_lost", runs.c.finished_at, sqlite_where=runs.c.state == "lost", postgresql_where=runs.c.state == "lost")

ledger_entries = Table(
    "ledger_entries",
    metadata,
    Column("id", _INT, primary_key=True, autoincrement=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("run_id", _UUID, ForeignKey("runs.id")),
    Column("phase", _INT, comment="1 the hold, 2 its end: the database itself refuses a second of either"),
    Column("kind", String(16), nullable=False),
    Column("balance_change", _INT, nullable=False),
    Column("held_change", _INT, nullable=False),
    Column("reason", String(200), nullable=False),
    Column("rate_version", String(64)),
    Column("created_at", _INT, nullable=False),
)
Index("uq_ledger_entries_run_phase", ledger_entries.c.run_id, ledger_entries.c.phase, unique=True)
