"""How a queued run stands: three words, a place while it waits, and when to ask again (R-33)."""

import json
from collections.abc import Mapping
from typing import Any, Final

import httpx
import pytest

from api.legs import NATIVE
from api.queues import Client, NewClient, is_refused
from fake_partner import FakePartner, hang, reply, reply_json

pytestmark = pytest.mark.req("R-33")

_NOWHERE: Final = "0198f000-0000-7000-8000-000000000001"


def _seconds(response: httpx.Response) -> int:
    """When to ask again: digits and nothing else."""
    text = response.headers["retry-after"]
    assert text.isdecimal()
    return int(text)


def test_position_counts_the_runs_ahead(new_client: NewClient, partner: FakePartner) -> None:
    """Each run that waits is told how many of its workspace are ahead, also when one of them leaves."""
    client, other = new_client("--in-flight-limit", "1"), new_client("--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    for one in (client, other):
        one.in_progress(one.queue())
    submitted = [client.submit().json() for _ in range(5)]
    ids = [told["request_id"] for told in submitted]
    assert [told["queue_position"] for told in submitted] == [0, 1, 2, 3, 4]
    assert other.submit().json()["queue_position"] == 0
    assert [client.stands(one) for one in ids] == [{"status": "IN_QUEUE", "queue_position": n} for n in range(5)]
    client.cancel(ids[1])
    assert [client.stands(one).get("queue_position") for one in ids] == [0, None, 1, 2, 3]
    assert client.submit().json()["queue_position"] == 4


def test_status_has_its_documented_fields(client: Client, partner: FakePartner) -> None:
    """Waiting, under way and completed: the same addresses, a place only while it waits, an error only on failure."""
    client.change("--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    first, second = client.queue(), client.queue()
    client.in_progress(first)
    under_way, waiting = client.status(first), client.status(second)
    for response, request_id in ((under_way, first), (waiting, second)):
        assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
        assert response.headers["x-service-request-id"] not in (first, second)
        assert 1 <= _seconds(response) <= 5
        address = f"{client.server.url}/v2/models/fake/json-1/requests/{request_id}"
        assert {
            "request_id": request_id,
            "status_url": f"{address}/status",
            "response_url": address,
            "cancel_url": f"{address}/cancel",
        }.items() <= response.json().items()
    assert under_way.json().keys() == {
        "request_id", "status", "status_url", "response_url", "cancel_url", "queue_position", "logs",
    }  # fmt: skip
    assert waiting.json().keys() == under_way.json().keys()
    partner.release()
    client.wait_for_completion(first)
    completed = client.status(first)
    assert completed.json() == {**under_way.json(), "status": "COMPLETED"}
    assert _seconds(completed) >= 1
    assert "x-service-error-type" not in completed.headers


@pytest.mark.parametrize(
    ("answer", "bucket"),
    [
        (reply_json({"error": {"code": "refused"}}, 400), "content_policy_violation"),
        (reply_json({"error": {"message": "no", "param": "a", "kind": "odd"}}, 422), "invalid_input"),
        (reply(500), "provider_error"),
        (reply_json({"error": {"code": "late"}}, 500), "provider_timeout"),
        (reply(429), "service_unavailable"),
    ],
)
def test_status_of_a_failure_has_its_bucket(client: Client, partner: FakePartner, answer: Any, bucket: str) -> None:
    """The status of what failed carries the bucket that collecting it gives, and is itself a success."""
    partner.script(NATIVE, answer)
    request_id = client.queue()
    assert client.wait_for_completion(request_id) == {"status": "COMPLETED", "error_type": bucket}
    assert client.status(request_id).status_code == 200
    assert client.collect(request_id).headers["x-service-error-type"] == bucket


def test_wait_grows_with_the_position(new_client: NewClient, partner: FakePartner) -> None:
    """With an unknown throughput, the wait that is asked for grows with the position, and is never zero."""
    client = new_client("--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    client.in_progress(client.queue())
    waits = [_seconds(client.submit()) for _ in range(8)]
    assert waits == [1, 2, 3, 4, 5, 5, 5, 5]


def test_fast_queue_asks_for_short_waits(new_client: NewClient) -> None:
    """Where runs are claimed fast, no caller is asked to wait long."""
    client = new_client("--in-flight-limit", "1")
    ids = [client.queue() for _ in range(6)]
    for one in ids:
        assert 1 <= _seconds(client.status(one)) <= 5
    for one in ids:
        client.wait_for_completion(one)


def _without_id_and_time(response: httpx.Response) -> tuple[int, Mapping[str, str], Any]:
    """Everything of an answer but its own id and the time."""
    kept = {name: value for name, value in response.headers.items() if name not in ("x-service-request-id", "date")}
    return response.status_code, kept, response.content


@pytest.mark.req("R-34", "R-35")
@pytest.mark.parametrize(("method", "tail"), [("GET", "/status"), ("GET", ""), ("PUT", "/cancel"), ("GET", "/events")])
def test_stranger_cannot_tell_a_run_from_none(new_client: NewClient, method: str, tail: str) -> None:
    """Another workspace's id, another model's, one there never was and none at all: byte by byte the same 404."""
    client, stranger = new_client(), new_client()
    request_id = client.queue()
    synchronous = client.run().headers["x-service-request-id"]
    client.wait_for_completion(request_id)

    def ask(one: Client, model: str, asked: str) -> httpx.Response:
        return one.request(method, f"/v2/models/{model}/requests/{asked}{tail}")

    answers = [
        ask(client, "fake/json-1", _NOWHERE),
        ask(stranger, "fake/json-1", request_id),
        ask(client, "fake/free-1", request_id),
        ask(client, "fake/none-1", request_id),
        ask(client, "fake/json-1", request_id.upper()),
        ask(client, "fake/json-1", request_id[:-1]),
        ask(client, "fake/json-1", f"{{{request_id}}}"),
        ask(client, "fake/json-1", "x" * 5000),
        ask(client, "fake/json-1", synchronous),
    ]
    is_refused(answers[0], 404, "request_not_found")
    assert json.loads(answers[0].content).keys() == {"detail", "error_type"}
    assert [_without_id_and_time(answer) for answer in answers] == [_without_id_and_time(answers[0])] * len(answers)


@pytest.mark.req("R-38")
@pytest.mark.parametrize(("method", "tail"), [("GET", "/status"), ("GET", ""), ("PUT", "/cancel"), ("GET", "/events")])
def test_run_needs_a_credential(queue: Any, client: Client, method: str, tail: str) -> None:
    """Nobody is shown nothing; a key for other models is 403, and so is a workspace that lost the router."""
    request_id = client.queue()
    path = f"/v2/models/fake/json-1/requests/{request_id}{tail}"
    is_refused(httpx.request(method, queue.url + path, timeout=60), 401, "unauthorized")
    key = queue.cli("keys", "create", client.workspace, "--models", "fake/free-1", "--json")["key"]
    is_refused(httpx.request(method, queue.url + path, headers={"X-API-Key": key}, timeout=60), 403, "forbidden")
    client.wait_for_completion(request_id)
    client.change("--gate", "router=off")
    another = queue.cli("keys", "create", client.workspace, "--json")["key"]
    answer = httpx.request(method, queue.url + path, headers={"X-API-Key": another}, timeout=60)
    is_refused(answer, 403, "not_enabled")


@pytest.mark.parametrize("tail", ["", "/status", "/cancel"])
def test_wrong_method_is_405(client: Client, tail: str) -> None:
    """405 with the methods there are."""
    request_id = client.queue()
    answer = client.request("DELETE", f"/v2/models/fake/json-1/requests/{request_id}{tail}")
    assert answer.status_code == 405
    assert ("PUT" in answer.headers["allow"]) == (tail == "/cancel")


def test_requests_cannot_be_listed(client: Client) -> None:
    """There is no list: the address takes submits only."""
    answer = client.request("GET", "/v2/models/fake/json-1/requests")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.req("R-37")
def test_run_belongs_to_every_key_of_its_workspace(client: Client) -> None:
    """Every key of a workspace may ask for its runs, as a bearer too."""
    request_id = client.queue()
    key = client.server.cli("keys", "create", client.workspace, "--json")["key"]
    path = f"{client.server.url}/v2/models/fake/json-1/requests/{request_id}/status"
    assert httpx.get(path, headers={"Authorization": f"Bearer {key}"}, timeout=60).status_code == 200


def test_run_under_way_is_asked_about_after_a_second(client: Client, partner: FakePartner) -> None:
    """A run that has just begun is worth asking about in a second, and it has no place any more."""
    partner.script(NATIVE, hang())
    request_id = client.queue()
    client.in_progress(request_id)
    assert _seconds(client.status(request_id)) == 1
    assert _seconds(client.collect(request_id)) == 1
    partner.reset()
    client.wait_for_completion(request_id)
