"""A server killed in the middle of its work, and the one that is started after it.

The crash is made once for each kind of database, with four kinds of runs under way: fifty pictures of the
built-in partner, runs of a partner that honours idempotency keys, runs of one that does not, and tasks of the latter
that it has accepted. Every test then reads the same facts.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from databases import Postgres
from fake_partner import SECRET, CatalogFolder, FakePartner, Request, reply, reply_json
from machine import limit
from servers import Server, serving, wait_until

_PICTURES: Final = 50
_ANSWERED_FIRST: Final = 10
_FEW: Final = 12
_PICTURE: Final = {"prompt": "a harbour at dawn", "width": 256, "height": 256}
"""Large enough that fifty are not made before the first ten were read by a caller who is kept waiting."""
_ENV: Final = {
    "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
    "FAIRLEAD_PROVIDER_ONCE_KEY": SECRET,
    "FAIRLEAD_SILENT_SERVER_SECONDS": "5",
}


@dataclass(frozen=True)
class Aftermath:
    """What is known when the second server has nothing left to do."""

    server: Server
    answered: frozenset[str]
    ledger: Sequence[dict[str, Any]]
    report: dict[str, Any]
    requests: Sequence[Request]

    def runs_of(self, model_id: str) -> set[str]:
        """The admitted runs of a model."""
        return {row["run_id"] for row in self.ledger if row["kind"] == "hold" and row["model_id"] == model_id}

    def settlements_of(self, model_id: str) -> Counter[str]:
        """How the runs of a model were settled: kinds of entries with their numbers."""
        return Counter(row["kind"] for row in self.ledger if row["model_id"] == model_id and row["kind"] != "hold")

    def count_charges(self) -> Counter[str]:
        """How often each run was charged."""
        return Counter(row["run_id"] for row in self.ledger if row["kind"] == "post")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return an empty database of each kind, for a whole crash."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('crash')}/crash.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create()
    yield server.url(name)
    server.drop(name)


@pytest.fixture(scope="module")
def aftermath(
    database: str, shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Aftermath]:
    """Crash a server, start another on its books, and wait until that one has nothing left to do."""
    folder = tmp_path_factory.mktemp("crashed")
    catalog = _catalog(folder, shared_partner)
    first = Server(folder / "data", database, catalog.path, _ENV)
    first.cli("workspaces", "change", "default", "--in-flight-limit", "-1")
    answered = asyncio.run(_crash(first, shared_partner))
    shared_partner.release()
    with serving(folder / "data", database=database, catalog=catalog.path, env=_ENV) as second:
        second.wait_until_drained()
        yield Aftermath(second, answered, second.ledger(), second.audit(), shared_partner.requests())
    shared_partner.reset()


def _catalog(folder: Path, partner: FakePartner) -> CatalogFolder:
    """A partner that honours idempotency keys and one that does not; tasks that are accepted, and done much later."""
    partner.reset()
    catalog = CatalogFolder(folder / "catalog")
    catalog.add_provider(partner.url)
    catalog.add_provider(partner.url, "once", repeats_safely=False, give_up_after=60)
    catalog.add_model("fake/json-1")
    catalog.add_model("once/hasty-1", "picky", provider="once")
    catalog.add_model("once/task-1", "task", provider="once")
    partner.script("/json", partner.hold(reply(200, b"{}")))
    partner.script("/picky", partner.hold(reply_json({"ok": 1, "url": "https://x"})))
    partner.script("/tasks", *(reply_json({"id": f"t{number}"}, 202) for number in range(_FEW)))
    for number in range(_FEW):
        pending = [reply_json({"state": "running"})] * 3
        partner.script(f"/tasks/t{number}", *pending, partner.hold(reply_json({"state": "done"})))
    return catalog


async def _crash(server: Server, partner: FakePartner) -> frozenset[str]:
    """Have every kind of run under way, kill the server, and return the runs that were answered before."""
    answered: list[str] = []
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=server.url, headers={"X-API-Key": server.key}, timeout=limit(50), limits=limits
    ) as client:

        async def run(model_id: str, body: Any) -> None:
            response = await client.post(f"/v2/models/{model_id}", json=body)
            assert response.status_code == 200, response.text
            answered.append(response.headers["x-service-request-id"])
            if len(answered) == _ANSWERED_FIRST:
                server.kill()

        held = [run(model_id, {}) for model_id in ("fake/json-1", "once/hasty-1", "once/task-1") for _ in range(_FEW)]
        tasks = [asyncio.create_task(work) for work in held]
        paths = ("/json", "/picky", *(f"/tasks/t{number}" for number in range(_FEW)))
        await asyncio.to_thread(
            wait_until,
            lambda: (
                [len(partner.requests(path)) for path in paths[:2]] == [_FEW, _FEW]
                and all(partner.requests(path) for path in paths)
            ),
            "the fake partner has every run",
        )
        tasks += [asyncio.create_task(run("local/procedural-image-1", _PICTURE)) for _ in range(_PICTURES)]
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [end for end in ends if end is not None and not isinstance(end, httpx.TransportError)]
    assert len(answered) < _PICTURES, "the server was killed too late"
    return frozenset(answered)


@pytest.mark.req("R-29")
def test_ledger_is_right_after_a_crash(aftermath: Aftermath) -> None:
    """`fairlead audit` is clean, and nothing is held."""
    assert (aftermath.report["clean"], aftermath.report["disagreements"]) == (True, [])
    figures = aftermath.server.workspace()
    assert (figures["held"], figures["in_flight"]) == ("0", 0)


@pytest.mark.req("R-29")
def test_every_picture_is_charged_once_after_a_crash(aftermath: Aftermath) -> None:
    """Every admitted run of the built-in partner, answered or not, is charged exactly once; none is lost."""
    admitted = aftermath.runs_of("local/procedural-image-1")
    assert len(admitted) > _ANSWERED_FIRST
    assert aftermath.answered <= admitted
    assert {aftermath.count_charges()[run_id] for run_id in admitted} == {1}
    assert aftermath.settlements_of("local/procedural-image-1") == {"post": len(admitted)}


@pytest.mark.req("R-29")
def test_repeatable_run_is_repeated_under_its_key(aftermath: Aftermath) -> None:
    """A partner that honours keys is asked again under the same one, and the run is charged once."""
    admitted = aftermath.runs_of("fake/json-1")
    keys = Counter(request.headers["idempotency-key"] for request in aftermath.requests if request.path == "/json")
    assert set(keys) == admitted
    assert set(keys.values()) == {2}
    assert aftermath.settlements_of("fake/json-1") == {"post": _FEW}


@pytest.mark.req("R-29")
def test_unrepeatable_run_is_neither_repeated_nor_charged(aftermath: Aftermath) -> None:
    """A run whose outcome cannot be known is not sent again, not charged, but voided, listed and counted."""
    assert len([request for request in aftermath.requests if request.path == "/picky"]) == _FEW
    assert aftermath.settlements_of("once/hasty-1") == {"void": _FEW}
    assert {row["id"] for row in aftermath.report["lost"]} == aftermath.runs_of("once/hasty-1")
    assert aftermath.report["totals"]["runs_lost"] == _FEW
    assert aftermath.server.metric("fairlead_runs_outcome_unknown_total") == _FEW


@pytest.mark.req("R-29")
def test_accepted_task_is_not_submitted_again(aftermath: Aftermath) -> None:
    """Work a partner has accepted is polled on under its handle, and charged once."""
    submitted = [request for request in aftermath.requests if request.path == "/tasks"]
    assert len(submitted) == _FEW
    assert aftermath.settlements_of("once/task-1") == {"post": _FEW}
    polled = {request.path for request in aftermath.requests if request.method == "GET"}
    assert polled == {f"/tasks/t{number}" for number in range(_FEW)}


def test_every_takeover_is_counted(aftermath: Aftermath) -> None:
    """Each run that was taken over is counted, and none was a surprise to the server."""
    left = sum(len(aftermath.runs_of(model)) for model in ("fake/json-1", "once/hasty-1", "once/task-1"))
    assert aftermath.server.metric("fairlead_events_total", kind="RunTakenOver") >= left
    assert aftermath.server.metric("fairlead_events_total", kind="UnexpectedError") == 0
