"""Idempotency keys of submitted jobs: each is used by at most one job, and is written with it (J-12)."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from fairlead.storage.prepared import Prepared, PreparedLookup
from fairlead.storage.tables import job_keys

INSERT_KEY: Final = Prepared(insert(job_keys), ("id", "job_id", "expires_at"))
_USED: Final = PreparedLookup(lambda one_of: select(job_keys.c.id).where(one_of(job_keys.c.id)))


def used_keys(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Which of some keys are used. One whose time is up is until it is forgotten."""
    return {row[0] for row in _USED.run(connection, sorted(ids))}


def delete_expired_keys(connection: Connection, now: int, limit: int) -> int:
    """Forget keys whose time is up; how many."""
    old = select(job_keys.c.id).where(job_keys.c.expires_at <= now).order_by(job_keys.c.expires_at).limit(limit)
    ids = list(connection.execute(old).scalars())
    if ids:
        connection.execute(delete(job_keys).where(job_keys.c.id.in_(ids)))
    return len(ids)
