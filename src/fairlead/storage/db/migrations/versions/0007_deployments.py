"""Deployments with their releases, and which of them took a job in."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_UUID = sa.String(length=36)
_DEPLOYMENT = sa.String(length=63)
_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_UNSETTLED = sa.text("deleted_at IS NULL AND (state = 'not_ready' OR state = 'unavailable')")
_DELETED = sa.text("deleted_at IS NOT NULL")
_PREPARING = sa.text("state = 'preparing'")
_DEPLOYED = sa.text("deployment_id IS NOT NULL")


def upgrade() -> None:
    _make_deployments()
    _make_releases()
    _widen_jobs()


def _make_deployments() -> None:
    op.create_table(
        "deployments",
        sa.Column(
            "id", _DEPLOYMENT, nullable=False, comment="a DNS label: its name and some characters that nobody guesses"
        ),
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False, comment="as its owner chose it"),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column(
            "reason",
            sa.String(length=500),
            comment="why it is not ready, where there is more to say than the state does",
        ),
        sa.Column(
            "serving", _INT, comment="the version of the release that takes jobs; null before the first is prepared"
        ),
        sa.Column("last_release", _INT, nullable=False, comment="the version of the newest release"),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("updated_at", _INT, nullable=False),
        sa.Column("deleted_at", _INT, comment="its row stays while jobs name it"),
        sa.Column("cleared_at", _INT, comment="when none of its jobs was left that waited or was executed"),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_deployments_workspace_id_workspaces")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployments")),
    )
    op.create_index("ix_deployments_workspace_id", "deployments", ["workspace_id"])
    op.create_index(
        "ix_deployments_unsettled", "deployments", ["updated_at"], sqlite_where=_UNSETTLED, postgresql_where=_UNSETTLED
    )
    op.create_index(
        "ix_deployments_deleted", "deployments", ["deleted_at"], sqlite_where=_DELETED, postgresql_where=_DELETED
    )


def _make_releases() -> None:
    op.create_table(
        "releases",
        sa.Column("deployment_id", _DEPLOYMENT, nullable=False),
        sa.Column(
            "version", _INT, autoincrement=False, nullable=False, comment="counts those of its deployment from 1"
        ),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("node_packs", sa.Text(), comment="JSON array of names; null for every pack there is"),
        sa.Column("nodes", _INT, comment="how many classes its packs add, once it is prepared"),
        sa.Column("reason", sa.String(length=500), comment="why it cannot be used"),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("settled_at", _INT, comment="when it was prepared or failed"),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name=op.f("fk_releases_deployment_id_deployments")
        ),
        sa.PrimaryKeyConstraint("deployment_id", "version", name=op.f("pk_releases")),
    )
    op.create_index(
        "ix_releases_preparing", "releases", ["created_at"], sqlite_where=_PREPARING, postgresql_where=_PREPARING
    )


def _widen_jobs() -> None:
    op.add_column(
        "jobs",
        sa.Column("deployment_id", _DEPLOYMENT, comment="where it was sent to; null for its workspace's own address"),
    )
    op.add_column(
        "jobs", sa.Column("release_version", _INT, comment="of the deployment's release that it was taken in by")
    )
    op.create_index(
        "ix_jobs_deployment",
        "jobs",
        ["workspace_id", "deployment_id", "number"],
        sqlite_where=_DEPLOYED,
        postgresql_where=_DEPLOYED,
    )
