"""People, their roles, keys and sessions, the audit log, and workspaces that are suspended or about to be deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_UUID = sa.String(length=36)


def upgrade() -> None:
    """Nobody is a member yet; the server makes the first operator when it starts."""
    op.add_column("workspaces", sa.Column("suspended_at", _INT, comment="null while it may run"))
    op.add_column("workspaces", sa.Column("delete_at", _INT, comment="when what it keeps is deleted; null for never"))
    _create_people()
    op.create_table(
        "audit_entries",
        sa.Column("id", _INT, autoincrement=True, nullable=False),
        sa.Column("at", _INT, nullable=False),
        sa.Column("actor_kind", sa.String(length=16), nullable=False, comment="member, key, command or server"),
        sa.Column("actor_id", _UUID, comment="stays when its member is deleted"),
        sa.Column("actor_name", sa.String(length=100), nullable=False, comment="as it was then"),
        sa.Column("address", sa.String(length=45)),
        sa.Column("action", sa.String(length=64), nullable=False, comment="such as key.created"),
        sa.Column("workspace_id", _UUID, comment="null for what is of no workspace"),
        sa.Column("target", sa.String(length=254), comment="what it was done to, as people know it"),
        sa.Column(
            "detail", sa.Text(), nullable=False, comment="JSON object of what else is worth knowing, without secrets"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
    )
    for column in ("workspace_id", "actor_id", "action"):
        op.create_index(f"ix_audit_entries_{column}", "audit_entries", [column, "id"])


def _create_people() -> None:
    op.create_table(
        "members",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("email", sa.String(length=254), comment="in lower case; null for the first operator"),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("is_operator", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column(
            "subject", sa.String(length=512), comment="issuer and subject of OpenID Connect, once signed in by it"
        ),
        sa.Column("created_at", _INT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_members")),
        sa.UniqueConstraint("email", name=op.f("uq_members_email")),
        sa.UniqueConstraint("subject", name=op.f("uq_members_subject")),
    )
    op.create_table(
        "memberships",
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("member_id", _UUID, nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False, comment="owner, member or viewer"),
        sa.Column("created_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_memberships_workspace_id_workspaces")
        ),
        sa.ForeignKeyConstraint(["member_id"], ["members.id"], name=op.f("fk_memberships_member_id_members")),
        sa.PrimaryKeyConstraint("workspace_id", "member_id", name=op.f("pk_memberships")),
    )
    op.create_index("ix_memberships_member_id", "memberships", ["member_id"])
    op.create_table(
        "personal_keys",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("member_id", _UUID, nullable=False),
        sa.Column(
            "digest", sa.String(length=64), nullable=False, comment="SHA-256 of the key; the key itself is not kept"
        ),
        sa.Column(
            "hint", sa.String(length=16), nullable=False, comment="first and last characters, to tell keys apart"
        ),
        sa.Column("label", sa.String(length=100), nullable=False),
        sa.Column("created_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(["member_id"], ["members.id"], name=op.f("fk_personal_keys_member_id_members")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_personal_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_personal_keys_digest")),
    )
    op.create_index("ix_personal_keys_member_id", "personal_keys", ["member_id"])
    op.create_table(
        "sessions",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("member_id", _UUID, nullable=False),
        sa.Column("key_id", _UUID, comment="the key it was begun with, if one"),
        sa.Column("digest", sa.String(length=64), nullable=False, comment="SHA-256 of the cookie"),
        sa.Column("address", sa.String(length=45), comment="where it was begun from"),
        sa.Column("agent", sa.String(length=200), comment="what the browser calls itself"),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("seen_at", _INT, nullable=False, comment="when it was last used, to the minute"),
        sa.ForeignKeyConstraint(["key_id"], ["personal_keys.id"], name=op.f("fk_sessions_key_id_personal_keys")),
        sa.ForeignKeyConstraint(["member_id"], ["members.id"], name=op.f("fk_sessions_member_id_members")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("digest", name=op.f("uq_sessions_digest")),
    )
    op.create_index("ix_sessions_member_id", "sessions", ["member_id"])
    op.create_index("ix_sessions_key_id", "sessions", ["key_id"])
