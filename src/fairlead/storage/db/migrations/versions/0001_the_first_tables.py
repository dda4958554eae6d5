"""The first tables: workspaces, keys, servers, runs and the ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "servers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column(
            "seen_at",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=False,
            comment="renewed by the living; runs of the silent are taken over",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_servers")),
    )
    op.create_table(
        "workspaces",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("billing", sa.String(length=16), nullable=False),
        sa.Column("balance", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("held", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "cap",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=False,
            comment="what a postpaid workspace may owe",
        ),
        sa.Column("in_flight", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "in_flight_limit",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=False,
            comment="-1 none, 0 blocked",
        ),
        sa.Column("models", sa.Text(), nullable=True, comment="JSON array of allowed model patterns; null allows all"),
        sa.Column("providers", sa.Text(), nullable=True, comment="JSON array of allowed providers; null allows all"),
        sa.Column("gates", sa.Text(), nullable=False, comment="JSON object: rollout switch -> on or off"),
        sa.Column("created_at", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.CheckConstraint("held >= 0", name=op.f("ck_workspaces_held")),
        sa.CheckConstraint("in_flight >= 0", name=op.f("ck_workspaces_in_flight")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workspaces")),
        sa.UniqueConstraint("name", name=op.f("uq_workspaces_name")),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column(
            "digest", sa.String(length=64), nullable=False, comment="SHA-256 of the key; the key itself is not kept"
        ),
        sa.Column(
            "hint", sa.String(length=16), nullable=False, comment="first and last characters, to tell keys apart"
        ),
        sa.Column("label", sa.String(length=100), nullable=False),
        sa.Column("models", sa.Text(), nullable=True, comment="JSON array of allowed model patterns; null allows all"),
        sa.Column("created_at", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("revoked_at", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_api_keys_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
    )
    with op.batch_alter_table("api_keys", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_api_keys_workspace_id"), ["workspace_id"], unique=False)

    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("key_id", sa.String(length=36), nullable=True),
        sa.Column("model_id", sa.String(length=193), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.Column("handle", sa.Text(), nullable=True, comment="the partner's name for the work"),
        sa.Column("hold", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("charge", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("rate_version", sa.String(length=64), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True, comment="completed, or the bucket of the failure"),
        sa.Column("upstream_status", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("caller_left", sa.Boolean(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=True, comment="kept while the run is live"),
        sa.Column("created_at", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("finished_at", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_runs_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index(
            "ix_runs_live",
            ["server_id"],
            unique=False,
            sqlite_where=sa.text("finished_at IS NULL"),
            postgresql_where=sa.text("finished_at IS NULL"),
        )
        batch_op.create_index(
            "ix_runs_lost",
            ["finished_at"],
            unique=False,
            sqlite_where=sa.text("state = 'lost'"),
            postgresql_where=sa.text("state = 'lost'"),
        )

    op.create_table(
        "ledger_entries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=True),
        sa.Column(
            "phase",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=True,
            comment="1 the hold, 2 its end: the database itself refuses a second of either",
        ),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("balance_change", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("held_change", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("reason", sa.String(length=200), nullable=False),
        sa.Column("rate_version", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_ledger_entries_run_id")),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_ledger_entries_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_entries")),
    )
    with op.batch_alter_table("ledger_entries", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_ledger_entries_workspace_id"), ["workspace_id"], unique=False)
        batch_op.create_index("uq_ledger_entries_run_phase", ["run_id", "phase"], unique=True)


def downgrade() -> None:

    with op.batch_alter_table("ledger_entries", schema=None) as batch_op:
        batch_op.drop_index("uq_ledger_entries_run_phase")
        batch_op.drop_index(batch_op.f("ix_ledger_entries_workspace_id"))

    op.drop_table("ledger_entries")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_index(
            "ix_runs_lost", sqlite_where=sa.text("state = 'lost'"), postgresql_where=sa.text("state = 'lost'")
        )
        batch_op.drop_index(
            "ix_runs_live", sqlite_where=sa.text("finished_at IS NULL"), postgresql_where=sa.text("finished_at IS NULL")
        )

    op.drop_table("runs")
    with op.batch_alter_table("api_keys", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_api_keys_workspace_id"))

    op.drop_table("api_keys")
    op.drop_table("workspaces")
    op.drop_table("servers")
