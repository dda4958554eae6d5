"""Places for runs over HTTP: who gets none is told when to try again, and nothing of the run is left (R-39)."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import httpx
import pytest

from api.conftest import SETTINGS, NewName, catalog_of
from databases import Postgres
from end_to_end.crash_sites import lock_writes
from fake_partner import FakePartner, reply
from servers import Server, serving, wait_until

_PLACES: Final = 4
_OF_A_WORKSPACE: Final = 3
_WAITING: Final = "fairlead_runs_waiting"
_PLAIN: Final = ("--no-local-partner",)


def _run(server: Server, key: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(f"{server.url}/v2/models/fake/json-1", headers={"X-API-Key": key, **named}, json={}, timeout=60)


def _waiting(server: Server, count: int) -> None:
    wait_until(lambda: server.metric(_WAITING) == count, f"{count} runs wait for a place")


def _settings(wait_seconds: float, **more: str) -> dict[str, str]:
    return {**SETTINGS, "FAIRLEAD_RUN_WAIT_SECONDS": f"{wait_seconds:g}", **more}


class _Callers:
    """Callers whose runs the partner holds, or that wait for a place."""

    def __init__(self, server: Server) -> None:
        self.answers: list[httpx.Response] = []
        self._server = server
        self._threads: list[threading.Thread] = []

    def call(self, key: str, count: int = 1, **headers: str) -> None:
        """Have runs begin, of which nobody waits for the end."""

        def run() -> None:
            self.answers.append(_run(self._server, key, **headers))

        self._threads += [threading.Thread(target=run) for _ in range(count)]
        for thread in self._threads[-count:]:
            thread.start()

    def join(self) -> list[int]:
        """Wait for the answers to all of them; their statuses."""
        for thread in self._threads:
            thread.join(60)
        return sorted(answer.status_code for answer in self.answers)


@pytest.fixture
def held(partner: FakePartner) -> Iterator[FakePartner]:
    """Return the partner, which holds every run until it is told otherwise."""
    partner.script("/json", partner.hold(reply(200, b'{"made":true}')))
    yield partner
    partner.release()


@pytest.mark.req("R-18", "R-29", "R-39")
def test_run_without_a_place_is_refused_and_leaves_nothing(
    tmp_path: Path, held: FakePartner, new_name: NewName
) -> None:
    """503 with `Retry-After` in the router's format; no hold, no slot; its key may be used again, and pays once.

    One workspace cannot take all places: another one's run goes on meanwhile.
    """
    catalog = catalog_of(tmp_path, held.url)
    catalog.add_model("fake/json-1")
    env = _settings(0.3, FAIRLEAD_RUN_PLACES=str(_PLACES))
    with serving(tmp_path / "data", catalog=catalog.path, env=env, arguments=_PLAIN) as server:
        flooding, calm = new_name(), new_name()
        key, other = server.new_workspace(flooding), server.new_workspace(calm)
        callers = _Callers(server)
        callers.call(key, _OF_A_WORKSPACE)
        wait_until(lambda: len(held.requests("/json")) == _OF_A_WORKSPACE, "all places of the workspace are taken")
        refused = _run(server, key, idempotency_key="again")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.headers["x-service-error-type"] == refused.json()["error_type"] == "service_unavailable"
        assert refused.headers["x-service-request-id"]
        figures = server.workspace(flooding)
        assert (figures["held"], figures["in_flight"]) == ("0.03", _OF_A_WORKSPACE)
        assert server.metric("fairlead_runs_refused_total") == 1
        assert server.metric("fairlead_under_pressure") == 0
        callers.call(other)
        wait_until(lambda: server.workspace(calm)["in_flight"] == 1, "the other workspace's run")
        held.release()
        assert callers.join() == [200] * 4
        again = _run(server, key, idempotency_key="again")
        replayed = _run(server, key, idempotency_key="again")
        assert (again.status_code, replayed.status_code) == (200, 200)
        assert replayed.headers["idempotent-replayed"] == "true"
        assert len(server.charges(again.headers["x-service-request-id"], flooding)) == 1
        assert server.workspace(flooding)["balance"] == "-0.04"
        assert [
            row for row in server.ledger(flooding) if row["run_id"] == refused.headers["x-service-request-id"]
        ] == []


@pytest.mark.req("R-39")
def test_run_waits_for_the_next_free_place(tmp_path: Path, held: FakePartner) -> None:
    """Its caller notices nothing but the time; one that leaves meanwhile has no run, and pays nothing (R-25)."""
    catalog = catalog_of(tmp_path, held.url)
    catalog.add_model("fake/json-1")
    env = _settings(60, FAIRLEAD_RUN_PLACES="1")
    with serving(tmp_path / "data", catalog=catalog.path, env=env, arguments=_PLAIN) as server:
        callers = _Callers(server)
        callers.call(server.key)
        wait_until(lambda: len(held.requests("/json")) == 1, "the only place is taken")
        server.abandon("/v2/models/fake/json-1", server.key, b"{}", lambda: server.metric(_WAITING) == 1)
        callers.call(server.key)
        _waiting(server, 2)
        assert server.client.get("/v2/models").status_code == server.client.get("/healthz").status_code == 200
        held.release()
        assert callers.join() == [200, 200]
        server.idle()
        assert len(held.requests("/json")) == 2
        assert len([row for row in server.ledger() if row["kind"] == "post"]) == 2
        assert server.metric("fairlead_runs_refused_total") == server.metric(_WAITING) == 0


@pytest.mark.req("R-39", "M-03")
@pytest.mark.parametrize("is_released", [True, False])
def test_stopping_server_ends_its_waits(tmp_path: Path, held: FakePartner, *, is_released: bool) -> None:
    """Runs that wait get the places of those that end; when the time is up they are refused, and nothing is theirs."""
    catalog = catalog_of(tmp_path, held.url)
    catalog.add_model("fake/json-1")
    env = _settings(60, FAIRLEAD_RUN_PLACES="1", FAIRLEAD_DRAIN_SECONDS="60" if is_released else "0.2")
    server = Server(tmp_path / "data", catalog=catalog.path, env=env, arguments=_PLAIN)
    callers = _Callers(server)
    callers.call(server.key)
    wait_until(lambda: len(held.requests("/json")) == 1, "the only place is taken")
    callers.call(server.key, 2)
    _waiting(server, 2)
    server.process.terminate()
    if is_released:
        wait_until(lambda: httpx.get(f"{server.url}/readyz").status_code == 503, "it drains")
        held.release()
    assert callers.join() == ([200] * 3 if is_released else [503] * 3)
    assert server.process.wait(60) == 0
    assert server.logged_events("UnexpectedError") == []
    server.stop()
    held.release()
    with serving(tmp_path / "data", catalog=catalog.path, env=SETTINGS, arguments=_PLAIN) as second:
        second.idle()
        assert len({row["run_id"] for row in second.ledger() if row["kind"] == "hold"}) == (3 if is_released else 1)


@pytest.mark.req("R-39")
def test_server_under_pressure_refuses_runs_at_once_and_answers_all_else(
    tmp_path: Path, partner: FakePartner, postgres: Postgres
) -> None:
    """Both generations, with `Retry-After`, nothing of them recorded; reads and health stay; in the end all is well."""
    catalog = catalog_of(tmp_path, partner.url)
    catalog.add_model("fake/json-1")
    url = postgres.url(postgres.create())
    env = _settings(1, FAIRLEAD_RUN_ADMISSIONS="2")
    with serving(tmp_path / "data", database=url, catalog=catalog.path, env=env, arguments=_PLAIN) as server:

        async def press() -> list[httpx.Response]:
            """Call again and again while nothing can be admitted, until some are refused without a wait."""
            with ThreadPoolExecutor(8) as threads:
                loop, answers = asyncio.get_running_loop(), list[asyncio.Future[httpx.Response]]()
                async with lock_writes(url):
                    while server.metric("fairlead_runs_refused_total") <= len(server.logged_events("FaultAnswered")):
                        calls = [loop.run_in_executor(threads, _run, server, server.key) for _ in range(8)]
                        answers += calls
                        await asyncio.wait(calls[2:], timeout=2)
                    assert server.metric("fairlead_under_pressure") == 1
                    assert server.client.get("/v2/models").status_code == 200
                    assert server.client.get("/healthz").status_code == 200
                return await asyncio.gather(*answers)

        answers: list[httpx.Response] = asyncio.run(press())
        refused = [answer for answer in answers if answer.status_code == 503]
        assert {answer.status_code for answer in answers} == {200, 503}
        assert {(one.headers["retry-after"], one.headers["content-type"]) for one in refused} == {
            ("1", "application/json")
        }
        assert {one.json()["error_type"] for one in refused} == {"service_unavailable"}
        assert len({one.headers["x-service-request-id"] for one in refused}) == len(refused)
        wait_until(lambda: _run(server, server.key).status_code == 200, "runs are taken again")
        wait_until(lambda: server.metric("fairlead_under_pressure") == 0, "the pressure has ended")
        runs = {row["run_id"] for row in server.ledger() if row["kind"] == "hold"}
        assert runs.isdisjoint(one.headers["x-service-request-id"] for one in refused)
        server.prove_settled()
