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
    false,
    text,
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
    Column("costly_in_flight", _INT, nullable=False, server_default=text("0"), comment="of them, the costly ones"),
    Column("commitment_limit", _INT, comment="what runs in flight may be held for in all; null none"),
    Column("tier", String(32), comment="where the two limits came from"),
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
    Column("credential", String(16), comment="the label of ours that the work was taken under"),
    Column("hold", _INT, nullable=False),
    Column("charge", _INT),
    Column("rate_version", String(64), nullable=False),
    Column("operation", String(64), comment="what the run is billed as, where its model has several operations"),
    Column("strict", Boolean, nullable=False, server_default=false(), comment="the request is the provider's own form"),
    Column("byok", Boolean, nullable=False, server_default=false(), comment="run with the workspace's own key"),
    Column("redirected", Boolean, nullable=False, server_default=false(), comment="it went on at another provider"),
    Column("idempotency_id", String(64), comment="the key this run was called under"),
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
# A later run may name the work of an earlier one by its handle, where operations depend on it.
Index("ix_runs_handle", runs.c.workspace_id, runs.c.handle,
      sqlite_where=runs.c.operation.is_not(None), postgresql_where=runs.c.operation.is_not(None))  # fmt: skip

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("id", String(64), primary_key=True, comment="SHA-256 of the workspace's id and the caller's key"),
    Column("fingerprint", String(64), nullable=False, comment="SHA-256 of method, path, query and body"),
    Column("run_id", _UUID, nullable=False),
    Column("expires_at", _INT, nullable=False, index=True),
)

run_results = Table(
    "run_results",
    metadata,
    Column("run_id", _UUID, ForeignKey("runs.id"), primary_key=True),
    Column("fault", LargeBinary, comment="the failure, as JSON; null for a result"),
    Column("content_type", String(256)),
    Column("content", LargeBinary, comment="a result small enough to be kept here"),
    Column("blob", String(64), comment="else the blob that holds it"),
    Column("size", _INT),
    Column("fallback_provider", String(64)),
    Column("dropped", Text, comment="JSON array of what a translation left out"),
    Column("replayable_until", _INT, comment="null for as long as it is kept; 0 never"),
    Column("expires_at", _INT, nullable=False, index=True),
)

assets = Table(
    "assets",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("run_id", _UUID, nullable=False),
    Column("blob", String(64), nullable=False, index=True, comment="SHA-256 of the bytes, which names the blob"),
    Column("size", _INT, nullable=False),
    Column("content_type", String(256), nullable=False),
    Column("name", String(128), nullable=False, comment="what a download is called"),
    Column("created_at", _INT, nullable=False),
    Column("expires_at", _INT, nullable=False, index=True),
)

provider_keys = Table(
    "provider_keys",
    metadata,
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), primary_key=True),
    Column("provider", String(64), primary_key=True),
    Column("sealed", LargeBinary, nullable=False, comment="AES-GCM: nonce and ciphertext"),
    Column("hint", String(4), nullable=False, comment="the last characters, to tell keys apart"),
    Column("created_at", _INT, nullable=False),
)

rate_windows = Table(
    "rate_windows",
    metadata,
    Column("workspace_id", _UUID, primary_key=True),
    Column("span", String(16), primary_key=True, comment="minute or day"),
    Column("started_at", _INT, primary_key=True, autoincrement=False),
    Column("requests", _INT, nullable=False),
)

ledger_entries = Table(
    "ledger_entries",
    metadata,
    Column("id", _INT, primary_key=True, autoincrement=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("run_id", _UUID, ForeignKey("runs.id")),
    Column("phase", _INT, comment="1 the hold, 2 its end, 3 and up each raise: no second of any"),
    Column("kind", String(16), nullable=False),
    Column("balance_change", _INT, nullable=False),
    Column("held_change", _INT, nullable=False),
    Column("reason", String(200), nullable=False),
    Column("rate_version", String(64)),
    Column("created_at", _INT, nullable=False),
)
Index("uq_ledger_entries_run_phase", ledger_entries.c.run_id, ledger_entries.c.phase, unique=True)
