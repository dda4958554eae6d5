"""Watching a queued run over server-sent events: a live view of polling, never more than its statuses (R-33)."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

import httpx
import pytest

from api.legs import NATIVE
from api.queues import Client, NewClient, is_refused
from fairlead.operations.runs.watch import WATCHERS_MAX
from fake_partner import FakePartner, reply
from servers import wait_until

pytestmark = pytest.mark.req("R-33")

_SILENCE: Final = 15.0


@contextmanager
def _watching(client: Client, request_id: str) -> Iterator[httpx.Response]:
    """Open the stream of a run."""
    with httpx.Client(timeout=60) as connections, _stream(connections, client, request_id) as response:
        yield response


def _stream(connections: httpx.Client, client: Client, request_id: str) -> AbstractContextManager[httpx.Response]:
    path = f"{client.server.url}/v2/models/fake/json-1/requests/{request_id}/events"
    return connections.stream("GET", path, headers={"X-API-Key": client.key})


def _statuses(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """The statuses of a stream, each checked to be an event as the standard has it."""
    name: str | None = None
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            assert name == "status"
            yield json.loads(line.removeprefix("data: "))
            name = None
        else:
            assert line == "" or line.startswith(":")


def _watch(client: Client, request_id: str) -> list[tuple[str, int]]:
    """Watch a run to its end: the statuses and places it was told to have."""
    with _watching(client, request_id) as response:
        return [(told["status"], told["queue_position"]) for told in _statuses(response)]


@pytest.fixture
def full(new_client: NewClient, partner: FakePartner) -> tuple[Client, str]:
    """Return a caller whose one slot is taken, and the run that has it."""
    client = new_client("--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    request_id = client.queue()
    client.in_progress(request_id)
    return client, request_id


def test_every_change_is_streamed_once(full: tuple[Client, str], partner: FakePartner) -> None:
    """Anyone who watches is told each place and each status, once, and the stream ends with the run."""
    client, _ = full
    second, third = client.queue(), client.queue()
    seen: list[tuple[str, int]] = []
    started = threading.Event()

    def watch() -> None:
        with _watching(client, third) as response:
            assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            assert response.headers["cache-control"] == "no-store"
            assert response.headers["x-service-request-id"] != third
            for told in _statuses(response):
                assert told["request_id"] == third
                seen.append((told["status"], told["queue_position"]))
                started.set()

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        assert started.wait(30)
        client.cancel(second)
        wait_until(lambda: ("IN_QUEUE", 0) in seen, "the new place is told")
        partner.release()
        watching.result(20)
    assert seen[:2] == [("IN_QUEUE", 1), ("IN_QUEUE", 0)]
    assert seen[-1] == ("COMPLETED", 0)
    assert len(seen) == len(set(seen))


def test_event_is_the_status_byte_by_byte(client: Client) -> None:
    """What is told is byte by byte what polling tells."""
    request_id = client.queue()
    client.wait_for_completion(request_id)
    with _watching(client, request_id) as response:
        content = response.read()
    status = client.status(request_id).content
    assert content == b"event: status\ndata: " + status + b"\n\n"
    assert b"\n" not in status


def test_stream_tells_the_end(full: tuple[Client, str], partner: FakePartner) -> None:
    """Anyone who watches is told how a run ends that was under way before."""
    client, request_id = full
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(_watch, client, request_id)
        wait_until(lambda: client.server.metric("fairlead_runs_in_flight") == 1, "the run is under way")
        time.sleep(0.3)  # it is being watched, and was looked at
        partner.release()
        assert watching.result(20)[-1] == ("COMPLETED", 0)


def test_failure_is_streamed_with_its_bucket(client: Client, partner: FakePartner) -> None:
    """The last event has the bucket."""
    partner.script(NATIVE, reply(500))
    request_id = client.queue()
    with _watching(client, request_id) as response:
        last = list(_statuses(response))[-1]
    assert (last["status"], last["error_type"]) == ("COMPLETED", "provider_error")


@pytest.mark.req("R-35")
def test_stream_ends_with_a_cancellation(full: tuple[Client, str]) -> None:
    """A stream ends with a cancellation as with any other end."""
    client, _ = full
    request_id = client.queue()
    with _watching(client, request_id) as response:
        told = _statuses(response)
        assert next(told)["status"] == "IN_QUEUE"
        client.cancel(request_id)
        assert [one["error_type"] for one in told] == ["cancelled"]


@pytest.mark.parametrize("shared_queue", ["sqlite"], indirect=True)  # it is the stream that is silent: 16 s of waiting
def test_silent_stream_sends_comments(full: tuple[Client, str]) -> None:
    """Where nothing changes for a while there is a comment, which no reader of events takes for one."""
    client, _ = full
    request_id = client.queue()
    began = time.monotonic()
    with _watching(client, request_id) as response:
        comment = next(line for line in response.iter_lines() if line.startswith(":"))
    assert comment == ": waiting"
    assert time.monotonic() - began > _SILENCE - 1


def test_streams_of_a_workspace_are_bounded(full: tuple[Client, str], new_client: NewClient) -> None:
    """So many streams a workspace; the next is 429 before any event, others go on, and anyone who leaves makes room."""
    client, request_id = full
    with ExitStack() as stack:
        many = stack.enter_context(httpx.Client(timeout=60, limits=httpx.Limits(max_connections=None)))
        watches = [_statuses(stack.enter_context(_stream(many, client, request_id))) for _ in range(WATCHERS_MAX)]
        assert {next(watch)["status"] for watch in watches} == {"IN_PROGRESS"}
        refused = client.request("GET", f"/v2/models/fake/json-1/requests/{request_id}/events")
        is_refused(refused, 429, "concurrency_limit_exceeded")
        assert refused.headers["content-type"] == "application/json"
        assert "event streams" in refused.json()["detail"]
        other = new_client()
        with _stream(many, other, other.queue()) as response:
            assert next(_statuses(response))["status"] in ("IN_QUEUE", "IN_PROGRESS")

    def is_free() -> bool:
        with _watching(client, request_id) as again:
            return again.status_code == 200

    wait_until(is_free, "those who left make room")


def test_run_does_not_depend_on_its_watchers(client: Client, partner: FakePartner) -> None:
    """Nobody who watches keeps a run from ending, and nobody who leaves ends it."""
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    request_id = client.queue()
    with _watching(client, request_id) as response:
        next(_statuses(response))
    partner.release()
    assert client.wait_for_completion(request_id) == {"status": "COMPLETED"}
    assert client.server.logged_events("UnexpectedError") == []
