"""Labels and idempotency keys of jobs; publishers, their nodes, versions, and who did what to them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_UUID = sa.String(length=36)
_NAME = sa.String(length=100)


def upgrade() -> None:
    _widen_jobs()
    _make_registry()


def _widen_jobs() -> None:
    op.add_column(
        "jobs",
        sa.Column(
            "labels",
            sa.Text(),
            comment="JSON object of the labels it was submitted with, exactly as sent; null for none",
        ),
    )
    op.create_table(
        "job_labels",
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("key", sa.String(length=40), nullable=False),
        sa.Column("value", sa.String(length=256), nullable=False),
        sa.Column("number", _INT, autoincrement=False, nullable=False, comment="of the job, in its workspace"),
        sa.PrimaryKeyConstraint("workspace_id", "key", "value", "number", name=op.f("pk_job_labels")),
    )
    op.create_table(
        "job_keys",
        sa.Column(
            "id", sa.String(length=64), nullable=False, comment="SHA-256 of the workspace's id and the caller's key"
        ),
        sa.Column("job_id", _UUID, nullable=False),
        sa.Column("expires_at", _INT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_keys")),
    )
    op.create_index("ix_job_keys_expires_at", "job_keys", ["expires_at"])


def _make_registry() -> None:
    op.create_table(
        "publishers",
        sa.Column("id", _NAME, nullable=False, comment="chosen by its owner"),
        sa.Column("workspace_id", _UUID, nullable=False, comment="the owner"),
        sa.Column("document", sa.Text(), nullable=False, comment="JSON object of what it says of itself"),
        sa.Column("banned_at", _INT),
        sa.Column("deleted_at", _INT, comment="its id stays reserved"),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("changed_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_publishers_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_publishers")),
    )
    op.create_index("ix_publishers_workspace_id", "publishers", ["workspace_id"])
    op.create_table(
        "published_nodes",
        sa.Column("id", _NAME, nullable=False, comment="chosen by its publisher"),
        sa.Column("publisher_id", _NAME, nullable=False),
        sa.Column("document", sa.Text(), nullable=False, comment="JSON object of what it says of itself"),
        sa.Column("search_text", sa.Text(), nullable=False, comment="what it is found by, in lower case"),
        sa.Column("banned_at", _INT),
        sa.Column("deleted_at", _INT, comment="its id and its version numbers stay reserved"),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("changed_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["publisher_id"], ["publishers.id"], name=op.f("fk_published_nodes_publisher_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_published_nodes")),
    )
    op.create_index("ix_published_nodes_publisher_id", "published_nodes", ["publisher_id"])
    listed = sa.text("banned_at IS NULL AND deleted_at IS NULL")
    op.create_index(
        "ix_published_nodes_listed", "published_nodes", ["id"], sqlite_where=listed, postgresql_where=listed
    )
    op.create_table(
        "node_versions",
        sa.Column("node_id", _NAME, nullable=False),
        sa.Column("version", _NAME, nullable=False),
        sa.Column("place", _INT, nullable=False, comment="counts the versions of its node from 1"),
        sa.Column("document", sa.Text(), nullable=False, comment="JSON object of what it says of itself"),
        sa.Column("created_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["published_nodes.id"], name=op.f("fk_node_versions_node_id")),
        sa.PrimaryKeyConstraint("node_id", "version", name=op.f("pk_node_versions")),
    )
    op.create_table(
        "registry_acts",
        sa.Column("id", _INT, autoincrement=True, nullable=False),
        sa.Column("act", sa.String(length=32), nullable=False, comment="such as node_deleted"),
        sa.Column("publisher_id", _NAME, nullable=False),
        sa.Column("node_id", _NAME),
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("key_id", _UUID, comment="the API key it was done with; null for a token"),
        sa.Column("subject", sa.String(length=200), comment="whom the token spoke for"),
        sa.Column("at", _INT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_registry_acts")),
    )
    op.create_index("ix_registry_acts_publisher_id", "registry_acts", ["publisher_id"])
