"""The tables, once for both dialects. Times are milliseconds since 1970 (UTC), money is 10^-8 dollars.

Ids are UUIDs as text: SQLite has no other form, and one form keeps exports and logs comparable.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TextClause,
    event,
    false,
    text,
)

_UUID = String(36)
_ORDERED_ID = String(45).with_variant(String(45, collation="C"), "postgresql")
"""Sorts by its bytes."""
_INT = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits in both; SQLite numbers its rows by themselves only in a column spelled INTEGER."""
_POOL = String(32)
_DEFAULT_POOL: Final = text("'default'")
_ZERO: Final = text("0")
_WHERE: Final = "where"
"""The key of an index's condition in its `info`."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def terms_of_key() -> tuple[Column[object], ...]:
    """The columns of the terms of a key, an API key or a personal one, and of the secret before its rotation."""
    return (
        Column("expires_at", _INT, comment="null for a key that does not end by itself"),
        Column("networks", Text, comment="from where it may be used, with commas; null for anywhere"),
        Column("previous_digest", String(64), index=True, comment="of the secret before its rotation"),
        Column("previous_until", _INT, comment="until when that secret is good"),
    )


def partial_index(
    name: str, *columns: Column[object], where: ColumnElement[bool] | TextClause, unique: bool = False
) -> None:
    """An index of some rows. The condition is compiled per dialect, and naming a dialect would load it: 2 MB."""
    Index(name, *columns, unique=unique, info={_WHERE: where})


@event.listens_for(metadata, "before_create")
def _say_where(_metadata: MetaData, connection: Connection, **_: object) -> None:
    """Give the dialect that makes the tables the conditions of its partial indexes."""
    for table in metadata.tables.values():
        for index in table.indexes:
            if _WHERE in index.info:
                index.dialect_options[connection.dialect.name]["where"] = index.info[_WHERE]


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
    Column("waiting", _INT, nullable=False, server_default=text("0"), comment="queued runs no worker has claimed"),
    Column("parked", _INT, nullable=False, server_default=text("0"), comment="of them, those without a slot"),
    Column("parked_held", _INT, nullable=False, server_default=text("0"), comment="what is held for the parked"),
    Column("last_place", _INT, nullable=False, server_default=text("0"), comment="the newest number in the queue"),
    Column("webhook_secret", _INT, nullable=False, server_default=text("0"), comment="which secret: counts rotations"),
    Column("webhook_rotated_at", _INT, comment="the secret before is good for a while after"),
    Column("subscription", String(32), nullable=False, server_default=text("'pro'"), comment="its tier for jobs"),
    Column("jobs_limit", _INT, nullable=False, server_default=text("5"), comment="parallel jobs; 0 inactive, -1 none"),
    Column("jobs_active", _INT, nullable=False, server_default=text("0"), comment="jobs with a slot"),
    Column("jobs_parked", _INT, nullable=False, server_default=text("0"), comment="jobs that wait for a slot"),
    Column("last_job", _INT, nullable=False, server_default=text("0"), comment="the newest number of a job"),
    Column("organization_id", String(100), comment="what its organization is called elsewhere; null unknown"),
    Column("sso_required", Boolean, nullable=False, server_default=false(), comment="whether its keys are governed"),
    Column("budgets", _INT, nullable=False, server_default=text("0"), comment="how many it has; 0 looks up none"),
    Column("markup", String(8), comment="percent added to list prices, such as -7.5; null that of the settings"),
    Column("created_at", _INT, nullable=False),
    Column("suspended_at", _INT, comment="null while it may run"),
    Column("delete_at", _INT, comment="when what it keeps is deleted; null for never"),
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
    Column("held", _INT, nullable=False, server_default=text("0"), comment="what is held for its runs"),
    Column("team", String(64), comment="whose budgets its runs count against"),
    Column("organization_id", String(100), comment="the organization of its account; null unknown"),
    Column("sso_required", Boolean, nullable=False, server_default=false(), comment="whether that governs the key"),
    Column("created_at", _INT, nullable=False),
    Column("revoked_at", _INT),
    *terms_of_key(),
)

servers = Table(
    "servers",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("seen_at", _INT, nullable=False, comment="renewed by the living; runs of the silent are taken over"),
    Column(
        "pools",
        Text,
        comment="JSON, its pools by kind of work; null where it is of a version without pools",
    ),
    Column(
        "revision",
        String(32),
        comment="of the tables that its version was made for; null where it is of a version before 0031",
    ),
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
    Column("place", _INT, comment="its number in the queue of its workspace; null for a synchronous run"),
    Column("least", _INT, comment="the least it was estimated to cost"),
    Column("most", _INT, comment="the most it was estimated to cost; null where it was held for that"),
    Column("dropped", Text, comment="JSON array of what a translation left out"),
    Column("base_url", String(2048), comment="what the links of a queued run begin with"),
    Column("claimed_at", _INT, comment="when a worker claimed a queued run"),
    Column("cancel_requested_at", _INT),
    Column("reason", String(64), comment="completed, or the bucket of the failure"),
    Column("upstream_status", _INT),
    Column("caller_left", Boolean, nullable=False),
    Column("request", LargeBinary, comment="kept while the run is live"),
    Column("request_blob", String(64), comment="the blob that holds it instead, where it is large"),
    Column("request_size", _INT, comment="how many bytes that blob has"),
    Column("created_at", _INT, nullable=False),
    Column("finished_at", _INT),
    Column("key_fingerprint", String(64), comment="SHA-256 of method, path, query and body"),
    Column("key_expires_at", _INT, comment="until when its idempotency key counts"),
    Column("forget_at", _INT, comment="when its key or its result expires, whichever is first"),
    Column("result_fault", LargeBinary, comment="the failure that is kept, as JSON; null for a result"),
    Column("result_content_type", String(256)),
    Column("result_blob", String(64), comment="the blob that holds the result, where it is large"),
    Column("result_size", _INT),
    Column("result_fallback_provider", String(64)),
    Column("result_dropped", Text, comment="JSON array of what the translation for its last provider left out"),
    Column("result_replayable_until", _INT, comment="null for as long as it is kept; 0 never"),
    Column("result_expires_at", _INT, comment="null where nothing is kept"),
    Column("result_content", LargeBinary, comment="a result that is small; last, so that readers need not pass it"),
    Column("pool", _POOL, nullable=False, server_default=_DEFAULT_POOL, comment="whose servers execute a queued run"),
    Column("not_before", _INT, nullable=False, server_default=_ZERO, comment="when it may get a slot, at the earliest"),
    Column("postponed", _INT, nullable=False, server_default=_ZERO, comment="how often it went back to wait"),
    Column("tries", _INT, nullable=False, server_default=_ZERO, comment="how often of these its partner was called"),
    Column("labels", Text, comment="JSON object of texts that the caller found it by; null for none"),
    Column("price_facts", Text, comment="JSON of what its price was made of, to price it again; null where unknown"),
)
Index("ix_runs_workspace_id_id", runs.c.workspace_id, runs.c.id)
_WAITING: Final = text("state = 'parked' OR state = 'released'")
_RELEASED: Final = text("state = 'released'")
partial_index("ix_runs_working", runs.c.server_id, where=text("state = 'accepted' OR state = 'dispatched'"))
# The next two are one index without and one with times: servers of the version before look by the first. Parked runs
# whose time has not come are skipped by the second, as what comes after the body in a row is expensive to read.
_OF_WAITING: Final = runs.c.workspace_id, runs.c.place, runs.c.hold
partial_index("ix_runs_waiting", *_OF_WAITING, where=_WAITING)
partial_index("ix_runs_waiting_until", *_OF_WAITING, runs.c.not_before, where=_WAITING)
# Worded differently from the others, so that PostgreSQL does not count places by it.
partial_index("ix_runs_queued_since", runs.c.created_at, where=text("place IS NOT NULL AND finished_at IS NULL"))
_UNWANTED: Final = text("cancel_requested_at IS NOT NULL AND finished_at IS NULL")
partial_index("ix_runs_unwanted", runs.c.server_id, where=_UNWANTED)
# The next two are one index without and one with pools: servers of the version before look by the first.
partial_index("ix_runs_released", runs.c.workspace_id, runs.c.place, where=_RELEASED)
partial_index("ix_runs_released_pool", runs.c.pool, runs.c.workspace_id, runs.c.place, where=_RELEASED)
partial_index("ix_runs_lost", runs.c.finished_at, where=runs.c.state == "lost")
CHARGED: Final = text("charge > 0")
partial_index("ix_runs_charged", runs.c.workspace_id, runs.c.finished_at, where=CHARGED)
_HAS_BLOB: Final = text("request_blob IS NOT NULL AND finished_at IS NULL")
partial_index("ix_runs_request_blob", runs.c.request_blob, where=_HAS_BLOB)
# A later run may name the work of an earlier one by its handle, where operations depend on it.
partial_index("ix_runs_handle", runs.c.workspace_id, runs.c.handle, where=runs.c.operation.is_not(None))
_HAS_KEY: Final = text("idempotency_id IS NOT NULL")
partial_index("uq_runs_idempotency", runs.c.idempotency_id, unique=True, where=_HAS_KEY)
partial_index("ix_runs_forget", runs.c.forget_at, where=text("forget_at IS NOT NULL"))
partial_index("ix_runs_result_blob", runs.c.result_blob, where=text("result_blob IS NOT NULL"))

run_events = Table(
    "run_events",
    metadata,
    Column("id", _INT, primary_key=True, autoincrement=True),
    Column("run_id", _UUID, ForeignKey("runs.id"), nullable=False, index=True),
    Column("kind", String(32), nullable=False),
    Column("attempt", _INT, nullable=False),
    Column("detail", String(300), nullable=False),
    Column("at", _INT, nullable=False),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("run_id", _UUID, ForeignKey("runs.id"), primary_key=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("url", Text, nullable=False),
    Column("tries", _INT, nullable=False),
    Column("next_at", _INT, comment="null while the run goes on, and when nothing more is tried"),
    Column("delivered_at", _INT),
    Column("gave_up_at", _INT),
)
_DUE: Final = webhook_deliveries.c.next_at.is_not(None)
partial_index("ix_webhook_deliveries_due", webhook_deliveries.c.next_at, where=_DUE)

webhook_tries = Table(
    "webhook_tries",
    metadata,
    Column("id", _INT, primary_key=True, autoincrement=True),
    Column("run_id", _UUID, ForeignKey("runs.id"), nullable=False, index=True),
    Column("number", _INT, nullable=False),
    Column("at", _INT, nullable=False),
    Column("milliseconds", _INT, nullable=False),
    Column("status", _INT, comment="what the receiver answered; null where it did not"),
    Column("error", String(200)),
)

usage_days = Table(
    "usage_days",
    metadata,
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), primary_key=True),
    Column("day", String(10), primary_key=True, comment="the UTC date on which the runs ended"),
    Column("key_id", _UUID, primary_key=True, comment="empty for tokens"),
    Column("model_id", String(193), primary_key=True),
    Column("runs", _INT, nullable=False),
    Column("succeeded", _INT, nullable=False),
    Column("charge", _INT, nullable=False),
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
    Column("meter_id", _UUID, primary_key=True),
    Column("span", String(16), primary_key=True, comment="minute or day"),
    Column("started_at", _INT, primary_key=True, autoincrement=False),
    Column("requests", _INT, nullable=False),
)

ledger_entries = Table(
    "ledger_entries",
    metadata,
    Column("id", _INT, primary_key=True, autoincrement=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("run_id", _UUID, ForeignKey("runs.id")),
    Column("phase", _INT, comment="1 the hold, 2 its end, 3 and up each raise: no second of any"),
    Column("kind", String(16), nullable=False),
    Column("balance_change", _INT, nullable=False),
    Column("held_change", _INT, nullable=False),
    Column("reason", String(200), nullable=False),
    Column("rate_version", String(64)),
    Column("created_at", _INT, nullable=False),
)
Index("ix_ledger_entries_workspace_id_id", ledger_entries.c.workspace_id, ledger_entries.c.id)
_PAID_IN: Final = text("run_id IS NULL")
partial_index("ix_ledger_entries_paid_in", ledger_entries.c.workspace_id, ledger_entries.c.id, where=_PAID_IN)
Index("uq_ledger_entries_run_phase", ledger_entries.c.run_id, ledger_entries.c.phase, unique=True)

jobs = Table(
    "jobs",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("number", _INT, nullable=False, comment="counts the jobs of its workspace from 1"),
    Column("key_id", _UUID, comment="the API key it was submitted with; null for a token"),
    Column("partner_key_id", _UUID, comment="the API key that pays for its partner nodes"),
    Column("state", String(16), nullable=False),
    Column("attempt", _INT, nullable=False),
    Column("server_id", _UUID, comment="the server that has it executed"),
    Column("workflow", LargeBinary, nullable=False, comment="the graph as JSON, deflated"),
    Column("extra", LargeBinary, nullable=False, comment="what came with it, as JSON, deflated; never a key"),
    Column("wanted", Text, nullable=False, comment="JSON array of the output nodes to make"),
    Column("nodes", _INT, nullable=False),
    Column("outputs", LargeBinary, comment="what nodes have shown, as JSON, deflated: ui and place by node"),
    Column("failure", LargeBinary, comment="how it ended where it did not succeed, as JSON"),
    Column("progress", Text, comment="how far it is, as JSON (domain/jobs/updates.py)"),
    Column("labels", Text, comment="JSON object of the labels it was submitted with, exactly as sent; null for none"),
    Column("cancel_requested_at", _INT),
    Column("created_at", _INT, nullable=False),
    Column("updated_at", _INT, nullable=False),
    Column("started_at", _INT),
    Column("finished_at", _INT),
    Column("expires_at", _INT, comment="when it is forgotten, once it has ended"),
    Column("deployment_id", String(63), comment="where it was sent to; null for its workspace's own address"),
    Column("release_version", _INT, comment="of the deployment's release that it was taken in by"),
    Column("chosen_id", _UUID, comment="what callers know it by, where its submitter chose that; null for its id"),
    Column("handed_back", _INT, nullable=False, server_default=text("0"), comment="attempts whose server was stopped"),
    Column("documents_blob", String(64), comment="the blob that has workflow and extra instead, where they are large"),
    Column("documents_size", _INT, comment="how many bytes that blob has"),
    Column("workflow_size", _INT, comment="how many of them, after the job's id, are the workflow"),
    Column("pool", _POOL, nullable=False, server_default=_DEFAULT_POOL, comment="whose servers execute it"),
)
_JOB_LIVE: Final = text("state = 'canceling' OR state = 'parked' OR state = 'released' OR state = 'running'")
Index("uq_jobs_workspace_number", jobs.c.workspace_id, jobs.c.number, unique=True)
partial_index("ix_jobs_live", jobs.c.workspace_id, jobs.c.number, where=_JOB_LIVE)
# Likewise without and with pools.
partial_index("ix_jobs_released", jobs.c.workspace_id, jobs.c.number, where=_RELEASED)
partial_index("ix_jobs_released_pool", jobs.c.pool, jobs.c.workspace_id, jobs.c.number, where=_RELEASED)
partial_index("ix_jobs_working", jobs.c.server_id, where=text("state = 'canceling' OR state = 'running'"))
Index("ix_jobs_expires_at", jobs.c.expires_at)
_DEPLOYED: Final = text("deployment_id IS NOT NULL")
partial_index("ix_jobs_deployment", jobs.c.workspace_id, jobs.c.deployment_id, jobs.c.number, where=_DEPLOYED)
partial_index("ix_jobs_documents_blob", jobs.c.documents_blob, where=text("documents_blob IS NOT NULL"))
_CHOSEN: Final = text("chosen_id IS NOT NULL")
partial_index("uq_jobs_workspace_chosen", jobs.c.workspace_id, jobs.c.chosen_id, unique=True, where=_CHOSEN)

job_events = Table(
    "job_events",
    metadata,
    Column("job_id", _UUID, ForeignKey("jobs.id"), primary_key=True),
    Column("number", _INT, primary_key=True, autoincrement=False, comment="counts the events of its job from 1"),
    Column("kind", String(32), nullable=False),
    Column("data", LargeBinary, nullable=False, comment="the event as JSON (domain/jobs/events.py)"),
    Column("at", _INT, nullable=False),
)

workflow_files = Table(
    "workflow_files",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("kind", String(8), nullable=False, comment="input, output or temp"),
    Column("name", String(255), nullable=False),
    Column("blob", String(64), nullable=False, index=True, comment="BLAKE3 of the bytes, which names the blob"),
    Column("size", _INT, nullable=False),
    Column("content_type", String(256), nullable=False),
    Column("job_id", _UUID, comment="the job that made it"),
    Column("created_at", _INT, nullable=False),
    Column("expires_at", _INT, index=True, comment="null for inputs, which stay"),
    Column("path", Text, comment="what its sender calls it, as sent; names no file here"),
    Column("tags", Text, comment="JSON array of its tags; null for none"),
)
Index(
    "uq_workflow_files_name", workflow_files.c.workspace_id, workflow_files.c.kind, workflow_files.c.name, unique=True
)
Index("ix_workflow_files_content", workflow_files.c.workspace_id, workflow_files.c.blob)

job_files = Table(
    "job_files",
    metadata,
    Column("file_id", _UUID, primary_key=True, comment="of a file that the job names by id"),
    Column("job_id", _UUID, primary_key=True, index=True),
)

file_numbers = Table(
    "file_numbers",
    metadata,
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), primary_key=True),
    Column("kind", String(8), primary_key=True),
    Column("beginning", String(255), primary_key=True, comment="of the names that are numbered"),
    Column("last", _INT, nullable=False),
)

editor_documents = Table(
    "editor_documents",
    metadata,
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), primary_key=True),
    Column("name", String(255), primary_key=True, comment="what an editor keeps: settings, and files of its user"),
    Column("content", LargeBinary, nullable=False),
    Column("changed_at", _INT, nullable=False),
)

labelled_jobs = Table(
    "labelled_jobs",
    metadata,
    Column(
        "id", _ORDERED_ID, primary_key=True, comment="digest of a workspace and a label, and a block in hexadecimal"
    ),
    Column("numbers", LargeBinary, nullable=False, comment="those of the jobs that have it (number_blocks.py)"),
    sqlite_with_rowid=False,
)

credit_keys = Table(
    "credit_keys",
    metadata,
    Column("id", String(64), primary_key=True, comment="SHA-256 of the workspace's id and the caller's key"),
    Column("entry_id", _INT, nullable=False, comment="what was booked with it"),
)

job_keys = Table(
    "job_keys",
    metadata,
    Column("id", String(64), primary_key=True, comment="SHA-256 of the workspace's id and the caller's key"),
    Column("job_id", _UUID, nullable=False),
    Column("expires_at", _INT, nullable=False, index=True),
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", String(63), primary_key=True, comment="a DNS label: its name and some characters that nobody guesses"),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("name", String(40), nullable=False, comment="as its owner chose it"),
    Column("state", String(16), nullable=False),
    Column("reason", String(500), comment="why it is not ready, where there is more to say than the state does"),
    Column("serving", _INT, comment="the version of the release that takes jobs; null before the first is prepared"),
    Column("last_release", _INT, nullable=False, comment="the version of the newest release"),
    Column("token_kinds", Text, comment="JSON array of the kinds of tokens it takes beside keys; null for all"),
    Column("created_at", _INT, nullable=False),
    Column("updated_at", _INT, nullable=False),
    Column("deleted_at", _INT, comment="its row stays while jobs name it"),
    Column("cleared_at", _INT, comment="when none of its jobs was left that waited or was executed"),
    Column("pool", _POOL, comment="where its jobs are executed; null where other rules say it"),
)
_UNSETTLED: Final = text("deleted_at IS NULL AND (state = 'not_ready' OR state = 'unavailable')")
partial_index("ix_deployments_unsettled", deployments.c.updated_at, where=_UNSETTLED)
partial_index("ix_deployments_deleted", deployments.c.deleted_at, where=text("deleted_at IS NOT NULL"))

releases = Table(
    "releases",
    metadata,
    Column("deployment_id", String(63), ForeignKey("deployments.id"), primary_key=True),
    Column("version", _INT, primary_key=True, autoincrement=False, comment="counts those of its deployment from 1"),
    Column("state", String(16), nullable=False),
    Column("node_packs", Text, comment="JSON array of names; null for every pack there is"),
    Column("copies", Text, comment="JSON array of the copies of its packs; null before they are made, or before 0017"),
    Column("nodes", _INT, comment="how many classes its packs add, once it is prepared"),
    Column("reason", String(500), comment="why it cannot be used"),
    Column("created_at", _INT, nullable=False),
    Column("settled_at", _INT, comment="when it was prepared or failed"),
)
partial_index("ix_releases_preparing", releases.c.created_at, where=text("state = 'preparing'"))
