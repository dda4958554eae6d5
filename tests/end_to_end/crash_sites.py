"""Where a server is when it is killed, held there from outside: by its partners, by a lock in its database, by slots.

Nothing in the product knows of this. A partner holds an answer, another connection holds what a commit needs.
"""

import asyncio
import enum
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]

from fairlead.storage.db.opening import file_of
from fake_partner import CatalogFolder, FakePartner, Request, reply_json

KEYED: Final = "fake"
UNKEYED: Final = "once"
MODELS: Final = ("fake/json-1", "fake/task-1", "once/json-1", "once/task-1")
"""A partner that honours idempotency keys and one that does not; each answers at once, or takes work and is polled."""
MODES: Final = ("sync", "queue")


class Step(enum.Enum):
    """How far a run has come when its server is killed."""

    UNWRITTEN = "the call has arrived, and its admission cannot be committed"
    PARKED = "queued, without a slot"
    RELEASED = "queued, with a slot, claimed by no worker"
    INTENT = "the intent is durable, and the partner has the call"
    HANDLE = "the handle is durable, and the first poll is under way"
    POLLING = "some polls were answered"
    RESULT = "the result is there, and the settlement cannot be committed"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Piece:
    """One run of the walk: how it is asked for, and of which model."""

    mode: str
    model: str

    @property
    def name(self) -> str:
        """What its body carries, by which the partner knows it."""
        return f"{self.mode}-{self.model.replace('/', '-')}"

    @property
    def is_polled(self) -> bool:
        """Whether its partner takes the work and is asked about it."""
        return "task" in self.model

    @property
    def is_keyed(self) -> bool:
        """Whether its partner honours idempotency keys."""
        return self.model.startswith(KEYED)


def pieces_at(step: Step) -> list[Piece]:
    """Every kind of run that can be at a step."""
    modes = ("queue",) if step in (Step.PARKED, Step.RELEASED) else MODES
    every = [Piece(mode, model) for mode in modes for model in MODELS]
    return [piece for piece in every if piece.is_polled] if step in (Step.HANDLE, Step.POLLING) else every


def is_lost(step: Step, piece: Piece) -> bool:
    """Whether a run killed there cannot be known the end of: its partner has it, knows no key, and gave no handle."""
    if piece.is_keyed:
        return False
    return step is Step.INTENT or (step is Step.RESULT and not piece.is_polled)


@dataclass(slots=True)
class Workshop:
    """What the partners of the walk do: the work of each piece, counted when it is begun."""

    partner: FakePartner
    holds_orders: bool = False
    holds_polls_after: int | None = None
    begun: Counter[str] = field(default_factory=Counter)
    told: set[str] = field(default_factory=set)
    _names: dict[str, str] = field(default_factory=dict)
    _polls: Counter[str] = field(default_factory=Counter)

    def open(self, catalog: CatalogFolder, pieces: list[Piece]) -> None:
        """Put the partners into a catalog and wait for orders."""
        for name in (KEYED, UNKEYED):
            catalog.add_provider(f"{self.partner.url}/{name}", name, repeats_safely=name == KEYED, give_up_after=60)
            self.partner.script(f"/{name}/json", self._at_once)
            self.partner.script(f"/{name}/tasks", self._take)
        for piece in pieces:
            if piece.is_polled:
                self.partner.script(f"/{piece.model.partition('/')[0]}/tasks/{piece.name}", self._answer_poll)
        for model in MODELS:
            catalog.add_model(model, "task" if "task" in model else "json", provider=model.partition("/")[0])

    def free(self) -> None:
        """Hold nothing from now on."""
        self.holds_orders, self.holds_polls_after = False, None
        self.partner.release()

    @property
    def polled(self) -> Mapping[str, int]:
        """How often each piece was asked about."""
        return self._polls

    def _order(self, request: Request) -> str:
        """Begin the work of an order, unless it is known by its key."""
        name = str(json.loads(request.body)["n"])
        key = request.headers.get("idempotency-key")
        if key is None or key not in self._names:
            self.begun[name] += 1
        if key is not None:
            self._names[key] = name
        return name

    async def _at_once(self, request: Request, writer: asyncio.StreamWriter) -> None:
        name = self._order(request)
        await self._answer(result_of(name), request, writer, is_held=self.holds_orders)
        self.told.add(name)

    async def _take(self, request: Request, writer: asyncio.StreamWriter) -> None:
        name = self._order(request)
        holds = self.holds_orders and self.holds_polls_after is None
        await self._answer({"id": name}, request, writer, is_held=holds)

    async def _answer_poll(self, request: Request, writer: asyncio.StreamWriter) -> None:
        name = request.path.rpartition("/")[2]
        self._polls[name] += 1
        if self.holds_polls_after is not None and self._polls[name] <= self.holds_polls_after:
            await self._answer({"state": "running"}, request, writer, is_held=False)
            return
        await self._answer(result_of(name), request, writer, is_held=self.holds_polls_after is not None)
        self.told.add(name)

    async def _answer(self, said: Any, request: Request, writer: asyncio.StreamWriter, *, is_held: bool) -> None:
        answer = reply_json(said)
        await (self.partner.hold(answer) if is_held else answer)(request, writer)


def result_of(name: str) -> dict[str, str]:
    """What a partner makes of a piece."""
    return {"state": "done", "made": name}


@asynccontextmanager
async def lock_writes(url: str) -> AsyncIterator[None]:
    """Hold what every commit of the router needs: SQLite's write lock, or the rows of all workspaces."""
    path = file_of(url)
    if path is not None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
        return
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("SELECT id FROM workspaces FOR UPDATE")
            yield
    finally:
        await connection.close()


async def pass_silence(url: str) -> None:
    """Let it be long ago that any server was seen, so that nobody waits for twenty seconds."""
    if file_of(url) is None:  # with SQLite nobody waits
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("UPDATE servers SET seen_at = 0")
        finally:
            await connection.close()
