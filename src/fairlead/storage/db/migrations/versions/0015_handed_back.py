"""How many attempts of a job ended because their server was stopped in good order, which is no crash."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Servers of the version before hand nothing back, and leave it at zero."""
    comment = "attempts whose server was stopped"
    op.add_column("jobs", sa.Column("handed_back", _INT, server_default=sa.text("0"), nullable=False, comment=comment))
