"""Runs for administrators: listed by filters, shown in full with their timeline, and cancelled."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.ledger.books import TOPPED_UP, EntryKind
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.runs.outcomes import Completed
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.ledger.statements import Statement, UnknownRunError, statement
from fairlead.operations.runs.cancel import Canceller
from fairlead.operations.runs.results import ResultGoneError, Results
from fairlead.storage.db.database import Database
from fairlead.storage.runs import listing
from fairlead.storage.runs.idempotency import ended_run
from fairlead.storage.runs.listing import ListedKey, ListedRun, RunFilter, RunOwner, RunPage

__all__ = [
    "ListedKey",
    "ListedRun",
    "NotQueuedError",
    "RunDetail",
    "RunFilter",
    "RunInspector",
    "RunPage",
    "TimelineEntry",
]

_LINKS_MAX: Final = 50


class NotQueuedError(Exception):
    """A synchronous run cannot be cancelled: it ends with the answer of its partner."""


class TimelineEntry(msgspec.Struct, frozen=True):
    """An event in the life of a run: when (ms since 1970), what, at which attempt, and the details as text."""

    at: int
    kind: str
    attempt: int | None
    detail: str


class RunDetail(msgspec.Struct, frozen=True):
    """A run in full: its statement, its events in order, and the links in its result while that is kept."""

    statement: Statement
    timeline: list[TimelineEntry]
    outputs: list[str]


class RunInspector(msgspec.Struct, frozen=True):
    """Reads runs of the workspaces that a caller may see. FaultError if `database` raises it."""

    database: Database
    canceller: Canceller
    authenticator: Authenticator
    results: Results
    clock: Clock

    async def page(self, wanted: RunFilter, limit: int) -> RunPage:
        """Up to `limit` runs, the newest first. A page that is not full may have another one after it."""
        return await self.database.read(lambda c: listing.list_runs(c, wanted, limit))

    async def detail(self, run_id: str, seen: RunFilter) -> RunDetail:
        """A run in full; UnknownRunError also for one that is not in `seen`."""
        await self._owner(run_id, seen)
        found, now = await statement(self.database, run_id), self.clock.now_ms()
        if seen.workspace_ids is not None:
            found = found.for_workspace()
        content_type, content = await self.database.read(lambda c: listing.kept_result(c, run_id, now))
        is_json = content_type is not None and content_type.partition(";")[0].strip() == "application/json"
        return RunDetail(found, timeline_of(found), _links(content) if is_json and content else [])

    async def result(self, run_id: str, seen: RunFilter) -> Completed | None:
        """The result of a run while it is kept, for its collectors or its idempotency key; otherwise None.

        UnknownRunError, and FaultError while it cannot be read.
        """
        await self._owner(run_id, seen)
        ended = await self.database.read(lambda c: ended_run(c, run_id))
        kept = None if ended is None else ended.result
        if kept is None or kept.expires_at <= self.clock.now_ms():
            return None
        try:
            outcome = await self.results.read(kept)
        except ResultGoneError:
            return None
        return outcome if isinstance(outcome, Completed) else None

    async def cancel(self, run_id: str, seen: RunFilter, by: Actor) -> bool:
        """Request a queued run to stop; False if it has ended. UnknownRunError, NotQueuedError, FaultError."""
        owner = await self._owner(run_id, seen)
        if not owner.is_queued:
            raise NotQueuedError(run_id)
        caller = await self.authenticator.caller_of_workspace(owner.workspace_id, by.name)
        return await self.canceller.cancel(caller, owner.model_id, run_id, by)

    async def _owner(self, run_id: str, seen: RunFilter) -> RunOwner:
        owner = await self.database.read(lambda c: listing.owner_of_run(c, run_id))
        if owner is None or (seen.workspace_ids is not None and owner.workspace_id not in seen.workspace_ids):
            raise UnknownRunError(run_id)
        if seen.own_key_id is not None and owner.key_id != seen.own_key_id:
            raise UnknownRunError(run_id)
        return owner


def timeline_of(found: Statement) -> list[TimelineEntry]:
    """The events of a run in order: admission, hold and raises, claim, tries, fallback, charge, webhooks and more."""
    return sorted(_entries(found), key=lambda one: one.at)


def _entries(found: Statement) -> Iterator[TimelineEntry]:
    run = found.run
    yield TimelineEntry(_time(run, "created_at"), "admitted", None, f"{run['came']}, at {_first_provider(found)}")
    for entry in found.entries:
        yield _ledger_entry(entry)
    if dropped := run["dropped"]:
        yield TimelineEntry(_time(run, "created_at"), "fields dropped", None, ", ".join(map(str, _texts(dropped))))
    if run["claimed_at"] is not None:
        yield TimelineEntry(_time(run, "claimed_at"), "claimed", None, "by a worker")
    for event in found.events:
        yield TimelineEntry(_time(event, "at"), str(event["kind"]), _number(event["attempt"]), str(event["detail"]))
    if run["finished_at"] is not None:
        status = run["upstream_status"]
        words = [str(run["reason"]), *([] if status is None else [f"the provider answered {status}"])]
        yield TimelineEntry(_time(run, "finished_at"), str(run["state"]), _number(run["attempt"]), "; ".join(words))
    for told in found.tries:
        answer = told["error"] if told["status"] is None else told["status"]
        yield TimelineEntry(_time(told, "at"), "webhook", _number(told["number"]), f"answered {answer}")


def _ledger_entry(entry: Mapping[str, object]) -> TimelineEntry:
    """An entry of the ledger as an event."""
    at, held, reason = _time(entry, "created_at"), _time(entry, "held_change"), str(entry["reason"])
    match entry["kind"]:
        case EntryKind.HOLD:
            return TimelineEntry(at, "hold", None, f"{as_dollars(held)} US dollars, by {entry['rate_version']}")
        case EntryKind.RAISE:
            words = f"{reason}; the hold changes by {as_dollars(held)} US dollars"
            return TimelineEntry(at, "hold raised" if reason == TOPPED_UP else "fallback", None, words)
        case EntryKind.POST:
            charged = as_dollars(-_time(entry, "balance_change"))
            return TimelineEntry(at, "charge", None, f"{charged} US dollars, by {entry['rate_version']}")
        case EntryKind.REFUND:
            given = as_dollars(_time(entry, "balance_change"))
            return TimelineEntry(at, "refund", None, f"{given} US dollars are given back: {reason}")
        case EntryKind.RERATE:
            changed = _time(entry, "balance_change")
            words = f"{as_dollars(abs(changed))} US dollars {'less' if changed >= 0 else 'more'}"
            return TimelineEntry(at, "re-rate", None, f"{words}, by {entry['rate_version']}: {reason}")
        case _:
            return TimelineEntry(at, "hold released", None, f"nothing is charged: {reason}")


def _first_provider(found: Statement) -> object:
    return found.legs[0]["provider"] if found.legs else found.run["provider"]


def _time(row: Mapping[str, object], name: str) -> int:
    value = row[name]
    return value if isinstance(value, int) else 0


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _links(content: bytes) -> list[str]:
    """The links in a result, each once, in order."""
    try:
        document: object = json.loads(content)
    except ValueError:
        return []
    links: dict[str, None] = {}
    waiting = [document]
    while waiting and len(links) < _LINKS_MAX:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(reversed(one.values()))
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, str) and one.startswith(("https://", "http://")):
            links[one] = None
    return list(links)
