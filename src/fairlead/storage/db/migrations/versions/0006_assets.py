"""Files of workflows as assets: tags, the path they came from, and the jobs that name them."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_UUID = sa.String(length=36)


def upgrade() -> None:
    op.add_column(
        "workflow_files", sa.Column("path", sa.Text(), comment="what its sender calls it, as sent; names no file here")
    )
    op.add_column("workflow_files", sa.Column("tags", sa.Text(), comment="JSON array of its tags; null for none"))
    op.create_table(
        "job_files",
        sa.Column("file_id", _UUID, nullable=False, comment="of a file that the job names by id"),
        sa.Column("job_id", _UUID, nullable=False),
        sa.PrimaryKeyConstraint("file_id", "job_id", name=op.f("pk_job_files")),
    )
    op.create_index("ix_job_files_job_id", "job_files", ["job_id"])
