"""Limits of requests: of an API key, or of the runs of a model. Callers are read with theirs (`workspaces`)."""

from typing import Literal

import msgspec
from sqlalchemy import Connection, Row, delete, func, select

from fairlead.storage.db.budget_tables import rate_limits
from fairlead.storage.db.statements import insert_into
from fairlead.storage.db.tables import workspaces

Scope = Literal["key", "model"]


class TooManyLimitsError(Exception):
    """The workspace has as many limits of requests as it may."""


class UnknownLimitError(Exception):
    """The workspace has no limit of requests of this id."""


class LimitRecord(msgspec.Struct, frozen=True):
    """A limit of a workspace: how many requests a minute a key may make, or how many runs of a model are begun."""

    id: str
    workspace_id: str
    scope: Scope
    subject: str
    per_minute: int
    created_at: int


def set_limit(connection: Connection, new: LimitRecord, most: int) -> LimitRecord:
    """Set a limit, replacing the one that the subject has, and return it. TooManyLimitsError."""
    connection.execute(select(workspaces.c.id).where(workspaces.c.id == new.workspace_id).with_for_update())
    mine = rate_limits.c.workspace_id == new.workspace_id
    of_subject = mine, rate_limits.c.scope == new.scope, rate_limits.c.subject == new.subject
    if connection.execute(select(rate_limits.c.id).where(*of_subject)).first() is None:
        have = connection.execute(select(func.count()).select_from(rate_limits).where(mine)).scalar_one()
        if have >= most:
            raise TooManyLimitsError(most)
    statement = insert_into(connection, rate_limits).values(msgspec.structs.asdict(new))
    key = [rate_limits.c.workspace_id, rate_limits.c.scope, rate_limits.c.subject]
    connection.execute(
        statement.on_conflict_do_update(index_elements=key, set_={"per_minute": statement.excluded.per_minute})
    )
    return _record(connection.execute(select(rate_limits).where(*of_subject)).one())


def delete_limit(connection: Connection, workspace_id: str, limit_id: str) -> None:
    """Delete a limit; UnknownLimitError."""
    mine = rate_limits.c.id == limit_id, rate_limits.c.workspace_id == workspace_id
    if connection.execute(delete(rate_limits).where(*mine)).rowcount == 0:
        raise UnknownLimitError(limit_id)


def list_limits(
    connection: Connection, workspace_id: str, after: tuple[str, str] | None, limit: int
) -> list[LimitRecord]:
    """Up to `limit` limits of a workspace by scope and subject, behind one of them."""
    place = rate_limits.c.scope, rate_limits.c.subject
    mine = select(rate_limits).where(rate_limits.c.workspace_id == workspace_id).order_by(*place).limit(limit)
    if after is not None:
        scope, subject = after
        mine = mine.where((place[0] > scope) | ((place[0] == scope) & (place[1] > subject)))
    return [_record(row) for row in connection.execute(mine)]


def _record(row: Row[*tuple[object, ...]]) -> LimitRecord:
    return LimitRecord(row.id, row.workspace_id, row.scope, row.subject, row.per_minute, row.created_at)
