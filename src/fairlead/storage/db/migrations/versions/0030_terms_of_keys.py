"""When a key ends, from where it may be used, the secret before its rotation, its rights, and when it was last used."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Keys there are never end, may be used from anywhere, and have every right of their members.

    A server of the version before goes by that for all keys, and does not know the secret before a rotation.
    """
    for table in ("api_keys", "personal_keys"):
        op.add_column(table, sa.Column("expires_at", _INT, comment="null for a key that does not end by itself"))
        op.add_column(
            table, sa.Column("networks", sa.Text(), comment="from where it may be used, with commas; null for anywhere")
        )
        op.add_column(
            table, sa.Column("previous_digest", sa.String(length=64), comment="of the secret before its rotation")
        )
        op.add_column(table, sa.Column("previous_until", _INT, comment="until when that secret is good"))
        op.create_index(op.f(f"ix_{table}_previous_digest"), table, ["previous_digest"])
    op.add_column(
        "personal_keys",
        sa.Column("scopes", sa.String(length=100), comment="what it may do, with commas; null for all of its member"),
    )
    op.add_column(
        "personal_keys",
        sa.Column("workspace_id", sa.String(length=36), comment="the only workspace it is for; null for all"),
    )
    op.add_column(
        "personal_keys",
        sa.Column(
            "is_of_session",
            sa.Boolean(),
            server_default=sa.false(),
            nullable=False,
            comment="whether it was made in a session, or with a key that was",
        ),
    )
    op.create_table(
        "key_uses",
        sa.Column("key_id", sa.String(length=36), nullable=False, comment="of an API key or a personal key"),
        sa.Column("used_at", _INT, nullable=False, comment="to the minute"),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_key_uses")),
    )
