"""The statement of a run: everything that explains its price."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairlead.domain.ledger.books import TOPPED_UP, EntryKind
from fairlead.domain.ledger.usage import labels_in
from fairlead.domain.runs.entries import PROVIDER_TOLD_OPERATORS
from fairlead.domain.runs.states import RunState
from fairlead.storage.accounts.workspaces import workspace_id_of
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import statements


class UnknownRunError(Exception):
    """No run has this id."""


class Statement(msgspec.Struct, frozen=True):
    """One run in full. Times in ms since 1970, money in 10^-8 dollars; lists are oldest first.

    `legs` are the providers it went to, each with the hold there; `webhook` is None if the run has none.
    """

    run: dict[str, object]
    legs: list[dict[str, object]]
    entries: list[dict[str, object]]
    events: list[dict[str, object]]
    webhook: dict[str, object] | None
    tries: list[dict[str, object]]

    def for_workspace(self) -> "Statement":
        """The same without what only operators see."""
        events = [event for event in self.events if event["kind"] != PROVIDER_TOLD_OPERATORS]
        return msgspec.structs.replace(self, events=events)


async def statement(database: Database, run_id: str) -> Statement:
    """The statement of a run; UnknownRunError."""
    found = await database.read(lambda c: statements.rows_of_run(c, run_id))
    if found is None:
        raise UnknownRunError(run_id)
    legs = _legs(found.run, found.entries)
    held = found.entries[0]["held_change"] if found.entries else None
    return Statement(
        run=_describe(found.run) | {"most": held if found.run["most"] is None else found.run["most"]},
        legs=legs,
        entries=found.entries,
        events=found.events,
        webhook=None if found.webhook is None else {**found.webhook, "url": statements.shown_url(found.webhook["url"])},
        tries=found.tries,
    )


async def newest_runs(
    database: Database, workspace: str, state: RunState | None, limit: int
) -> list[dict[str, object]]:
    """The newest runs of a workspace (by name or id), oldest first; UnknownWorkspaceError."""
    rows = await database.read(lambda c: statements.newest_runs(c, workspace_id_of(c, workspace), state, limit))
    return [_describe(row) for row in rows]


def _describe(row: Mapping[str, Any]) -> dict[str, object]:
    return {
        **row,
        "came": "at once" if row["place"] is None else "queued",
        "labels": labels_in(row["labels"]),
        "dropped": [] if row["dropped"] is None else json.loads(row["dropped"]),
    }


def _legs(run: Mapping[str, object], entries: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """The providers a run went to, each with its largest hold there: the first, then one for every redirection.

    Its raise names the provider before and after it ("redirected from … to …"); a hold that was topped up is of the
    same provider.
    """
    legs: list[dict[str, object]] = []
    held = 0
    for entry in entries:
        if entry["kind"] in (EntryKind.HOLD, EntryKind.RAISE):
            held += entry["held_change"]
            if entry["reason"] == TOPPED_UP:
                legs[-1]["hold"] = held
                continue
            words = entry["reason"].split(" ")
            if entry["kind"] == EntryKind.RAISE and legs:
                legs[-1]["provider"] = words[2]
            legs.append(
                {
                    "at": entry["created_at"],
                    "provider": run["provider"] if entry["kind"] == EntryKind.HOLD else words[-1],
                    "hold": held,
                    "rate_version": entry["rate_version"],
                }
            )
    return legs
