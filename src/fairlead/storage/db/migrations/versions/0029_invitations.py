"""Invitations that their holder accepts, and when a member's address was proven."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_UUID = sa.String(length=36)


def upgrade() -> None:
    """Members who have signed in by OpenID Connect had their address verified there; the others have proven nothing.

    A member that a server of the version before binds to a subject counts as unproven until it signs in again.
    """
    op.add_column(
        "members", sa.Column("proven_at", _INT, comment="when its holder proved the address; null where nobody has")
    )
    op.execute("UPDATE members SET proven_at = created_at WHERE subject IS NOT NULL")
    op.create_table(
        "invitations",
        sa.Column("id", _UUID, nullable=False),
        sa.Column("workspace_id", _UUID, nullable=False),
        sa.Column("email", sa.String(length=254), nullable=False, comment="in lower case"),
        sa.Column("role", sa.String(length=16), nullable=False, comment="owner, member or viewer"),
        sa.Column("is_mailed", sa.Boolean(), nullable=False, comment="whether only the address was sent the link"),
        sa.Column("digest", sa.String(length=64), nullable=False, comment="SHA-256 of the token in the link"),
        sa.Column("inviter_id", _UUID, comment="the member who invites; null for a command"),
        sa.Column("inviter", sa.String(length=100), nullable=False, comment="as it was called then"),
        sa.Column("created_at", _INT, nullable=False),
        sa.Column("expires_at", _INT, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_invitations_workspace_id_workspaces")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
        sa.UniqueConstraint("digest", name=op.f("uq_invitations_digest")),
    )
    op.create_index("ix_invitations_workspace_id", "invitations", ["workspace_id", "email"], unique=True)
    op.create_index(op.f("ix_invitations_expires_at"), "invitations", ["expires_at"])
