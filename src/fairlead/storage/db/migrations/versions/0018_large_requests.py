"""Large bodies of live runs as blobs, so that no other run waits while one is written into the database."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_HAS_BLOB = sa.text("request_blob IS NOT NULL AND finished_at IS NULL")


def upgrade() -> None:
    """Bodies that are in the database stay there until their runs end.

    A server of the version before takes over no run whose body is a blob: it gives it up, and nothing is charged.
    """
    op.add_column(
        "runs",
        sa.Column("request_blob", sa.String(length=64), comment="the blob that holds it instead, where it is large"),
    )
    op.add_column("runs", sa.Column("request_size", _INT, comment="how many bytes that blob has"))
    op.create_index(
        "ix_runs_request_blob", "runs", ["request_blob"], sqlite_where=_HAS_BLOB, postgresql_where=_HAS_BLOB
    )
