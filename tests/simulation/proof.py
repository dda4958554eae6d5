"""What must hold when a history is over, whatever happened in it."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, select

from fairlead.domain.faults import FaultError, bucket
from fairlead.domain.runs.outcomes import Completed
from fairlead.domain.runs.states import LIVE, RunState
from fairlead.operations.runs.results import Answer
from fairlead.storage.db.tables import ledger_entries, runs, webhook_deliveries, workspaces
from fairlead.storage.ledger import ledger
from simulation.actors import Call, Notebook
from simulation.partners import KEYED, Generation
from simulation.servers import PRICES, SimulatedServer, World
from simulation.workspaces import CREDITS, DOLLAR

_WITHDRAWN: Final = frozenset({"cancelled", "queue_timeout"})


@dataclass(frozen=True, slots=True)
class Facts:
    """What a history had in it, to show that histories are not empty."""

    runs: int
    charged: int
    lost: int
    withdrawn: int
    taken_over: int
    text: str


class Proof:
    """Holds the books of the router against the books of the partners and what callers were told.

    `wrong` is everything that must not be, as sentences.
    """

    def __init__(self, world: World, notebook: Notebook) -> None:
        self._world = world
        self._notebook = notebook
        self._rows: dict[str, dict[str, Any]] = {}
        self.wrong: list[str] = list(world.bugs)

    async def of_everything(self, server: SimulatedServer) -> None:
        """Look at everything, and let a server that lives tell every result once more."""
        store = self._world.store
        self._rows = store.look(_rows)
        self.wrong += [f"the books disagree: {found}" for found in store.look(ledger.disagreements)]
        self._money(store.look(_charges), store.look(_workspaces))
        for run_id, row in self._rows.items():
            self._run(run_id, row, self._world.partners.of(run_id))
        for call in self._notebook.calls.values():
            self._call(call)
        for call in self._notebook.calls.values():
            await self._prove_collectable(server, call)
        for key, calls in self._notebook.by_key().items():
            self._key(key, calls)
        self._hooks(store.look(_hooks))

    def facts(self) -> Facts:
        """What the history had in it."""
        rows = self._rows.values()
        return Facts(
            runs=len(rows),
            charged=sum(1 for row in rows if row["state"] == RunState.SUCCEEDED),
            lost=sum(1 for row in rows if row["state"] == RunState.LOST),
            withdrawn=sum(1 for row in rows if row["attempt"] == 0),
            taken_over=sum(1 for row in rows if row["attempt"] > 1),
            text=self._world.scenario.text(),
        )

    def _expect(self, holds: object, sentence: str) -> None:
        if not holds:
            self.wrong.append(sentence)

    def _money(self, charges: dict[str, list[int]], figures: dict[str, dict[str, Any]]) -> None:
        """Each run that succeeded is charged once, at its price; no other run is; nothing is held any more."""
        spent = dict.fromkeys(CREDITS, 0)
        for run_id, row in self._rows.items():
            expected = [self._price(row)] if row["state"] == RunState.SUCCEEDED else []
            self._expect(charges.get(run_id, []) == expected, f"{run_id} is charged {charges.get(run_id)}: {expected}")
            spent[row["workspace_id"]] += sum(expected)
        for name, row in figures.items():
            self._expect(row["balance"] == CREDITS[name] - spent[name], f"{name} has {row['balance']}, spent {spent}")
            left = {key: row[key] for key in ("held", "in_flight", "costly_in_flight", "waiting", "parked") if row[key]}
            self._expect(not left, f"{name} is left with {left}")

    def _price(self, row: dict[str, Any]) -> int:
        """What a run that succeeded must have cost, by the partner's own books."""
        price = int(float(PRICES[row["model_id"].removeprefix("acme/")]) * DOLLAR)
        used = sum(done.used for done in self._work_done(row["id"]) if done.provider == row["provider"])
        return min(int(row["hold"]), price * used)

    def _work_done(self, run_id: str) -> list[Generation]:
        """What was made for a run: of work begun for it, or for an earlier run of its key, if it went on with that.

        A retry goes on with undecided work of the run before it, by the name that the partner gave to it (R-18).
        """
        begun = list(self._world.partners.of(run_id))
        row = self._rows.get(run_id)
        if row is not None and row["handle"] is not None:
            for earlier in self._of_the_same_key(run_id):
                begun += [found for found in self._world.partners.of(earlier) if found.handle in row["handle"]]
        return [found for found in begun if found.end == "done"]

    def _of_the_same_key(self, run_id: str) -> list[str]:
        """The other runs that were asked for under the idempotency key of a run."""
        for calls in self._notebook.by_key().values():
            run_ids = [call.run_id for call in calls]
            if run_id in run_ids:
                return [other for other in run_ids if other != run_id]
        return []

    def _run(self, run_id: str, row: dict[str, Any], begun: list[Generation]) -> None:
        """A run has ended; it was begun once at most, and lost or failed only where it had to be."""
        state, reason = row["state"], row["reason"]
        self._expect(state not in LIVE, f"{run_id} is still {state}")
        self._expect(row["request_blob"] is None, f"{run_id} has ended, and still names its body")
        self._expect(len(begun) <= 1, f"{run_id} was begun {len(begun)} times: {begun}")
        for generation in begun:
            asked_again = generation.orders > 1 and generation.provider not in KEYED
            self._expect(not asked_again, f"{run_id} was ordered {generation.orders} times without a key")
        done = self._work_done(run_id)
        if state == RunState.SUCCEEDED:
            self._expect(done and done[0].told, f"{run_id} succeeded without a result")
        if not self._world.scenario.has_silence:
            self._expect(
                state != RunState.LOST and row["attempt"] <= 1 + row["postponed"],
                f"{run_id} was taken from a server that lived",
            )
        if state == RunState.LOST:
            self._expect(row["handle"] is None, f"{run_id} is lost though it has the handle {row['handle']}")
            self._expect(row["provider"] not in KEYED, f"{run_id} is lost at a partner that honours keys")
            self._expect(not any(one.polls for one in begun), f"{run_id} was polled, and its handle was not kept")
        if state == RunState.FAILED and done:
            self._expect(
                run_id in self._world.scenario.excuses, f"{run_id} failed with {reason} though it was worked on"
            )
        if row["place"] is not None and reason == "service_unavailable":
            is_turned_away = self._world.scenario.turned_away & {run_id, row["provider"]}
            self._expect(is_turned_away, f"{run_id} was given up, and nobody had turned it away")
        if row["place"] is not None and row["claimed_at"] is None:
            self._expect(not begun, f"{run_id} was never claimed, but begun")
            self._expect(reason in _WITHDRAWN, f"{run_id} was never claimed, and ended as {reason}")
        if reason == "queue_timeout":
            waited = row["finished_at"] - row["created_at"]
            self._expect(waited >= self._world.scenario.plan.queue_timeout_ms, f"{run_id} timed out after {waited} ms")

    def _call(self, call: Call) -> None:
        """What a caller was told is what happened."""
        row = self._rows.get(call.run_id)
        if call.told == "refused":
            self._expect(row is None or not call.is_queued, f"{call.run_id} was refused, and is there")
        if call.told == "taken" and call.is_queued:
            self._expect(
                call.known_as in self._rows, f"{call.run_id} was taken in as {call.known_as}, which is not there"
            )
        if call.told == "unheard" and not call.is_queued and call.known_as is None and row is not None:
            is_taken_over = row["attempt"] > 1
            self._expect(row["charge"] == 0 or is_taken_over, f"{call.run_id} was not started, and charged")
        for is_asked, at in call.cancels:
            if row is not None and not is_asked:
                self._expect(row["finished_at"] <= at, f"{call.run_id} was said to have ended before it did")
        if row is not None and row["reason"] == "cancelled" and not self._is_jumpy():
            self._expect(call.is_queued, f"{call.run_id} was cancelled, which nobody asked for")
        self._answers(call)

    def _is_jumpy(self) -> bool:
        return self._world.jumped_ns > 0

    def _answers(self, call: Call) -> None:
        """Every result a caller was given is the one result of the run, and was charged."""
        run_id = call.known_as or call.run_id
        for answer in call.answers:
            run_ids = [run_id] if call.key is None else [same.run_id for same in self._notebook.by_key()[call.key.id]]
            made = [each for each in run_ids if any(done.content == answer for done in self._work_done(each))]
            self._expect(made, f"{run_id} was answered with bytes that no partner made")
            states = [self._rows[each]["state"] for each in made]
            self._expect(not made or RunState.SUCCEEDED in states, f"{run_id} was answered, and {made} are {states}")

    async def _prove_collectable(self, server: SimulatedServer, call: Call) -> None:
        """A queued run's result can be collected: the partner's bytes, or the failure that is in the books."""
        if not call.is_queued or call.run_id not in self._rows:
            return
        row = self._rows[call.run_id]
        try:
            found = await server.ask(server.collector.collect(call.caller, call.model_id, call.run_id))
        except FaultError as error:
            self.wrong.append(f"{call.run_id} cannot be collected: {error.fault}")
            return
        if not isinstance(found, Answer):
            self.wrong.append(f"{call.run_id} is {row['state']}, and cannot be collected yet")
        elif isinstance(found.outcome, Completed):
            self._expect(row["state"] == RunState.SUCCEEDED, f"{call.run_id} is {row['state']}, and has a result")
            made = [done.content for done in self._work_done(call.run_id)]
            self._expect(found.outcome.content in made, f"{call.run_id} is collected as other bytes")
        else:
            told = "lost" if row["state"] == RunState.LOST else bucket(found.outcome.fault)
            self._expect(told == row["reason"], f"{call.run_id} ended as {row['reason']}, and is told as {told}")

    def _key(self, key: str, calls: list[Call]) -> None:
        """Under one key one run is charged at most; of queued runs there is only one."""
        rows = [self._rows[call.run_id] for call in calls if call.run_id in self._rows]
        charged = [row["id"] for row in rows if row["state"] == RunState.SUCCEEDED]
        self._expect(len(charged) <= 1, f"{key} was charged as {charged}")
        if calls[0].is_queued:
            self._expect(len(rows) <= 1, f"{key} was taken in as {[row['id'] for row in rows]}")

    def _hooks(self, due: dict[str, int | None]) -> None:
        """Anyone who wanted to be told of a run's end is to be told."""
        for call in self._notebook.calls.values():
            if call.has_hook and call.run_id in self._rows:
                self._expect(due.get(call.run_id) is not None, f"nobody will tell the end of {call.run_id}")


def _rows(connection: Connection) -> dict[str, dict[str, Any]]:
    return {row["id"]: dict(row) for row in connection.execute(select(runs)).mappings()}


def _charges(connection: Connection) -> dict[str, list[int]]:
    """What each run was charged, entry by entry."""
    found: dict[str, list[int]] = {}
    posts = select(ledger_entries.c.run_id, ledger_entries.c.balance_change).where(ledger_entries.c.kind == "post")
    for run_id, change in connection.execute(posts):
        found.setdefault(run_id, []).append(-change)
    return found


def _workspaces(connection: Connection) -> dict[str, dict[str, Any]]:
    return {row["id"]: dict(row) for row in connection.execute(select(workspaces)).mappings()}


def _hooks(connection: Connection) -> dict[str, int | None]:
    deliveries = select(webhook_deliveries.c.run_id, webhook_deliveries.c.next_at)
    return {row[0]: row[1] for row in connection.execute(deliveries)}
