"""Idempotency keys and kept results as columns of their runs: a run with a key is one row instead of three."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_INDEXES = {
    "uq_runs_idempotency": "idempotency_id",
    "ix_runs_forget": "forget_at",
    "ix_runs_result_blob": "result_blob",
}
_CARRY_OVER = (
    # Of a key that was freed, or that a later run has taken, the run itself still had the name.
    """
    UPDATE runs SET idempotency_id = NULL
    WHERE idempotency_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM idempotency_keys AS used WHERE used.id = runs.idempotency_id AND used.run_id = runs.id
    )
    """,
    """
    UPDATE runs SET key_fingerprint = used.fingerprint, key_expires_at = used.expires_at, forget_at = used.expires_at
    FROM idempotency_keys AS used WHERE used.run_id = runs.id AND used.id = runs.idempotency_id
    """,
    """
    UPDATE runs SET
        result_fault = kept.fault, result_content_type = kept.content_type, result_blob = kept.blob,
        result_size = kept.size, result_fallback_provider = kept.fallback_provider, result_dropped = kept.dropped,
        result_replayable_until = kept.replayable_until, result_expires_at = kept.expires_at,
        result_content = kept.content,
        forget_at = CASE WHEN forget_at < kept.expires_at THEN forget_at ELSE kept.expires_at END
    FROM run_results AS kept WHERE kept.run_id = runs.id
    """,
)


def _columns() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("key_fingerprint", sa.String(length=64), comment="SHA-256 of method, path, query and body"),
        sa.Column("key_expires_at", _INT, comment="until when its idempotency key counts"),
        sa.Column("forget_at", _INT, comment="when its key or its result expires, whichever is first"),
        sa.Column("result_fault", sa.LargeBinary(), comment="the failure that is kept, as JSON; null for a result"),
        sa.Column("result_content_type", sa.String(length=256)),
        sa.Column("result_blob", sa.String(length=64), comment="the blob that holds the result, where it is large"),
        sa.Column("result_size", _INT),
        sa.Column("result_fallback_provider", sa.String(length=64)),
        sa.Column(
            "result_dropped", sa.Text(), comment="JSON array of what the translation for its last provider left out"
        ),
        sa.Column("result_replayable_until", _INT, comment="null for as long as it is kept; 0 never"),
        sa.Column("result_expires_at", _INT, comment="null where nothing is kept"),
        sa.Column(
            "result_content",
            sa.LargeBinary(),
            comment="a result that is small; last, so that readers need not pass it",
        ),
    )


def upgrade() -> None:
    """Keys that count go on counting, and what was kept for them is told again as before."""
    for column in _columns():
        op.add_column("runs", column)
    for statement in _CARRY_OVER:
        op.execute(statement)
    for name, indexed in _INDEXES.items():
        where = sa.text(f"{indexed} IS NOT NULL")
        unique = name.startswith("uq_")
        op.create_index(name, "runs", [indexed], unique=unique, sqlite_where=where, postgresql_where=where)
    op.drop_table("run_results")
    op.drop_table("idempotency_keys")
