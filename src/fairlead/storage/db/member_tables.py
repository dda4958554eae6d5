"""The tables of people: members, their roles, keys and sessions, invitations, and the log of who did what."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text, false

from fairlead.storage.db.tables import metadata, terms_of_key

_UUID: Final = String(36)
_INT: Final = BigInteger().with_variant(Integer(), "sqlite")

members = Table(
    "members",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("email", String(254), unique=True, comment="in lower case; null for the first operator"),
    Column("name", String(100), nullable=False),
    Column("is_operator", Boolean, nullable=False, server_default=false()),
    Column("subject", String(512), unique=True, comment="issuer and subject of OpenID Connect, once signed in by it"),
    Column("created_at", _INT, nullable=False),
    Column("proven_at", _INT, comment="when its holder proved the address; null where nobody has"),
)

memberships = Table(
    "memberships",
    metadata,
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), primary_key=True),
    Column("member_id", _UUID, ForeignKey("members.id"), primary_key=True, index=True),
    Column("role", String(16), nullable=False, comment="owner, member or viewer"),
    Column("created_at", _INT, nullable=False),
)

personal_keys = Table(
    "personal_keys",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("member_id", _UUID, ForeignKey("members.id"), nullable=False, index=True),
    Column("digest", String(64), nullable=False, unique=True, comment="SHA-256 of the key; the key itself is not kept"),
    Column("hint", String(16), nullable=False, comment="first and last characters, to tell keys apart"),
    Column("label", String(100), nullable=False),
    Column("created_at", _INT, nullable=False),
    *terms_of_key(),
    Column("scopes", String(100), comment="what it may do, with commas; null for all of its member"),
    Column("workspace_id", _UUID, comment="the only workspace it is for; null for all"),
    Column(
        "is_of_session",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="whether it was made in a session, or with a key that was",
    ),
)

key_uses = Table(
    "key_uses",
    metadata,
    Column("key_id", _UUID, primary_key=True, comment="of an API key or a personal key"),
    Column("used_at", _INT, nullable=False, comment="to the minute"),
)

invitations = Table(
    "invitations",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False),
    Column("email", String(254), nullable=False, comment="in lower case"),
    Column("role", String(16), nullable=False, comment="owner, member or viewer"),
    Column("is_mailed", Boolean, nullable=False, comment="whether only the address was sent the link"),
    Column("digest", String(64), nullable=False, unique=True, comment="SHA-256 of the token in the link"),
    Column("inviter_id", _UUID, comment="the member who invites; null for a command"),
    Column("inviter", String(100), nullable=False, comment="as it was called then"),
    Column("created_at", _INT, nullable=False),
    Column("expires_at", _INT, nullable=False, index=True),
)
Index("ix_invitations_workspace_id", invitations.c.workspace_id, invitations.c.email, unique=True)

sessions = Table(
    "sessions",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("member_id", _UUID, ForeignKey("members.id"), nullable=False, index=True),
    Column("key_id", _UUID, ForeignKey("personal_keys.id"), index=True, comment="the key it was begun with, if one"),
    Column("digest", String(64), nullable=False, unique=True, comment="SHA-256 of the cookie"),
    Column("address", String(45), comment="where it was begun from"),
    Column("agent", String(200), comment="what the browser calls itself"),
    Column("created_at", _INT, nullable=False),
    Column("seen_at", _INT, nullable=False, comment="when it was last used, to the minute"),
)

audit_entries = Table(
    "audit_entries",
    metadata,
    Column("id", _INT, primary_key=True, autoincrement=True),
    Column("at", _INT, nullable=False),
    Column("actor_kind", String(16), nullable=False, comment="member, key, command or server"),
    Column("actor_id", _UUID, comment="stays when its member is deleted"),
    Column("actor_name", String(100), nullable=False, comment="as it was then"),
    Column("address", String(45)),
    Column("action", String(64), nullable=False, comment="such as key.created"),
    Column("workspace_id", _UUID, comment="null for what is of no workspace"),
    Column("target", String(254), comment="what it was done to, as people know it"),
    Column("detail", Text, nullable=False, comment="JSON object of what else is worth knowing, without secrets"),
)
Index("ix_audit_entries_workspace_id", audit_entries.c.workspace_id, audit_entries.c.id)
Index("ix_audit_entries_actor_id", audit_entries.c.actor_id, audit_entries.c.id)
Index("ix_audit_entries_action", audit_entries.c.action, audit_entries.c.id)
