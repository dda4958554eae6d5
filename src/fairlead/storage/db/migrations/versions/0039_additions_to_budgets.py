"""What is added to a budget for a time."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A server of the version before adds nothing to a budget."""
    op.add_column(
        "budgets",
        sa.Column(
            "additions",
            sa.Text(),
            nullable=False,
            server_default="[]",
            comment="JSON array of what is added for a time",
        ),
    )
