"""Cancelling a queued run: at once while it waits, by request while it is under way, too late afterwards (R-35)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import httpx
import pytest

from api.legs import NATIVE
from api.queues import Client, NewClient, at_work, is_refused
from fake_partner import Behaviour, FakePartner, drop, reply, reply_json
from servers import wait_until

pytestmark = pytest.mark.req("R-35")

_BRAKE: Final = "brake/task-1"
_RUNNING: Final = reply_json({"state": "running"})
_STOPPED: Final = reply_json({"state": "stopped"})
_DONE: Final = reply(200, b'{"state":"done"}')
_CANCELLED: Final = {"status": "COMPLETED", "error_type": "cancelled"}
_STOPPING: Final = {
    "status": "IN_PROGRESS",
    "detail": "It was asked to stop. It ends when its provider stops or completes it, and what completes is charged.",
}


def _is_requested(response: httpx.Response, request_id: str) -> None:
    assert (response.status_code, response.headers["content-type"]) == (202, "application/json")
    assert response.json() == {"request_id": request_id, "status": "CANCELLATION_REQUESTED"}
    assert "x-service-error-type" not in response.headers
    assert response.headers["x-service-request-id"]


def _is_too_late(response: httpx.Response, request_id: str) -> None:
    assert (response.status_code, response.headers["content-type"]) == (409, "application/json")
    assert response.json() == {"request_id": request_id, "status": "ALREADY_COMPLETED"}
    assert response.headers["x-service-error-type"] == "already_completed"
    assert response.headers["x-service-request-id"]


@pytest.fixture
def full(new_client: NewClient, partner: FakePartner) -> tuple[Client, str]:
    """Return a caller whose one slot is taken, and the run that has it."""
    client = new_client("--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    request_id = client.queue()
    client.in_progress(request_id)
    return client, request_id


@pytest.mark.req("R-29")
def test_cancelled_parked_run_ends_at_once(full: tuple[Client, str], partner: FakePartner) -> None:
    """A run that waits for a slot ends at once: never dispatched, never charged, and what it held is free."""
    client, first = full
    request_id = client.queue()
    assert client.figure("held") == "0.02"
    _is_requested(client.cancel(request_id), request_id)
    assert client.stands(request_id) == _CANCELLED
    assert (client.figure("held"), client.figure("in_flight"), client.figure("balance")) == ("0.01", 1, "0")
    assert client.kinds(request_id) == ["hold", "void"]
    collected = client.collect(request_id)
    is_refused(collected, 409, "cancelled")
    assert collected.json()["detail"] == "The run was cancelled."
    partner.release()
    client.wait_for_completion(first)
    assert len(partner.requests()) == 1


def test_cancel_may_be_posted(full: tuple[Client, str]) -> None:
    """`POST` asks for the same as `PUT`, as released clients of either kind do."""
    client, _ = full
    request_id = client.queue()
    path = f"/v2/models/fake/json-1/requests/{request_id}/cancel"
    _is_requested(client.request("POST", path), request_id)
    _is_too_late(client.request("POST", path), request_id)


def test_second_cancel_is_told_that_the_run_has_ended(full: tuple[Client, str]) -> None:
    """The second time it has ended already; a replay of its submit says the same."""
    client, _ = full
    headers = {"Idempotency-Key": "once"}
    request_id = client.queue(headers=headers)
    _is_requested(client.cancel(request_id), request_id)
    _is_too_late(client.cancel(request_id), request_id)
    replayed = client.submit(headers=headers)
    assert (replayed.status_code, replayed.headers["idempotent-replayed"]) == (201, "true")
    assert (replayed.json()["request_id"], replayed.json()["error_type"]) == (request_id, "cancelled")


def test_runs_behind_a_cancelled_one_move_up(full: tuple[Client, str], partner: FakePartner) -> None:
    """Who was behind a cancelled run moves up, and gets the slot when it is free."""
    client, first = full
    second, third = client.queue(), client.queue()
    client.cancel(second)
    assert client.stands(third) == {"status": "IN_QUEUE", "queue_position": 0}
    partner.script(NATIVE, reply(200, b"{}"))
    partner.release()
    assert client.wait_for_completion(third) == {"status": "COMPLETED"}
    assert client.stands(first) == {"status": "COMPLETED"}
    assert len(partner.requests()) == 2


def test_one_of_many_cancels_ends_the_run(full: tuple[Client, str]) -> None:
    """One of many concurrent cancels ends the run; the others are told that it has ended."""
    client, _ = full
    request_id = client.queue()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.cancel(request_id).status_code, range(8)))
    assert sorted(answers) == [202, *[409] * 7]
    assert client.kinds(request_id) == ["hold", "void"]


@pytest.mark.req("R-29")
def test_cancel_is_passed_on_to_the_partner(client: Client, partner: FakePartner) -> None:
    """The request is passed on; until the partner says that it stopped the run is under way, then it is cancelled."""
    at_work(partner, _RUNNING)
    request_id = client.queue(_BRAKE)
    wait_until(lambda: partner.requests("/brake/t1"), "the partner has the work")
    _is_requested(client.cancel(request_id, _BRAKE), request_id)
    wait_until(lambda: partner.requests("/brake/t1/stop", "POST"), "the request is passed on")
    assert client.stands(request_id, _BRAKE) == _STOPPING
    assert client.collect(request_id, _BRAKE).status_code == 202
    partner.script("/brake/t1", _STOPPED)
    assert client.wait_for_completion(request_id, _BRAKE) == _CANCELLED
    is_refused(client.collect(request_id, _BRAKE), 409, "cancelled")
    assert client.kinds(request_id) == ["hold", "void"]
    assert (client.figure("held"), client.figure("balance")) == ("0", "0")
    assert len(partner.requests("/brake/t1/stop")) == 1
    _is_too_late(client.cancel(request_id, _BRAKE), request_id)


@pytest.mark.req("R-29")
def test_work_finished_despite_a_cancel_is_billed(client: Client, partner: FakePartner) -> None:
    """A partner that agrees to stop and completes is billed, and its result is there to be collected."""
    at_work(partner, _RUNNING)
    request_id = client.queue(_BRAKE)
    wait_until(lambda: partner.requests("/brake/t1"), "the partner has the work")
    _is_requested(client.cancel(request_id, _BRAKE), request_id)
    partner.script("/brake/t1", _DONE)
    assert client.wait_for_completion(request_id, _BRAKE) == {"status": "COMPLETED"}
    assert client.collect(request_id, _BRAKE).content == b'{"state":"done"}'
    assert client.charges(request_id) == ["0.01"]
    _is_too_late(client.cancel(request_id, _BRAKE), request_id)


@pytest.mark.req("R-29")
def test_partner_that_cannot_stop_finishes_its_work(client: Client, partner: FakePartner) -> None:
    """Where nothing can be passed on the request is taken all the same, any number of times, and the run goes on."""
    partner.script("/tasks", reply_json({"id": "t-1"}, 202))
    partner.script("/tasks/t-1", _RUNNING)
    request_id = client.queue("fake/task-1")
    wait_until(lambda: partner.requests("/tasks/t-1"), "the partner has the work")
    for _ in range(2):
        _is_requested(client.cancel(request_id, "fake/task-1"), request_id)
    assert client.stands(request_id, "fake/task-1") == _STOPPING
    partner.script("/tasks/t-1", _DONE)
    assert client.wait_for_completion(request_id, "fake/task-1") == {"status": "COMPLETED"}
    assert client.charges(request_id) == ["0.01"]
    assert {request.path for request in partner.requests()} == {"/tasks", "/tasks/t-1"}


def test_call_that_is_still_being_answered_is_not_stopped(full: tuple[Client, str], partner: FakePartner) -> None:
    """A call that is still being answered cannot be stopped; what it answers is kept and billed."""
    client, request_id = full
    _is_requested(client.cancel(request_id), request_id)
    partner.release()
    assert client.wait_for_completion(request_id) == {"status": "COMPLETED"}
    assert client.collect(request_id).content == b"{}"
    assert client.charges(request_id) == ["0.01"]


def test_early_cancel_is_passed_on_when_the_work_exists(client: Client, partner: FakePartner) -> None:
    """A request while the partner has not yet taken the work is passed on as soon as it has."""
    at_work(partner, _STOPPED)
    partner.script("/brake", partner.hold(reply_json({"id": "t1"}, 202)))
    request_id = client.queue(_BRAKE)
    wait_until(lambda: partner.requests("/brake"), "the partner is asked")
    _is_requested(client.cancel(request_id, _BRAKE), request_id)
    assert partner.requests("/brake/t1/stop") == []
    partner.release()
    assert client.wait_for_completion(request_id, _BRAKE) == _CANCELLED
    assert len(partner.requests("/brake/t1/stop")) == 1


@pytest.mark.parametrize("refusal", [reply(409), reply(500), drop()], ids=["409", "500", "drop"])
def test_cancel_is_passed_on_a_bounded_number_of_times(
    client: Client, partner: FakePartner, refusal: Behaviour
) -> None:
    """A request that was not heard is passed on again, a few times; the run ends as the partner says."""
    at_work(partner, _RUNNING, stop=refusal)
    request_id = client.queue(_BRAKE)
    wait_until(lambda: partner.requests("/brake/t1"), "the partner has the work")
    client.cancel(request_id, _BRAKE)
    wait_until(lambda: len(partner.requests("/brake/t1/stop")) > 1, "it is asked again")
    partner.script("/brake/t1", _DONE)
    assert client.wait_for_completion(request_id, _BRAKE) == {"status": "COMPLETED"}
    assert 1 < len(partner.requests("/brake/t1/stop")) <= 5


def test_cancellation_by_the_partner_is_its_failure(client: Client, partner: FakePartner) -> None:
    """Work that nobody here cancelled and that the partner stopped is the partner's failure, and free."""
    at_work(partner, _STOPPED)
    request_id = client.queue(_BRAKE)
    assert client.wait_for_completion(request_id, _BRAKE) == {"status": "COMPLETED", "error_type": "provider_error"}
    is_refused(client.collect(request_id, _BRAKE), 502, "provider_error")
    assert client.charges(request_id) == []


def test_work_that_fails_after_a_cancel_has_failed(client: Client, partner: FakePartner) -> None:
    """What failed has failed, no matter who wished it to stop before."""
    at_work(partner, _RUNNING)
    request_id = client.queue(_BRAKE)
    wait_until(lambda: partner.requests("/brake/t1"), "the partner has the work")
    client.cancel(request_id, _BRAKE)
    partner.script("/brake/t1", reply_json({"state": "failed"}))
    assert client.wait_for_completion(request_id, _BRAKE) == {"status": "COMPLETED", "error_type": "provider_error"}


@pytest.mark.parametrize("answer", [reply(200, b"{}"), reply(500)], ids=["succeeded", "failed"])
def test_ended_run_is_not_cancelled(client: Client, partner: FakePartner, answer: Behaviour) -> None:
    """What has ended stays as it ended: 409, and the result is collected as before."""
    partner.script(NATIVE, answer)
    request_id = client.queue()
    before = client.wait_for_completion(request_id), client.collect(request_id).content
    for _ in range(2):
        _is_too_late(client.cancel(request_id), request_id)
    assert (client.stands(request_id), client.collect(request_id).content) == before


@pytest.mark.req("R-18")
def test_synchronous_run_cannot_be_cancelled(client: Client, partner: FakePartner) -> None:
    """Only queued runs have an id to cancel: that of a synchronous call is none of theirs."""
    run = client.run().headers["x-service-request-id"]
    is_refused(client.cancel(run), 404, "request_not_found")
    assert len(partner.requests()) == 1


def test_cancelled_run_is_logged(full: tuple[Client, str]) -> None:
    """An operator reads in the log that a run was withdrawn, and why."""
    client, _ = full
    before = len(client.server.logged_events("RunWithdrawn"))
    client.cancel(client.queue())
    wait_until(lambda: len(client.server.logged_events("RunWithdrawn")) > before, "the withdrawal is logged")
    assert client.server.logged_events("RunWithdrawn")[-1]["reason"] == "cancelled"
