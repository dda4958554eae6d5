"""Further changes by the runs of a batch: of the budgets they count against, and of the usage of the day they end on.

Of budgets: what is held and spent, whether more may be held, and the alerts.
"""

import itertools
import operator
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, select, update

from fairlead.domain.days import DAY_MS, day_of
from fairlead.domain.faults import Fault
from fairlead.domain.ledger.alerts import AlertKind, BudgetFigures
from fairlead.domain.ledger.budgets import (
    Addition,
    Budget,
    BudgetPeriod,
    BudgetScope,
    PeriodStart,
    crossed_threshold,
    limit_in_force,
    next_reset,
    period_start,
    refuse_budget,
    targets_of_run,
)
from fairlead.domain.ledger.usage import labels_in
from fairlead.domain.runs.entries import Admission, BookedRun
from fairlead.domain.time_zones import date_in
from fairlead.storage.db.budget_tables import budgets
from fairlead.storage.db.statements import Prepared, PreparedLookup, Rows
from fairlead.storage.db.tables import api_keys
from fairlead.storage.ledger.alerts import NewAlert
from fairlead.storage.ledger.budget_figures import is_to_be_given_up, reset_of, spent_since
from fairlead.storage.ledger.budgets import NO_ADDITIONS
from fairlead.storage.ledger.usage import NO_KEY, UsageKey, UsageSums, text_of_day

_NO_USAGE: Final = UsageSums()
KEYS: Final = PreparedLookup(
    lambda one_of: select(api_keys.c.id, api_keys.c.revoked_at, api_keys.c.team).where(one_of(api_keys.c.id))
)
"""The API keys of runs, as `BudgetBook` reads them."""
_BUDGETS: Final = PreparedLookup(
    lambda one_of: (
        select(
            budgets.c.target,
            budgets.c.id,
            budgets.c.workspace_id,
            budgets.c.scope,
            budgets.c.subject,
            budgets.c.period,
            budgets.c.amount,
            budgets.c.held,
            budgets.c.spent,
            budgets.c.since,
            budgets.c.since_at,
            budgets.c.spent_before,
            budgets.c.time_zone,
            budgets.c.reset_minute,
            budgets.c.reset_weekday,
            budgets.c.thresholds,
            budgets.c.is_enforced,
            budgets.c.told_refusal,
            budgets.c.additions,
        )
        .where(one_of(budgets.c.target))
        .order_by(budgets.c.period)
    )
)
HOLD_FOR_KEY: Final = Prepared(
    update(api_keys).where(api_keys.c.id == bindparam("key")).values(held=api_keys.c.held + bindparam("held_change")),
    ("held_change", "key"),
    primary_key="key",
)
"""Its rows are those of `BudgetBook.key_rows`."""
MOVE_BUDGET: Final = Prepared(
    update(budgets)
    .where(budgets.c.id == bindparam("budget"))
    .values(
        held=bindparam("new_held"),
        spent=bindparam("new_spent"),
        since=bindparam("new_since"),
        told_refusal=bindparam("new_told"),
        since_at=bindparam("new_since_at"),
        spent_before=bindparam("new_spent_before"),
    ),
    ("new_held", "new_spent", "new_since", "new_told", "new_since_at", "new_spent_before", "budget"),
    primary_key="budget",
)
"""Its rows are those of `BudgetBook.budget_rows`: absolute figures, because the workspace is locked."""


class Spending(NamedTuple):
    """The subjects whose budgets a run counts against: its workspace, its API key (None for a token), model and labels.

    The labels are its JSON, None for none.
    """

    workspace_id: str
    key_id: str | None
    model_id: str
    labels: str | None = None

    @staticmethod
    def of(workspace_id: str, run: Admission | BookedRun) -> "Spending":
        """The subjects of a run of a workspace."""
        return Spending(workspace_id, run.key_id, run.model_id, run.labels)


class _Row(msgspec.Struct):
    """A budget that a batch of entries changes; `amount` has what is added to it at the time of the batch."""

    id: str
    workspace_id: str
    scope: str
    subject: str
    period: str
    amount: int
    held: int
    spent: int
    since: str
    since_at: int
    spent_before: int
    time_zone: str
    reset_minute: int
    reset_weekday: str
    thresholds: str
    is_enforced: bool
    told_refusal: bool
    additions: str
    has_changed: bool = False
    resets_at: int | None = None

    @property
    def budget(self) -> Budget:
        reset = reset_of(self.time_zone, self.reset_minute, self.reset_weekday)
        return Budget(self.amount, BudgetPeriod(self.period), reset)

    def turn(self, connection: Connection, now: int, ended: Collection[object]) -> None:
        """Add what is added at a time (of the database's clock, T-07), and begin the period of that time.

        The latter where it is later than the period of `spent`, or where that one lies ahead. `ended` are runs that are
        still to be counted.
        """
        if self.additions != NO_ADDITIONS:
            added = msgspec.json.decode(self.additions, type=tuple[Addition, ...])
            self.amount = limit_in_force(self.amount, added, now)
        budget, began = self.budget, PeriodStart(self.since, self.since_at)
        start = period_start(budget.period, budget.reset, now)
        self.resets_at = next_reset(budget.period, budget.reset, now)
        if start > began or is_to_be_given_up(began, now):
            self.since, self.since_at = start
            self.spent, self.spent_before = spent_since(connection, self.id, start, ended)
            self.told_refusal, self.has_changed = False, True

    def figures(self, *, percent: int | None = None, needed: int | None = None) -> BudgetFigures:
        began = PeriodStart(self.since, self.since_at).moment
        return BudgetFigures(
            scope=self.scope,
            subject=self.subject,
            period=self.period,
            limit=self.amount,
            spent=self.spent,
            held=self.held,
            since=date_in(self.time_zone, began).isoformat(),
            percent=percent,
            needed=needed,
            time_zone=self.time_zone,
            resets_at=self.resets_at,
        )


class BudgetBook:
    """The API keys of a batch of entries, and the budgets its runs count against.

    To be made under the lock of their workspaces, so that no other server admits runs meanwhile. `spending` are the
    subjects of the runs of workspaces that have a budget; nothing is looked up for others. `key_ids` are those of
    admissions, None among them for runs without a key; `now` (ms) is by the database's clock. `known` are rows of KEYS
    that were already looked up under that lock, `ended` the runs that the batch has ended and `end` is yet to be called
    for. `revoked` are keys that were revoked since their callers were cached,
    which must not spend any more. It `is_bounding` where there is any budget. `alerts` are those to be sent; `key_rows`
    and `budget_rows` are the changed rows.
    """

    def __init__(
        self,
        connection: Connection,
        key_ids: Iterable[str | None],
        spending: Collection[Spending],
        now: int,
        known: Rows = (),
        ended: Collection[object] = (),
    ) -> None:
        keys = {*key_ids, *(one.key_id for one in spending)} if spending else set(key_ids)
        missing = sorted(filter(None, keys.difference(map(operator.itemgetter(0), known))))
        revoked, teams = set(), {}
        for id_, revoked_at, team in itertools.chain(known, KEYS.run(connection, missing)):
            if revoked_at is not None:
                revoked.add(id_)
            if team is not None:
                teams[id_] = team
        self.revoked: Collection[str | None] = revoked
        self.alerts: list[NewAlert] = []
        self._held_for_keys: dict[str, int] = {}
        self._targets: dict[Spending, list[str]] = {}
        self._rows: dict[str, list[_Row]] = {}
        self.is_bounding = bool(spending)
        if spending:
            self._look_up(connection, spending, teams, now, ended)

    def _look_up(
        self,
        connection: Connection,
        spending: Collection[Spending],
        teams: dict[str, str],
        now: int,
        ended: Collection[object],
    ) -> None:
        for one in spending:
            team = None if one.key_id is None else teams.get(one.key_id)
            labels = labels_in(one.labels)
            self._targets[one] = targets_of_run(one.workspace_id, team, one.key_id, one.model_id, labels)
        wanted = {target for targets in self._targets.values() for target in targets}
        self._rows = defaultdict(list)
        for target, *found in _BUDGETS.run(connection, sorted(wanted)):
            row = _Row(*found)
            row.turn(connection, now, ended)
            self._rows[target].append(row)

    def refuse(self, run: Spending, hold: int, at: int) -> Fault | None:
        """The fault of a budget that does not cover a hold, or None. `at` is in ms since 1970.

        The first refusal of a period causes an alert, even if the whole batch is refused.
        """
        if not self._rows:
            return None
        for row in self._of(run):
            if not row.is_enforced:
                continue
            scope = BudgetScope(row.scope)
            named = "" if scope is BudgetScope.KEY else row.subject  # the caller has the key
            fault = refuse_budget(row.budget, row.spent, row.held, hold, scope, named, row.resets_at)
            if fault is not None:
                if not row.told_refusal:
                    row.told_refusal = row.has_changed = True
                    self._alert(row, AlertKind.REFUSAL, row.figures(needed=hold), at)
                return fault
        return None

    def hold(self, run: Spending, more: int) -> None:
        """A run was admitted, or its hold was raised."""
        if (key_id := run.key_id) is not None:
            self._held_for_keys[key_id] = self._held_for_keys.get(key_id, 0) + more
        if self._rows:
            for row in self._of(run):
                row.held += more
                row.has_changed = True

    def end(self, run: Spending, hold: int, charge: int, at: int) -> None:
        """A run has ended and was charged: an admission of the same batch is decided on that too.

        A run that ended in a period which is over does not count.
        """
        self.hold(run, -hold)
        if not self._rows or not charge:
            return
        day = day_of(at).isoformat()
        for row in self._of(run):
            if (day, at) < (row.since, row.since_at):
                if day == row.since:  # the usage of that day has the charge, too
                    row.spent_before += charge
                continue
            before, row.spent = row.spent, row.spent + charge
            percents = msgspec.json.decode(row.thresholds, type=list[int])
            percent = crossed_threshold(percents, row.amount, before, row.spent)
            if percent is not None:
                self._alert(row, AlertKind.THRESHOLD, row.figures(percent=percent), at)

    def key_rows(self) -> list[tuple[int, str]]:
        """The changes of what is held for each key."""
        changes = self._held_for_keys
        # New holds and released ones often cancel out, and then there is nothing to write.
        return list(filter(operator.itemgetter(0), zip(changes.values(), changes, strict=True)))

    def budget_rows(self) -> list[tuple[object, ...]]:
        """The figures of the budgets that have changed."""
        return [
            (row.held, row.spent, row.since, row.told_refusal, row.since_at, row.spent_before, row.id)
            for rows in self._rows.values()
            for row in rows
            if row.has_changed
        ]

    def _of(self, run: Spending) -> Iterator[_Row]:
        for target in self._targets.get(run, ()):
            yield from self._rows.get(target, ())

    def _alert(self, row: _Row, kind: AlertKind, figures: BudgetFigures, at: int) -> None:
        began = f"{row.since} {row.since_at}" if row.since_at else row.since
        once = f"{row.id} {began} {row.amount} {kind.value} {figures.percent or ''}"
        self.alerts.append(NewAlert(row.workspace_id, kind, row.id, once, msgspec.json.encode(figures).decode(), at))


class UsageBook(msgspec.Struct):
    """The usage that the runs of a batch add to their day."""

    sums: dict[UsageKey, UsageSums] = {}

    def note_end(
        self,
        workspace_id: str,
        key_id: str | None,
        model_id: str,
        finished_at: int,
        succeeded: bool,  # noqa: FBT001 -- a figure of the run like the others
        charge: int,
    ) -> None:
        """A run has ended; `key_id` None for one that was called with a token, `charge` in 10^-8 dollars."""
        key = UsageKey(workspace_id, text_of_day(finished_at // DAY_MS), key_id or NO_KEY, model_id)
        runs, successes, charged = self.sums.get(key, _NO_USAGE)
        self.sums[key] = UsageSums(runs + 1, successes + succeeded, charged + charge)

    def rows(self) -> Sequence[tuple[object, ...]]:
        """The gathered rows; the workspaces are locked, so that no other server writes the same ones."""
        return sorted(map(operator.add, self.sums, self.sums.values()))
