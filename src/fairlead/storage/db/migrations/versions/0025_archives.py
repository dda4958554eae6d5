"""Records of archives, and the sums by which the ledger is proven without their files."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_UUID = sa.String(length=36)
_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Servers of the version before do not know these tables, and go on as ever."""
    op.create_table(
        "archives",
        sa.Column("number", _INT, autoincrement=False, nullable=False, comment="counts archives from 1"),
        sa.Column("before", _INT, nullable=False, comment="its runs ended before this time, the beginning of a day"),
        sa.Column("first_run", _UUID, nullable=False),
        sa.Column("last_run", _UUID, nullable=False),
        sa.Column("runs", _INT, nullable=False),
        sa.Column("entries", _INT, nullable=False),
        sa.Column("events", _INT, nullable=False),
        sa.Column("file", sa.String(200), nullable=False, comment="the name of its file, without the folder"),
        sa.Column("size", _INT, nullable=False, comment="of the file, in bytes"),
        sa.Column("digest", sa.String(64), nullable=False, comment="SHA-256 of the file"),
        sa.Column("previous", sa.String(64), nullable=False, comment="the checksum of the archive before it"),
        sa.Column("checksum", sa.String(64), nullable=False, comment="SHA-256 of this record, its sums and `previous`"),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("finished_at", _INT, comment="when the last of its rows was deleted; null before"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_archives")),
    )
    op.create_table(
        "archive_sums",
        sa.Column("archive", _INT, autoincrement=False, nullable=False),
        sa.Column("workspace_id", _UUID, nullable=False),
        *(
            sa.Column(name, _INT, server_default=sa.text("0"), nullable=False)
            for name in ("entries", "balance_change", "held_change", "runs", "succeeded", "charge")
        ),
        sa.ForeignKeyConstraint(["archive"], ["archives.number"], name=op.f("fk_archive_sums_archive_archives")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_archive_sums_workspace_id_workspaces")
        ),
        sa.PrimaryKeyConstraint("archive", "workspace_id", name=op.f("pk_archive_sums")),
    )
