"""The organizations of workspaces and keys, and whether their single sign-on governs them."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ORGANIZATION = sa.String(length=100)


def upgrade() -> None:
    _widen("workspaces", "what its organization is called elsewhere; null unknown", "whether its keys are governed")
    _widen("api_keys", "the organization of its account; null unknown", "whether that governs the key")


def _widen(table: str, organization: str, requirement: str) -> None:
    op.add_column(table, sa.Column("organization_id", _ORGANIZATION, comment=organization))
    op.add_column(
        table, sa.Column("sso_required", sa.Boolean(), nullable=False, server_default=sa.false(), comment=requirement)
    )
