"""The router in full: idempotency keys, kept results, assets, callers' own provider keys, limits and rate windows."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _widen_workspaces()
    _widen_runs()
    _keep_results()
    _keep_assets()
    op.create_table(
        "provider_keys",
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False, comment="AES-GCM: nonce and ciphertext"),
        sa.Column("hint", sa.String(length=4), nullable=False, comment="the last characters, to tell keys apart"),
        sa.Column("created_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_provider_keys_workspace_id")),
        sa.PrimaryKeyConstraint("workspace_id", "provider", name=op.f("pk_provider_keys")),
    )
    op.create_table(
        "rate_windows",
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("span", sa.String(length=16), nullable=False, comment="minute or day"),
        sa.Column("started_at", _INT, autoincrement=False, nullable=False),
        sa.Column("requests", _INT, nullable=False),
        sa.PrimaryKeyConstraint("workspace_id", "span", "started_at", name=op.f("pk_rate_windows")),
    )


def _widen_workspaces() -> None:
    op.add_column(
        "workspaces",
        sa.Column(
            "costly_in_flight", _INT, nullable=False, server_default=sa.text("0"), comment="of them, the costly ones"
        ),
    )
    op.add_column(
        "workspaces",
        sa.Column("commitment_limit", _INT, comment="what runs in flight may be held for in all; null none"),
    )
    op.add_column("workspaces", sa.Column("tier", sa.String(length=32), comment="where the two limits came from"))
    # Runs may be unfinished while their database is brought up to date: the costly among them (5 dollars) count.
    op.execute(
        "UPDATE workspaces SET costly_in_flight = (SELECT COUNT(*) FROM runs WHERE runs.workspace_id = workspaces.id"
        " AND runs.finished_at IS NULL AND runs.hold >= 500000000)"
    )


def _widen_runs() -> None:
    for column in (
        sa.Column("credential", sa.String(length=16), comment="the label of ours that the work was taken under"),
        sa.Column(
            "operation",
            sa.String(length=64),
            comment="what the run is billed as, where its model has several operations",
        ),
        sa.Column(
            "strict",
            sa.Boolean(),
            nullable=False,
            server_default=sa.false(),
            comment="the request is the provider's own form",
        ),
        sa.Column(
            "byok", sa.Boolean(), nullable=False, server_default=sa.false(), comment="run with the workspace's own key"
        ),
        sa.Column(
            "redirected",
            sa.Boolean(),
            nullable=False,
            server_default=sa.false(),
            comment="it went on at another provider",
        ),
        sa.Column("idempotency_id", sa.String(length=64), comment="the key this run was called under"),
    ):
        op.add_column("runs", column)
    op.create_index(
        "ix_runs_handle",
        "runs",
        ["workspace_id", "handle"],
        sqlite_where=sa.text("operation IS NOT NULL"),
        postgresql_where=sa.text("operation IS NOT NULL"),
    )
    if op.get_bind().dialect.name == "postgresql":  # SQLite keeps no comments
        op.alter_column(
            "ledger_entries",
            "phase",
            existing_type=_INT,
            existing_nullable=True,
            comment="1 the hold, 2 its end, 3 and up each raise: no second of any",
            existing_comment="1 the hold, 2 its end: the database itself refuses a second of either",
        )


def _keep_results() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column(
            "id", sa.String(length=64), nullable=False, comment="SHA-256 of the workspace's id and the caller's key"
        ),
        sa.Column(
            "fingerprint", sa.String(length=64), nullable=False, comment="SHA-256 of method, path, query and body"
        ),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("expires_at", _INT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"])
    op.create_table(
        "run_results",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("fault", sa.LargeBinary(), comment="the failure, as JSON; null for a result"),
        sa.Column("content_type", sa.String(length=256)),
        sa.Column("content", sa.LargeBinary(), comment="a result small enough to be kept here"),
        sa.Column("blob", sa.String(length=64), comment="else the blob that holds it"),
        sa.Column("size", _INT),
        sa.Column("fallback_provider", sa.String(length=64)),
        sa.Column("dropped", sa.Text(), comment="JSON array of what a translation left out"),
        sa.Column("replayable_until", _INT, comment="null for as long as it is kept; 0 never"),
        sa.Column("expires_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_results_run_id")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_results")),
    )
    op.create_index("ix_run_results_expires_at", "run_results", ["expires_at"])


def _keep_assets() -> None:
    op.create_table(
        "assets",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("blob", sa.String(length=64), nullable=False, comment="SHA-256 of the bytes, which names the blob"),
        sa.Column("size", _INT, nullable=False),
        sa.Column("content_type", sa.String(length=256), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False, comment="what a download is called"),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("expires_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_assets_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assets")),
    )
    op.create_index("ix_assets_blob", "assets", ["blob"])
    op.create_index("ix_assets_expires_at", "assets", ["expires_at"])
