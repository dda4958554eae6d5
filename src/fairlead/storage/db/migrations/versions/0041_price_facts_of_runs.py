"""What the price of a run was made of."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runs there are have none, and cannot be priced again; nor can those of a server of the version before."""
    told = "JSON of what its price was made of, to price it again; null where unknown"
    op.add_column("runs", sa.Column("price_facts", sa.Text(), comment=told))
