"""Budgets of API keys: what is held for a key's runs, and whether one more may be held for."""

import datetime
import operator
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    and_,
    any_,
    bindparam,
    func,
    select,
    update,
)

from fairlead.domain.days import day_of
from fairlead.domain.faults import Fault
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod, period_start, refuse_budget
from fairlead.storage.db.statements import Prepared, PreparedLookup, is_sqlite
from fairlead.storage.db.tables import api_keys, usage_days

_KEYS: Final = PreparedLookup(
    lambda one_of: select(
        api_keys.c.id,
        api_keys.c.workspace_id,
        api_keys.c.revoked_at,
        api_keys.c.created_at,
        api_keys.c.held,
        api_keys.c.budget,
        api_keys.c.budget_period,
    ).where(one_of(api_keys.c.id))
)
HOLD_FOR_KEY: Final = Prepared(
    update(api_keys).where(api_keys.c.id == bindparam("key")).values(held=api_keys.c.held + bindparam("held_change")),
    ("held_change", "key"),
)
"""Its rows are those of `BudgetBook.rows`."""
_CHARGED: Final = (
    select(usage_days.c.key_id, func.sum(usage_days.c.charge).label("charged"))
    .join(
        api_keys,
        and_(api_keys.c.workspace_id == usage_days.c.workspace_id, api_keys.c.id == usage_days.c.key_id),
    )
    .where(api_keys.c.budget_period == bindparam("period"), usage_days.c.day >= bindparam("start"))
    .group_by(usage_days.c.key_id)
)
"""For a list of keys: reads the days of a period once for all of them."""


def _charged_on(is_one_of_days: ColumnElement[bool]) -> Select[*tuple[object, ...]]:
    """For an admission: each day and key is looked up, so that what other keys of the workspace used is not read."""
    return (
        select(usage_days.c.key_id, func.sum(usage_days.c.charge).label("charged"))
        .where(
            usage_days.c.workspace_id == bindparam("workspace"),
            usage_days.c.key_id.in_(bindparam("keys", expanding=True)),
            is_one_of_days,
        )
        .group_by(usage_days.c.key_id)
    )


# A budget for all time counts a thousand days: one parameter that holds them all, in the words of a dialect.
_CHARGED_IN_SQLITE: Final = _charged_on(
    usage_days.c.day.in_(select(func.json_each(bindparam("days")).table_valued("value").c.value))
)
_CHARGED_IN_POSTGRESQL: Final = _charged_on(usage_days.c.day == any_(bindparam("days", type_=ARRAY(String))))


class _Bounded(NamedTuple):
    """A key with a budget, as an admission needs it."""

    id: str
    workspace_id: str
    revoked_at: int | None
    created_at: int
    held: int
    limit: int
    period: str

    @property
    def budget(self) -> Budget:
        return Budget(self.limit, BudgetPeriod(self.period))


class BudgetBook:
    """The API keys of a batch of entries: which are revoked, what each may spend, and what is held for its runs.

    Only keys that are looked up can be refused anything; what is held is kept for all. To be made behind the lock of
    the keys' workspaces, so that no other server admits runs with them meanwhile. `now` in ms since 1970. None among
    the `key_ids` is for runs without a key.

    `revoked` are those that were revoked since their callers were looked up: a cache must not spend their money.
    """

    def __init__(self, connection: Connection, key_ids: Collection[str | None], now: int) -> None:
        revoked, bounded = set(), []
        for row in _KEYS.run(connection, sorted(filter(None, key_ids))):
            if row[2] is not None:
                revoked.add(row[0])
            if row[5] is not None:
                bounded.append(_Bounded(*row))
        self.revoked: Container[str | None] = revoked
        self._bounded = {key.id: key for key in bounded} if bounded else {}
        self._spent = _spent(connection, bounded, now) if bounded else {}
        self._changes: dict[str, int] = {}

    def refuse(self, key_id: str, hold: int) -> Fault | None:
        """Say why a key may not be held for so much more, or None."""
        if (key := self._bounded.get(key_id)) is None:
            return None
        held = key.held + self._changes.get(key_id, 0)
        return refuse_budget(key.budget, self._spent.get(key_id, 0), held, hold)

    def hold(self, key_id: str, more: int) -> None:
        """A run of a key was admitted, or what is held for one was raised."""
        self._changes[key_id] = self._changes.get(key_id, 0) + more

    def end(self, key_id: str, hold: int, charge: int) -> None:
        """A run of a key has ended and was charged: an admission of the same batch is decided on that too."""
        self._changes[key_id] = self._changes.get(key_id, 0) - hold
        if key_id in self._bounded:
            self._spent[key_id] = self._spent.get(key_id, 0) + charge

    def rows(self) -> list[tuple[int, str]]:
        """By how much what is held for each key has changed, where it has."""
        return list(filter(operator.itemgetter(0), zip(self._changes.values(), self._changes, strict=True)))


def with_spent(connection: Connection, keys: Sequence[Mapping[str, Any]], now: int) -> list[dict[str, object]]:
    """Rows of keys with what each was charged in the period of its budget as `spent`; None where it has none."""
    spent: dict[str, int] = {}
    for period in BudgetPeriod:
        start = period_start(period, day_of(now)).isoformat()
        spent |= _sums(connection.execute(_CHARGED, {"period": period.value, "start": start}))
    return [{**row, "spent": None if row["budget"] is None else spent.get(row["id"], 0)} for row in keys]


def _spent(connection: Connection, keys: Sequence[_Bounded], now: int) -> dict[str, int]:
    """What keys were charged in the periods of their budgets."""
    today = day_of(now)
    spent: dict[str, int] = {}
    for (workspace_id, period), group in _groups(keys).items():
        made_on = day_of(min(key.created_at for key in group))
        days = _days(period_start(BudgetPeriod(period), today), made_on, today)
        values = {"workspace": workspace_id, "keys": [key.id for key in group]}
        if is_sqlite(connection):
            rows = connection.execute(_CHARGED_IN_SQLITE, {**values, "days": msgspec.json.encode(days).decode()})
        else:
            rows = connection.execute(_CHARGED_IN_POSTGRESQL, {**values, "days": days})
        spent |= _sums(rows)
    return spent


def _days(start: datetime.date, made_on: datetime.date, today: datetime.date) -> list[str]:
    """The days of a period on which a key may have been charged: none before the key was made, none to come.

    By a day more at either end: the clocks of servers differ, and one may be past midnight already.
    """
    first = max(start.toordinal(), made_on.toordinal() - 1)
    return [datetime.date.fromordinal(number).isoformat() for number in range(first, today.toordinal() + 2)]


def _groups(keys: Sequence[_Bounded]) -> dict[tuple[str, str], list[_Bounded]]:
    groups: dict[tuple[str, str], list[_Bounded]] = {}
    for key in keys:
        groups.setdefault((key.workspace_id, key.period), []).append(key)
    return groups


def _sums(rows: Iterable[Row[*tuple[object, ...]]]) -> dict[str, int]:
    """Sums by key; PostgreSQL adds up integers to decimals."""
    return {row.key_id: int(row.charged) for row in rows}
