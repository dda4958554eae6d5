"""Jobs: workflows that were submitted, what befell them, their files, subscriptions, what editors keep."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_UUID = sa.String(length=36)
_ZERO = sa.text("0")


def upgrade() -> None:
    _widen_workspaces()
    _make_jobs()
    _make_files()
    _make_documents()


def _widen_workspaces() -> None:
    for column in (
        sa.Column(
            "subscription",
            sa.String(length=32),
            nullable=False,
            server_default=sa.text("'pro'"),
            comment="its tier for jobs",
        ),
        sa.Column(
            "jobs_limit",
            _INT,
            nullable=False,
            server_default=sa.text("5"),
            comment="parallel jobs; 0 inactive, -1 none",
        ),
        sa.Column("jobs_active", _INT, nullable=False, server_default=_ZERO, comment="jobs with a slot"),
        sa.Column("jobs_parked", _INT, nullable=False, server_default=_ZERO, comment="jobs that wait for a slot"),
        sa.Column("last_job", _INT, nullable=False, server_default=_ZERO, comment="the newest number of a job"),
    ):
        op.add_column("workspaces", column)


def _make_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("number", _INT, nullable=False, comment="counts the jobs of its workspace from 1"),
        sa.Column("key_id", _UUID, comment="the API key it was submitted with; null for a token"),
        sa.Column("partner_key_id", _UUID, comment="the API key that pays for its partner nodes"),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", _INT, nullable=False),
        sa.Column("server_id", _UUID, comment="the server that has it executed"),
        sa.Column("workflow", sa.LargeBinary(), nullable=False, comment="the graph as JSON, deflated"),
        sa.Column(
            "extra", sa.LargeBinary(), nullable=False, comment="what came with it, as JSON, deflated; never a key"
        ),
        sa.Column("wanted", sa.Text(), nullable=False, comment="JSON array of the output nodes to make"),
        sa.Column("nodes", _INT, nullable=False),
        sa.Column(
            "outputs", sa.LargeBinary(), comment="what nodes have shown, as JSON, deflated: ui and place by node"
        ),
        sa.Column("failure", sa.LargeBinary(), comment="how it ended where it did not succeed, as JSON"),
        sa.Column("progress", sa.Text(), comment="how far it is, as JSON (domain/jobs/updates.py)"),
        sa.Column("cancel_requested_at", _INT),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("updated_at", _INT, nullable=False),
        sa.Column("started_at", _INT),
        sa.Column("finished_at", _INT),
        sa.Column("expires_at", _INT, comment="when it is forgotten, once it has ended"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_jobs_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("uq_jobs_workspace_number", "jobs", ["workspace_id", "number"], unique=True)
    op.create_index("ix_jobs_expires_at", "jobs", ["expires_at"])
    for name, columns, states in (
        ("ix_jobs_live", ["workspace_id", "number"], ("canceling", "parked", "released", "running")),
        ("ix_jobs_released", ["created_at"], ("released",)),
        ("ix_jobs_working", ["server_id"], ("canceling", "running")),
    ):
        condition = sa.text(" OR ".join(f"state = '{state}'" for state in states))
        op.create_index(name, "jobs", columns, sqlite_where=condition, postgresql_where=condition)
    op.create_table(
        "job_events",
        sa.Column("job_id", _UUID, nullable=False),
        sa.Column("number", _INT, autoincrement=False, nullable=False, comment="counts the events of its job from 1"),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False, comment="the event as JSON (domain/jobs/events.py)"),
        sa.Column("at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_events_job_id")),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_job_events")),
    )


def _make_files() -> None:
    op.create_table(
        "workflow_files",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False, comment="input, output or temp"),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("blob", sa.String(length=64), nullable=False, comment="BLAKE3 of the bytes, which names the blob"),
        sa.Column("size", _INT, nullable=False),
        sa.Column("content_type", sa.String(length=256), nullable=False),
        sa.Column("job_id", _UUID, comment="the job that made it"),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("expires_at", _INT, comment="null for inputs, which stay"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_workflow_files_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workflow_files")),
    )
    op.create_index("uq_workflow_files_name", "workflow_files", ["workspace_id", "kind", "name"], unique=True)
    op.create_index("ix_workflow_files_content", "workflow_files", ["workspace_id", "blob"])
    op.create_index("ix_workflow_files_blob", "workflow_files", ["blob"])
    op.create_index("ix_workflow_files_expires_at", "workflow_files", ["expires_at"])
    op.create_table(
        "file_numbers",
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("beginning", sa.String(length=255), nullable=False, comment="of the names that are numbered"),
        sa.Column("last", _INT, nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_file_numbers_workspace_id")),
        sa.PrimaryKeyConstraint("workspace_id", "kind", "beginning", name=op.f("pk_file_numbers")),
    )


def _make_documents() -> None:
    op.create_table(
        "editor_documents",
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column(
            "name",
            sa.String(length=255),
            nullable=False,
            comment="what an editor keeps: settings, and files of its user",
        ),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("changed_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_editor_documents_workspace_id")),
        sa.PrimaryKeyConstraint("workspace_id", "name", name=op.f("pk_editor_documents")),
    )
