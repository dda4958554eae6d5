"""A server killed at every step of a run's life, and started again (R-29): nothing lost, nothing twice.

Each test brings a run of every kind to one step and kills the server there: queued and synchronous ones, at partners
that honour idempotency keys and that do not, that answer at once and that are polled. docs/survival.md has
the table.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from databases import Postgres
from end_to_end.crash_sites import (
    MODELS,
    Piece,
    Step,
    Workshop,
    is_lost,
    lock_writes,
    pass_silence,
    pieces_at,
    result_of,
)
from fake_partner import SECRET, CatalogFolder, FakePartner
from servers import Server, serving, wait_until, wait_until_async

_ENV: Final = {f"FAIRLEAD_PROVIDER_{name}_KEY": SECRET for name in ("FAKE", "ONCE")}
_PLAIN: Final = ("--no-local-partner",)
_FILLER: Final = Piece("filler", "fake/json-1")
_FREE_POLLS: Final = 3
_LIVE: Final = ("runs_parked", "runs_released", "runs_dispatched", "runs_accepted")
_IS_LONG: Final = os.environ.get("CRASH_WALK") == "long"
_KINDS: Final = ("sqlite", "postgresql")


def _cells() -> Iterator[tuple[Step, str]]:
    """Every step on both databases for `make crash`; in the short form each step on one of them, in turns."""
    for number, step in enumerate(Step):
        for kind in _KINDS if _IS_LONG else (_KINDS[number % 2],):
            yield step, kind


@pytest.fixture
def database_of_cell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of an empty database of the kind that a cell asks for."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/walk.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create()
    yield server.url(name)
    server.drop(name)


def _states_left_at(step: Step, pieces: list[Piece]) -> dict[str, int]:
    """The states that runs are left in by a crash at a step."""
    polled = sum(1 for piece in pieces if piece.is_polled)
    match step:
        case Step.UNWRITTEN | Step.SETTLED:
            return {}
        case Step.PARKED:
            return {"runs_parked": len(pieces), "runs_dispatched": 1}
        case Step.RELEASED:
            return {"runs_released": len(pieces)}
        case Step.INTENT:
            return {"runs_dispatched": len(pieces)}
        case Step.HANDLE | Step.POLLING | Step.RESULT:
            return {"runs_accepted": polled, "runs_dispatched": len(pieces) - polled}


class _Walk:
    """One crash: the pieces under way, what their callers were told, and what was found afterwards."""

    def __init__(self, step: Step, url: str, folder: Path, partner: FakePartner) -> None:
        self.step = step
        self.url = url
        self.pieces = pieces_at(step)
        self.workshop = Workshop(
            partner,
            holds_orders=step in (Step.INTENT, Step.RESULT, Step.PARKED),
            holds_polls_after={Step.HANDLE: 0, Step.POLLING: _FREE_POLLS, Step.RESULT: 0}.get(step),
        )
        self.data = folder / "data"
        self.catalog = CatalogFolder(folder / "catalog")
        self.workshop.open(self.catalog, self.pieces)
        self.requests: dict[str, str] = {}
        self.answers: dict[str, bytes] = {}

    def crash(self) -> None:
        """Bring every piece to the step, kill the server there, and let the partners go on."""
        places = "0" if self.step is Step.RELEASED else "100"
        first = Server(self.data, self.url, self.catalog.path, {**_ENV, "FAIRLEAD_QUEUE_PLACES": places}, _PLAIN)
        try:
            asyncio.run(self._until_killed(first))
        finally:
            first.kill()
        self._was_there(first.audit())
        self.workshop.free()
        asyncio.run(pass_silence(self.url))

    def _was_there(self, report: dict[str, Any]) -> None:
        """Assert that the server died where it was to die: what the books say before another one looks at them."""
        assert report["clean"]
        found = {name: count for name in _LIVE if (count := report["totals"][name])}
        assert found == {name: count for name, count in _states_left_at(self.step, self.pieces).items() if count}

    async def _until_killed(self, server: Server) -> None:
        headers = {"X-API-Key": server.key}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=50) as client:
            if self.step is Step.UNWRITTEN:
                async with lock_writes(self.url):
                    calls = self._call_all(client)
                    await asyncio.sleep(0.5)
                    server.kill()
            else:
                calls = await self._brought_there(server, client)
            for call in calls:
                with suppress(httpx.TransportError):  # the server was killed
                    await call

    async def _brought_there(self, server: Server, client: httpx.AsyncClient) -> list[asyncio.Task[None]]:
        before: list[asyncio.Task[None]] = []
        if self.step is Step.PARKED:
            await asyncio.to_thread(server.cli, "workspaces", "change", "default", "--in-flight-limit", "1")
            before = [asyncio.create_task(self._run(client, _FILLER))]
            await wait_until_async(lambda: self.workshop.begun[_FILLER.name], "the slot is taken")
        calls = self._call_all(client)
        await wait_until_async(self._is_there, f"every run is there: {self.step.value}")
        if self.step is Step.RESULT:
            async with lock_writes(self.url):
                self.workshop.free()
                await wait_until_async(lambda: len(self.workshop.told) == len(self.pieces), "every result is told")
                await asyncio.sleep(0.3)  # it is read, and waits to be written
                server.kill()
        server.kill()
        return [*before, *calls]

    def _is_there(self) -> bool:
        names = {piece.name for piece in self.pieces}
        match self.step:
            case Step.PARKED | Step.RELEASED:
                return set(self.requests) == names
            case Step.INTENT:
                return set(self.workshop.begun) >= names
            case Step.HANDLE | Step.POLLING:
                least = 1 if self.step is Step.HANDLE else _FREE_POLLS + 1
                return all(self.workshop.polled[name] >= least for name in names)
            case Step.RESULT:
                polled = {piece.name for piece in self.pieces if piece.is_polled}
                return set(self.workshop.begun) >= names and all(self.workshop.polled[name] for name in polled)
            case _:
                return set(self.answers) == names

    def _call_all(self, client: httpx.AsyncClient) -> list[asyncio.Task[None]]:
        kinds = {"sync": self._run, "queue": self._submit}
        return [asyncio.create_task(kinds[piece.mode](client, piece)) for piece in self.pieces]

    async def _run(self, client: httpx.AsyncClient, piece: Piece) -> None:
        response = await client.post(
            f"/v2/models/{piece.model}", json={"n": piece.name}, headers={"Idempotency-Key": piece.name}
        )
        if response.status_code == 200:
            self.answers[piece.name] = response.content

    async def _submit(self, client: httpx.AsyncClient, piece: Piece) -> None:
        path = f"/v2/models/{piece.model}/requests"
        response = await client.post(path, json={"n": piece.name}, headers={"Idempotency-Key": piece.name})
        if response.status_code != 201:
            return
        self.requests[piece.name] = response.json()["request_id"]
        while self.step is Step.SETTLED and piece.name not in self.answers:
            found = await client.get(f"{path}/{self.requests[piece.name]}")
            if found.status_code == 200:
                self.answers[piece.name] = found.content
            await asyncio.sleep(0.02)


@pytest.mark.req("R-29", "R-18", "R-34")
@pytest.mark.parametrize(
    ("step", "database_of_cell"),
    [pytest.param(step, kind, id=f"{step.name.lower()}-{kind}") for step, kind in _cells()],
    indirect=["database_of_cell"],
)
def test_no_run_is_lost_or_doubled_by_a_crash(
    step: Step, database_of_cell: str, tmp_path: Path, partner: FakePartner
) -> None:
    """Whatever the step: one generation and one charge for each run, or it is told as lost; all can be collected."""
    walk = _Walk(step, database_of_cell, tmp_path, partner)
    walk.crash()
    with serving(walk.data, database=walk.url, catalog=walk.catalog.path, env=_ENV, arguments=_PLAIN) as second:
        wait_until(lambda: not _live(second), "no live runs", seconds=120, pause=0.1)
        for piece in walk.pieces:
            _ask_again(walk, second, piece)
        report, ledger = second.audit(), second.ledger()
    assert (report["clean"], report["disagreements"]) == (True, [])
    lost = [piece for piece in walk.pieces if is_lost(step, piece)]
    assert report["totals"]["runs_lost"] == len(lost)
    everything = [*walk.pieces, *([_FILLER] if step is Step.PARKED else [])]
    assert walk.workshop.begun == Counter(piece.name for piece in everything)
    _settled_once(ledger, everything, lost)


def _live(server: Server) -> int:
    totals = server.audit()["totals"]
    return sum(totals[name] for name in _LIVE)


def _ask_again(walk: _Walk, server: Server, piece: Piece) -> None:
    """Collect a piece, or call again under its key: the result, or that nobody knows."""
    if piece.mode == "queue":
        response = _collect(walk, server, piece)
    else:
        response = server.client.post(
            f"/v2/models/{piece.model}", json={"n": piece.name}, headers={"Idempotency-Key": piece.name}
        )
        is_replay = response.headers.get("idempotent-replayed") == "true"
        assert is_replay == (walk.step is not Step.UNWRITTEN), piece
    if is_lost(walk.step, piece):
        assert (response.status_code, response.headers["x-service-error-type"]) == (502, "provider_error"), piece
        return
    assert (response.status_code, response.json()) == (200, result_of(piece.name)), piece
    assert walk.answers.get(piece.name, response.content) == response.content


def _collect(walk: _Walk, server: Server, piece: Piece) -> httpx.Response:
    """Submit again under the key, which names the same request, and collect it."""
    path = f"/v2/models/{piece.model}/requests"
    again = server.client.post(path, json={"n": piece.name}, headers={"Idempotency-Key": piece.name})
    request_id = again.json()["request_id"]
    assert again.status_code == 201
    assert request_id == walk.requests.get(piece.name, request_id)

    def has_ended() -> httpx.Response | None:
        found = server.client.get(f"{path}/{request_id}")
        return None if found.status_code == 202 else found

    found = wait_until(has_ended, "the request is completed")
    assert found is not None
    return found


def _settled_once(ledger: list[dict[str, Any]], everything: list[Piece], lost: list[Piece]) -> None:
    """Every run was held for once and ended once: posted, or voided where it is lost."""
    for model in MODELS:
        rows = [row for row in ledger if row["model_id"] == model]
        kinds = Counter(row["kind"] for row in rows)
        of_model = sum(1 for piece in everything if piece.model == model)
        voided = sum(1 for piece in lost if piece.model == model)
        expected = {"hold": of_model, "post": of_model - voided, "void": voided}
        assert kinds == Counter({kind: count for kind, count in expected.items() if count}), model
        posted = Counter(row["run_id"] for row in rows if row["kind"] == "post")
        assert set(posted.values()) <= {1}
        assert {row["balance_change"] for row in rows if row["kind"] == "post"} <= {"-0.01"}
