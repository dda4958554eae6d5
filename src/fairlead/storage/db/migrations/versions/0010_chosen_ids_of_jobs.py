"""Ids of jobs that callers chose, apart from the jobs' own: one namespace for each workspace."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_CHOSEN = sa.text("chosen_id IS NOT NULL")


def upgrade() -> None:
    """Jobs that were submitted before keep their ids, also those that were chosen."""
    op.add_column(
        "jobs",
        sa.Column(
            "chosen_id",
            sa.String(length=36),
            comment="what callers know it by, where its submitter chose that; null for its id",
        ),
    )
    op.create_index(
        "uq_jobs_workspace_chosen",
        "jobs",
        ["workspace_id", "chosen_id"],
        unique=True,
        sqlite_where=_CHOSEN,
        postgresql_where=_CHOSEN,
    )
