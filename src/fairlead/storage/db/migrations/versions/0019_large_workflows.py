"""Large workflows of jobs as blobs, so that nobody waits while one is written into the database."""

import sqlalchemy as sa
from alembic import op

from fairlead.storage.db.schema import make_document_triggers

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_HAS_DOCUMENTS = sa.text("documents_blob IS NOT NULL")


def upgrade() -> None:
    """Workflows that are in the database stay there until their jobs are forgotten.

    A server of the version before sees an empty workflow in a job whose workflow is a blob: it lists the job, and fails
    it if it claims it. It also deletes such blobs a day after they were written, so stop it before that.
    """
    op.add_column(
        "jobs",
        sa.Column(
            "documents_blob",
            sa.String(length=64),
            comment="the blob that has workflow and extra instead, where they are large",
        ),
    )
    op.add_column("jobs", sa.Column("documents_size", _INT, comment="how many bytes that blob has"))
    op.add_column(
        "jobs", sa.Column("workflow_size", _INT, comment="how many of them, after the job's id, are the workflow")
    )
    op.create_index(
        "ix_jobs_documents_blob",
        "jobs",
        ["documents_blob"],
        sqlite_where=_HAS_DOCUMENTS,
        postgresql_where=_HAS_DOCUMENTS,
    )
    make_document_triggers(op.get_bind())
