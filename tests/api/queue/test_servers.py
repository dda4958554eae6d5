"""The queue beyond one server: restarts, neighbours, places for work, time, brands and proxies (R-32 to R-35)."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx
import pytest

from api.conftest import SETTINGS
from api.legs import NATIVE
from api.queues import QUEUE_SETTINGS, Client, at_work, is_refused
from databases import Postgres
from fake_partner import CatalogFolder, FakePartner, reply, reply_json
from servers import Server, serving, wait_until

_PLAIN: Final = ("--no-local-partner",)
_BRAKE: Final = "brake/task-1"
_DONE: Final = reply(200, b'{"state":"done"}')
_RUNNING: Final = reply_json({"state": "running"})
_TAKEN_OVER: Final = 45
"""Longer than a server must be silent before another takes its runs, in seconds."""
_LARGE: Final = b'{"data": "' + b"0123456789abcdef" * 8 * 1024 + b'"}'

Start: TypeAlias = Callable[..., AbstractContextManager[Client]]


@pytest.fixture
def catalog(queue_catalog: CatalogFolder, partner: FakePartner) -> CatalogFolder:
    """Return the catalog of the queue's tests, whose partner answers."""
    partner.script(NATIVE, reply(200, b'{"made":true}'))
    return queue_catalog


@pytest.fixture
def start(catalog: CatalogFolder, tmp_path: Path) -> Start:
    """Return a function that starts a server with settings of its own, perhaps beside another or to be killed."""

    @contextmanager
    def start_server(
        database: str | None = None, *, first: Client | None = None, is_doomed: bool = False, **settings: str
    ) -> Iterator[Client]:
        env = {**SETTINGS, **QUEUE_SETTINGS, **settings}
        data = tmp_path / "data"
        if first is not None:  # each server has a folder, and all of them the files and the key of the first
            data = first.server.data.with_name(first.server.data.name + "-beside")
            data.mkdir(mode=0o700)
            (data / "blobs").symlink_to(first.server.data / "blobs")
            shutil.copy(first.server.data / "first-key", data)
        if is_doomed:
            doomed = Server(data, database, catalog.path, env, _PLAIN)
            yield Client(doomed, "default", doomed.key)
            doomed.kill()
            return
        with serving(data, database=database, catalog=catalog.path, env=env, arguments=_PLAIN) as server:
            yield Client(server, "default", server.key)

    return start_server


@pytest.fixture
def shared(postgres: Postgres) -> Iterator[str]:
    """Return an empty PostgreSQL database for several servers."""
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)


@pytest.mark.req("R-34")
def test_result_survives_a_restart(start: Start, shared: str, partner: FakePartner) -> None:
    """What ended before a restart is collected after it: small and large results, failures, cancellations."""
    partner.script("/hasty", reply(200, _LARGE))
    ids: dict[str, str] = {}
    with start(shared) as client:
        ids["fake/json-1"], ids["fake/hasty-1"] = client.queue(), client.queue("fake/hasty-1")
        for model, one in ids.items():
            client.wait_for_completion(one, model)
        partner.script(NATIVE, reply(500))
        ids["fake/open-1"] = client.queue("fake/open-1")
        client.wait_for_completion(ids["fake/open-1"], "fake/open-1")
        before = {model: client.collect(one, model) for model, one in ids.items()}
    assert [answer.status_code for answer in before.values()] == [200, 200, 502]
    assert before["fake/hasty-1"].content == _LARGE
    with start(shared) as client:
        for model, one in ids.items():
            after = client.collect(one, model)
            assert (after.status_code, after.content) == (before[model].status_code, before[model].content)
            assert after.headers["content-type"] == before[model].headers["content-type"]


@pytest.mark.req("R-32", "R-29")
def test_waiting_runs_survive_a_restart(start: Start, shared: str, partner: FakePartner) -> None:
    """What waited for a slot or a worker when a server stopped is run by the next, in order, each once."""
    with start(shared, is_doomed=True, FAIRLEAD_QUEUE_PLACES="0") as client:
        client.change("--in-flight-limit", "2")
        ids = [client.queue(body={"number": number}, headers={"Idempotency-Key": str(number)}) for number in range(5)]
        assert [client.stands(one)["queue_position"] for one in ids] == [0, 1, 2, 3, 4]
        assert partner.requests() == []
        assert client.figure("held") == "0.05"
    with start(shared) as client:
        for one in ids:
            assert client.wait_for_completion(one) == {"status": "COMPLETED"}
        assert client.submit(body={"number": 3}, headers={"Idempotency-Key": "3"}).json()["request_id"] == ids[3]
        assert sorted(request.body for request in partner.requests()) == [b'{"number":%d}' % n for n in range(5)]
        assert [client.charges(one) for one in ids] == [["0.01"]] * 5


@pytest.mark.req("R-29", "R-34")
def test_accepted_work_survives_a_crash(start: Start, shared: str, partner: FakePartner) -> None:
    """Work that a partner has accepted for a queued run is asked after by the next server, and is collectable."""
    at_work(partner, _RUNNING)
    with start(shared, is_doomed=True, FAIRLEAD_SILENT_SERVER_SECONDS="5") as client:
        request_id = client.queue(_BRAKE)
        wait_until(lambda: partner.requests("/brake/t1"), "the partner has the work")
    partner.script("/brake/t1", _DONE)
    with start(shared, FAIRLEAD_SILENT_SERVER_SECONDS="5") as client:
        assert client.wait_for_completion(request_id, _BRAKE, _TAKEN_OVER) == {"status": "COMPLETED"}
        assert client.collect(request_id, _BRAKE).content == b'{"state":"done"}'
        assert client.charges(request_id) == ["0.01"]
    assert len(partner.requests("/brake")) == 1


@pytest.mark.req("R-35")
def test_cancel_request_survives_a_crash(start: Start, shared: str, partner: FakePartner) -> None:
    """A request that the partner did not hear before a crash is passed on by the server that goes on with the work."""
    at_work(partner, _RUNNING, stop=reply(503))
    with start(shared, is_doomed=True, FAIRLEAD_SILENT_SERVER_SECONDS="5") as client:
        request_id = client.queue(_BRAKE)
        wait_until(lambda: partner.requests("/brake/t1"), "the partner has the work")
        assert client.cancel(request_id, _BRAKE).status_code == 202
    asked = len(partner.requests("/brake/t1/stop"))
    partner.script("/brake/t1/stop", reply(204, b""))
    with start(shared, FAIRLEAD_SILENT_SERVER_SECONDS="5") as client:
        wait_until(lambda: len(partner.requests("/brake/t1/stop")) > asked, "the request is passed on", _TAKEN_OVER)
        partner.script("/brake/t1", reply_json({"state": "stopped"}))
        assert client.wait_for_completion(request_id, _BRAKE)["error_type"] == "cancelled"
        assert client.kinds(request_id) == ["hold", "void"]


@pytest.mark.req("R-32")
def test_server_works_on_no_more_than_its_places(start: Start, partner: FakePartner) -> None:
    """A server works on so many queued runs at a time; the others keep their slots and wait for a worker."""
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    with start(FAIRLEAD_QUEUE_PLACES="2") as client:
        client.change("--in-flight-limit", "-1")
        ids = [client.queue() for _ in range(5)]
        wait_until(lambda: len(partner.requests()) == 2, "two are under way")
        time.sleep(1.2)  # longer than between two looks for what may be claimed
        assert len(partner.requests()) == 2
        assert [client.stands(one).get("queue_position") for one in ids] == [None, None, 0, 1, 2]
        assert client.figure("in_flight") == 5
        partner.release()
        for one in ids:
            assert client.wait_for_completion(one) == {"status": "COMPLETED"}


@pytest.mark.req("R-32")
def test_released_run_without_a_worker_is_cancelled_at_once(start: Start) -> None:
    """A run that has a slot and no worker is cancelled like one that has none: at once, and never dispatched."""
    with start(FAIRLEAD_QUEUE_PLACES="0") as client:
        client.change("--in-flight-limit", "1")
        first, second = client.queue(), client.queue()
        assert client.cancel(first).status_code == 202
        assert client.stands(first) == {"status": "COMPLETED", "error_type": "cancelled"}
        assert client.stands(second) == {"status": "IN_QUEUE", "queue_position": 0}
        assert client.figure("in_flight") == 1  # the slot went to the next
        assert client.cancel(second).status_code == 202
        assert (client.figure("in_flight"), client.figure("held")) == (0, "0")
        assert client.kinds(first) == client.kinds(second) == ["hold", "void"]


@pytest.mark.req("R-32", "R-34")
def test_neighbour_takes_released_runs(start: Start, shared: str, partner: FakePartner) -> None:
    """A server that shares the database takes what the one that was asked does not, and either tells of it."""
    with start(shared, FAIRLEAD_QUEUE_PLACES="0") as one, start(shared, first=one) as two:
        here, there = one, two
        ids = [here.queue() for _ in range(6)]
        for request_id in ids:
            assert here.wait_for_completion(request_id) == {"status": "COMPLETED"}
            assert there.stands(request_id) == {"status": "COMPLETED"}
            assert here.collect(request_id).content == there.collect(request_id).content == b'{"made":true}'
        assert len(partner.requests()) == 6
        claims = [one.server.metric("fairlead_queue_seconds_count") for one in (here, there)]
        assert claims == [0, 6]


@pytest.mark.req("R-32", "R-29")
def test_each_run_is_dispatched_once_by_several_servers(start: Start, shared: str, partner: FakePartner) -> None:
    """With several servers at it each queued run is dispatched exactly once, and charged once."""
    with ExitStack() as stack:
        first = stack.enter_context(start(shared))
        first.change("--in-flight-limit", "3")
        second = stack.enter_context(start(shared, first=first))
        clients = [first, second, stack.enter_context(start(shared, first=second))]
        with ThreadPoolExecutor(9) as pool:
            ids = list(pool.map(lambda number: clients[number % 3].queue(), range(9)))
        for number, request_id in enumerate(ids):
            assert clients[(number + 1) % 3].wait_for_completion(request_id) == {"status": "COMPLETED"}
        assert [first.charges(request_id) for request_id in ids] == [["0.01"]] * 9
    assert len({request.headers["idempotency-key"] for request in partner.requests()}) == 9
    assert len(partner.requests()) == 9


@pytest.mark.req("R-35")
def test_cancel_at_another_server_is_passed_on(start: Start, shared: str, partner: FakePartner) -> None:
    """Whichever server is asked to cancel, the one that works on the run passes the request on."""
    at_work(partner, _RUNNING)
    with start(shared, FAIRLEAD_QUEUE_PLACES="0") as one, start(shared, first=one):
        request_id = one.queue(_BRAKE)
        wait_until(lambda: partner.requests("/brake/t1"), "the partner has the work")
        assert one.cancel(request_id, _BRAKE).json()["status"] == "CANCELLATION_REQUESTED"
        wait_until(lambda: partner.requests("/brake/t1/stop"), "the request is passed on")
        partner.script("/brake/t1", reply_json({"state": "stopped"}))
        assert one.wait_for_completion(request_id, _BRAKE)["error_type"] == "cancelled"


@pytest.mark.req("R-33")
def test_stream_sees_changes_of_every_server(start: Start, shared: str, partner: FakePartner) -> None:
    """A stream at one server tells what happens at another."""
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    with start(shared, FAIRLEAD_QUEUE_PLACES="0") as one, start(shared, first=one):
        request_id = one.queue()
        one.in_progress(request_id)
        path = f"{one.server.url}/v2/models/fake/json-1/requests/{request_id}/events"
        with httpx.stream("GET", path, headers={"X-API-Key": one.key}, timeout=60) as response:
            lines = response.iter_lines()
            assert next(lines) == "event: status"
            partner.release()
            assert any('"COMPLETED"' in line for line in lines)


def test_open_stream_does_not_delay_a_stopping_server(start: Start, partner: FakePartner) -> None:
    """A server that is told to stop does so though somebody watches a run that waits."""
    patient = {"FAIRLEAD_QUEUE_PLACES": "0", "FAIRLEAD_DRAIN_SECONDS": "3600"}
    with start(is_doomed=True, **patient) as client:
        request_id = client.queue()
        path = f"{client.server.url}/v2/models/fake/json-1/requests/{request_id}/events"
        seen = threading.Event()

        def watch() -> None:
            with httpx.stream("GET", path, headers={"X-API-Key": client.key}, timeout=60) as response:
                for _ in response.iter_lines():
                    seen.set()

        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            assert seen.wait(30)
            assert client.server.stop() == 0
            assert watching.exception(10) is None or isinstance(watching.exception(), httpx.TransportError)
    assert partner.requests() == []


@pytest.mark.req("R-33", "R-34")
def test_expired_result_is_410(start: Start, shared: str, partner: FakePartner) -> None:
    """After its time status and collect answer 410, in the same bucket as what never was; cancelling is too late."""
    with start(shared, FAIRLEAD_RESULTS_HOURS="0.0006") as client:
        partner.script("/hasty", reply(500))
        for model in ("fake/json-1", "fake/hasty-1"):
            request_id = client.queue(model)
            client.wait_for_completion(request_id, model)
            assert client.collect(request_id, model).status_code in (200, 502)
            _wait_for_expiry(client, request_id, model)
            for answer in (client.status(request_id, model), client.collect(request_id, model)):
                is_refused(answer, 410, "request_not_found")
            assert client.cancel(request_id, model).status_code == 409
            events = client.request("GET", f"/v2/models/{model}/requests/{request_id}/events")
            is_refused(events, 410, "request_not_found")


@pytest.mark.req("R-33", "R-34")
def test_run_that_waits_too_long_times_out(start: Start, shared: str, partner: FakePartner) -> None:
    """A run that has waited too long ends as 504 `queue_timeout`: never dispatched, never charged, its hold free."""
    env = {"FAIRLEAD_QUEUE_HOURS": "0.0006", "FAIRLEAD_QUEUE_PLACES": "0"}
    with start(shared, **env) as client:
        client.change("--in-flight-limit", "1")
        released, parked = client.queue(), client.queue()
        for one in (released, parked):
            assert client.wait_for_completion(one, seconds=25) == {"status": "COMPLETED", "error_type": "queue_timeout"}
            collected = client.collect(one)
            is_refused(collected, 504, "queue_timeout")
            assert client.kinds(one) == ["hold", "void"]
            assert client.cancel(one).status_code == 409
        assert (client.figure("held"), client.figure("in_flight")) == ("0", 0)
        wait_until(lambda: len(client.server.logged_events("RunWithdrawn")) == 2, "both are logged")
        assert {one["reason"] for one in client.server.logged_events("RunWithdrawn")} == {"queue_timeout"}
    assert partner.requests() == []


@pytest.mark.req("R-32")
@pytest.mark.parametrize(
    ("trusted", "expected"), [("127.0.0.1", "https://api.example/fairlead"), ("192.0.2.0/24", None), ("", None)]
)
def test_only_a_trusted_proxy_changes_the_addresses(
    start: Start, partner: FakePartner, trusted: str, expected: str | None
) -> None:
    """What a trusted proxy says is what the addresses begin with; of others nothing is believed."""
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    told = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "api.example", "X-Forwarded-Prefix": "/fairlead"}
    with start(FAIRLEAD_TRUSTED_PROXIES=trusted) as client:
        response = client.submit(headers=told)
        base = expected or client.server.url
        request_id = response.json()["request_id"]
        address = f"{base}/v2/models/fake/json-1/requests/{request_id}"
        assert _addresses(response.json()) == (f"{address}/status", address, f"{address}/cancel")
        plain = f"{client.server.url}/v2/models/fake/json-1/requests/{request_id}"
        assert _addresses(client.status(request_id).json()) == (f"{plain}/status", plain, f"{plain}/cancel")
        partner.release()
        client.wait_for_completion(request_id)


@pytest.mark.req("R-32")
def test_operators_address_wins(start: Start) -> None:
    """What the operator says wins over every header."""
    with start(FAIRLEAD_PUBLIC_BASE_URL="https://media.example/v", FAIRLEAD_TRUSTED_PROXIES="127.0.0.1") as client:
        told = client.submit(headers={"X-Forwarded-Host": "evil.example"}).json()
        assert all(one.startswith("https://media.example/v/v2/models/fake/json-1/") for one in _addresses(told))
        client.wait_for_completion(told["request_id"])


def _wait_for_expiry(client: Client, request_id: str, model: str) -> None:
    """Wait until what a run ended in is no longer kept."""
    wait_until(lambda: client.collect(request_id, model).status_code == 410, "its time is over", pause=0.1)


def _addresses(told: dict[str, Any]) -> tuple[str, str, str]:
    return told["status_url"], told["response_url"], told["cancel_url"]


def test_queue_headers_carry_the_brand(start: Start, partner: FakePartner) -> None:
    """The service's own headers carry the brand on every route of the queue; others, and a webhook's, never do."""
    partner.script("/hook", reply(204, b""))
    with start(FAIRLEAD_BRAND="acme", FAIRLEAD_WEBHOOK_PRIVATE_ADDRESSES="true") as client:
        submitted = client.submit(params={"model_provider": "acme"}, headers={"Idempotency-Key": "once"})
        assert _names(submitted) == {"x-acme-request-id", "retry-after"}
        request_id = submitted.json()["request_id"]
        client.wait_for_completion(request_id)
        assert _names(client.status(request_id)) == {"x-acme-request-id", "retry-after"}
        replayed = client.submit(params={"model_provider": "acme"}, headers={"Idempotency-Key": "once"})
        assert _names(replayed) == {"x-acme-request-id", "retry-after", "idempotent-replayed"}
        collected = client.collect(request_id)
        assert _names(collected) == {"x-acme-request-id", "x-acme-credits-used"}
        assert _names(client.cancel(request_id)) == {"x-acme-request-id", "x-acme-error-type"}
        partner.script(NATIVE, reply(500))
        failed = client.queue()
        client.wait_for_completion(failed)
        assert _names(client.collect(failed)) == {"x-acme-request-id", "x-acme-error-type", "x-acme-upstream-status"}
        assert client.submit(params={"model_provider": "service"}).status_code == 400
        client.queue(params={"webhook_url": f"{partner.url}/hook"})
        (told,) = wait_until(lambda: partner.requests("/hook"), "the webhook")
        assert {"webhook-id", "webhook-timestamp", "webhook-signature"} <= told.headers.keys()
        assert [name for name in told.headers if "acme" in name or "service" in name] == []


def _names(response: httpx.Response) -> set[str]:
    usual = {"date", "content-type", "content-length", "x-content-type-options"}
    return {name for name in response.headers if name not in usual}
