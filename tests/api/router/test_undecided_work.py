"""Work that a partner took and has not told the end of: the next call with the key asks about it (R-18, R-24)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pytest

from api.queues import Client, NewClient, is_refused
from fake_partner import FakePartner, reply, reply_json
from servers import wait_until

_MODEL: Final = "brisk/task-1"
_PENDING: Final = reply_json({"state": "running"})
_DONE: Final = reply_json({"state": "done"})
_REPLAYED: Final = "idempotent-replayed"


def _ask(client: Client, key: str = "k", **options: Any) -> httpx.Response:
    return client.run(_MODEL, headers={"Idempotency-Key": key}, **options)


def _request_id(response: httpx.Response) -> str:
    return response.headers["x-service-request-id"]


def _take(partner: FakePartner) -> None:
    """Let the partner take the work and go on with it until it is told otherwise."""
    partner.script("/tasks", reply_json({"id": "t"}, 202))
    partner.script("/tasks/t", _PENDING)


@pytest.mark.req("R-18", "R-22", "R-24", "R-29")
@pytest.mark.parametrize("prompt", ["a harbour", "a harbour" * 100_000], ids=["short", "large"])
def test_call_with_the_key_of_timed_out_work_gets_its_result(client: Client, partner: FakePartner, prompt: str) -> None:
    """The work is ordered once, nothing is charged for the time-out, and the call that gets the result is charged."""
    body = {"prompt": prompt}
    _take(partner)
    late, later = _ask(client, body=body), _ask(client, body=body)
    for response in (late, later):
        is_refused(response, 504, "provider_timeout")
        assert (response.headers["retry-after"], response.headers["x-service-upstream-status"]) == ("5", "200")
        assert _REPLAYED not in response.headers
    partner.script("/tasks/t", _DONE)
    collected, again = _ask(client, body=body), _ask(client, body=body)
    assert (collected.status_code, _REPLAYED in collected.headers) == (200, False)
    assert (again.content, again.headers[_REPLAYED]) == (collected.content, "true")
    assert len(partner.requests("/tasks")) == 1
    assert [client.charges(_request_id(one)) for one in (late, later, collected)] == [[], [], ["0.01"]]
    assert [client.kinds(_request_id(one))[-1] for one in (late, later, collected)] == ["void", "void", "post"]


@pytest.mark.req("R-18", "R-22")
def test_timed_out_work_that_failed_is_told_for_good(client: Client, partner: FakePartner) -> None:
    """What the partner says in the end is kept for the key, like the end of any other run."""
    _take(partner)
    assert _ask(client).status_code == 504
    partner.script("/tasks/t", reply_json({"state": "failed"}))
    failed, again = _ask(client), _ask(client)
    is_refused(failed, 502, "provider_error")
    assert (again.status_code, again.content, again.headers[_REPLAYED]) == (502, failed.content, "true")
    assert failed.headers["x-service-upstream-status"] == again.headers["x-service-upstream-status"] == "200"
    assert len(partner.requests("/tasks")) == 1


@pytest.mark.req("R-18", "R-22")
def test_work_of_a_partner_that_cannot_be_asked_stays_collectable(client: Client, partner: FakePartner) -> None:
    """Polls that fail say nothing about the work, whether patience or time ends first."""
    _take(partner)
    partner.script("/tasks/t", reply(503))
    unclear = _ask(client)
    assert unclear.status_code in {502, 504}
    assert unclear.headers["x-service-upstream-status"] == "503"
    partner.script("/tasks/t", _DONE)
    assert _ask(client).status_code == 200
    assert len(partner.requests("/tasks")) == 1


@pytest.mark.req("R-18")
def test_of_two_calls_with_the_key_of_timed_out_work_one_waits(client: Client, partner: FakePartner) -> None:
    """While one call asks about the work, another with the key is told to wait; another call is a conflict."""
    _take(partner)
    assert _ask(client).status_code == 504
    assert _ask(client, body={"prompt": "another"}).status_code == 409
    partner.script("/tasks/t", partner.hold(_DONE))
    before = len(partner.requests("/tasks/t"))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(_ask, client)
        wait_until(lambda: len(partner.requests("/tasks/t")) > before, "the work is asked about")
        is_refused(waiting := _ask(client), 409, "concurrency_limit_exceeded")
        assert int(waiting.headers["retry-after"]) > 0
        partner.release()
        assert first.result().status_code == 200


@pytest.mark.req("R-18", "R-29")
def test_timed_out_work_waits_for_the_money_to_pay_it(new_client: NewClient, partner: FakePartner) -> None:
    """A workspace that cannot pay is refused, and its work is still there once it can."""
    client = new_client("--billing", "prepaid", credit="0.015")
    _take(partner)
    assert _ask(client).status_code == 504
    assert client.run().status_code == 200
    partner.script("/tasks/t", _DONE)
    assert _ask(client).status_code == 402
    client.server.cli("workspaces", "credit", client.workspace, "0.005")
    assert _ask(client).status_code == 200
    assert len(partner.requests("/tasks")) == 1


@pytest.mark.req("R-24", "R-34")
def test_final_failure_asks_for_no_retry(client: Client, partner: FakePartner) -> None:
    """A final failure has nothing to come back for, replayed or collected."""
    partner.script("/json", reply(504))
    first, again = (client.run(headers={"Idempotency-Key": "k"}) for _ in range(2))
    assert [response.status_code for response in (first, again)] == [504, 504]
    assert ("retry-after" in first.headers, "retry-after" in again.headers) == (True, False)
    _take(partner)
    request_id = client.queue(_MODEL)
    client.wait_for_completion(request_id, _MODEL)
    collected = client.collect(request_id, _MODEL)
    is_refused(collected, 504, "provider_timeout")
    assert "retry-after" not in collected.headers
    assert collected.headers["x-service-upstream-status"] == "200"
