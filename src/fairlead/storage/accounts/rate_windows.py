"""Requests counted per workspace and window, added up over all servers (R-23)."""

import functools
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, delete, or_, select

from fairlead.domain.accounts.rate_windows import Span, WindowKey
from fairlead.storage.db.statements import Prepared, insert_in
from fairlead.storage.db.tables import rate_windows

_KEPT: Final = 2
"""How many times its own length a window is kept: one length past its end, for servers whose clocks differ."""
_KEY: Final = (rate_windows.c.meter_id, rate_windows.c.span, rate_windows.c.started_at)


@functools.cache
def _addition(dialect: str) -> Any:
    """One statement in the words of a dialect."""
    statement = insert_in(dialect, rate_windows)
    total = rate_windows.c.requests + statement.excluded.requests
    return statement.on_conflict_do_update(index_elements=list(_KEY), set_={"requests": total}).returning(
        *_KEY, rate_windows.c.requests
    )


_DELETE: Final = Prepared(
    delete(rate_windows).where(
        rate_windows.c.meter_id == bindparam("workspace"),
        rate_windows.c.span == bindparam("of_span"),
        rate_windows.c.started_at == bindparam("start"),
    ),
    ("workspace", "of_span", "start"),
)


def add_requests(connection: Connection, counts: Sequence[tuple[WindowKey, int]]) -> dict[WindowKey, int]:
    """Add to windows, each named once, and return what all servers together have counted in each."""
    if not counts:
        return {}
    # In the order of their keys: two servers that lock the same windows cannot deadlock.
    rows = [{**key._asdict(), "requests": requests} for key, requests in sorted(counts)]
    statement = _addition(connection.dialect.name)
    return {WindowKey(*key): total for *key, total in connection.execute(statement, rows)}


def old_windows(connection: Connection, now: int, limit: int) -> list[WindowKey]:
    """Up to `limit` windows that turned so long ago that no server asks for them."""
    old = (and_(rate_windows.c.span == span.title, rate_windows.c.started_at < now - _KEPT * span.length)
           for span in Span)  # fmt: skip
    rows = connection.execute(select(*_KEY).where(or_(*old)).order_by(*_KEY).limit(limit))
    return [WindowKey(*row) for row in rows]


def delete_windows(connection: Connection, keys: Sequence[WindowKey]) -> None:
    """Delete windows, some of which may be deleted already."""
    _DELETE.run(connection, keys)
