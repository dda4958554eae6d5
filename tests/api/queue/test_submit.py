"""Asking for a queued run: admitted before anybody is called, told where to look, repeated without harm (R-32)."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from api.legs import FAL, INLINE, NATIVE, WAVESPEED, images
from api.queues import Client, NewClient
from fake_partner import FakePartner, reply, reply_json
from servers import Server, wait_until

pytestmark = pytest.mark.req("R-32")

_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_KEYED: Final = {"Idempotency-Key": "once"}


@pytest.mark.req("R-31")
def test_submit_is_answered_with_its_documented_fields(client: Client, partner: FakePartner) -> None:
    """A run's id, its status and place, three absolute addresses and the estimate; nothing else, and at once."""
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    response = client.submit()
    assert (response.status_code, response.headers["content-type"]) == (201, "application/json")
    assert int(response.headers["retry-after"]) > 0
    assert "idempotent-replayed" not in response.headers
    told = response.json()
    assert _ID.fullmatch(told["request_id"])
    assert response.headers["x-service-request-id"] == told["request_id"]  # the run has the id of the call it came by
    address = f"{client.server.url}/v2/models/fake/json-1/requests/{told['request_id']}"
    as_of = told["estimate"].pop("pricing_as_of")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", as_of)
    assert told == {
        "request_id": told["request_id"],
        "status": "IN_QUEUE",
        "queue_position": 0,
        "logs": None,
        "status_url": f"{address}/status",
        "response_url": address,
        "cancel_url": f"{address}/cancel",
        "estimate": {
            "source": "exact",
            "currency": "USD",
            "provider": "fake",
            "model": "fake/json-1",
            "amount": "0.01",
            "amount_cents": 1.0,
            "credits": 2.11,
        },
    }
    assert client.request("GET", told["status_url"]).json()["request_id"] == told["request_id"]
    partner.release()
    assert client.wait_for_completion(told["request_id"]) == {"status": "COMPLETED"}
    assert client.request("GET", told["response_url"]).content == b"{}"
    assert client.request("PUT", told["cancel_url"]).json()["status"] == "ALREADY_COMPLETED"


@pytest.mark.req("R-31")
@pytest.mark.parametrize(
    ("model", "body", "expected"),
    [
        ("fake/many-1", {"prompt": "a", "n": 3}, {"source": "exact", "amount": "0.03", "credits": 6.33}),
        ("fake/metered-1", {"units": 4}, {"source": "estimated", "min_amount": "0.02", "max_amount": "0.02"}),
        ("fake/metered-1", {}, {"source": "unknown", "reason": "not_quotable"}),
        ("fake/free-1", {}, {"source": "unknown", "reason": "unpriced_model"}),
        ("fake/stale-1", {}, {"source": "unknown", "reason": "pricing_unavailable"}),
        ("fake/stale-2", {}, {"source": "unknown", "reason": "not_quotable"}),
    ],
)
def test_submit_tells_its_estimate(client: Client, model: str, body: Any, expected: dict[str, Any]) -> None:
    """Exact, between two bounds, or unknown with its reason; a submit is never refused for it."""
    told = client.submit(model, body).json()
    estimate = told["estimate"]
    assert expected.items() <= estimate.items()
    assert ("amount" in estimate) == (expected["source"] == "exact")
    assert ("max_amount" in estimate) == (expected["source"] == "estimated")
    assert ("reason" in estimate) == (expected["source"] == "unknown")
    assert client.wait_for_completion(told["request_id"], model) == {"status": "COMPLETED"}


@pytest.mark.req("R-31", "R-29")
def test_run_without_a_quote_is_charged(client: Client) -> None:
    """Prices that are too old to quote by are charged all the same."""
    request_id = client.queue("fake/stale-1")
    client.wait_for_completion(request_id, "fake/stale-1")
    assert client.charges(request_id) == ["0.01"]
    assert client.collect(request_id, "fake/stale-1").headers["x-service-credits-used"] == "2.11"


@pytest.mark.req("R-17", "R-31")
def test_run_with_ones_own_key_is_neither_quoted_nor_billed(new_client: NewClient, partner: FakePartner) -> None:
    """The estimate says that the workspace's own key is used; nothing is held or charged, and no credits are told."""
    client = new_client("--billing", "prepaid")
    client.store_key()
    told = client.submit("fake/many-1", {"prompt": "a"}).json()
    assert told["estimate"].keys() == {"source", "currency", "provider", "model", "pricing_as_of", "reason"}
    assert (told["estimate"]["source"], told["estimate"]["reason"]) == ("unknown", "byok")
    client.wait_for_completion(told["request_id"], "fake/many-1")
    collected = client.collect(told["request_id"], "fake/many-1")
    assert (collected.status_code, "x-service-credits-used" in collected.headers) == (200, False)
    entries = client.server.ledger(client.workspace)
    assert {(row["balance_change"], row["held_change"]) for row in entries} == {("0", "0")}
    assert partner.requests()[0].headers["authorization"] == "Bearer sk-own-key-0f6b2a9c41"


@pytest.mark.req("R-31")
def test_closed_gate_hides_the_estimate(new_client: NewClient) -> None:
    """Where estimates are not enabled for a workspace a submit has none, and is not refused."""
    client = new_client("--gate", "estimate=off")
    told = client.submit().json()
    assert told["status"] == "IN_QUEUE"
    assert "estimate" not in told


@pytest.mark.req("R-31", "R-12")
def test_estimate_is_of_the_leg_that_will_run(client: Client, partner: FakePartner) -> None:
    """The estimate names the provider that will run it, at its price; the body is translated, and the answer back."""
    partner.script(FAL, images("https://cdn.example/b.png"))
    told = client.submit("fake/many-1", {"prompt": "a"}, params={"model_provider": "fal"}).json()
    assert (told["estimate"]["provider"], told["estimate"]["amount"]) == ("fal", "0.02")
    client.wait_for_completion(told["request_id"], "fake/many-1")
    assert [request.path for request in partner.requests()] == [FAL]
    assert client.collect(told["request_id"], "fake/many-1").json()["data"] == [{"url": "https://cdn.example/b.png"}]
    assert client.charges(told["request_id"]) == ["0.02"]


@pytest.mark.req("R-13")
def test_strict_body_is_sent_unchanged(client: Client, partner: FakePartner) -> None:
    """With `strict_mode` the body is not validated and goes out as it is; the answer comes back as it is."""
    partner.script(FAL, reply(200, b'{"raw" : 1}'))
    params = {"model_provider": "fal", "strict_mode": "true", "reject_unknown_fields": "true"}
    request_id = client.queue("fake/many-1", params=params, content=b'{ "anything": [1] }')
    client.wait_for_completion(request_id, "fake/many-1")
    assert [request.body for request in partner.requests(FAL)] == [b'{ "anything": [1] }']
    assert client.collect(request_id, "fake/many-1").content == b'{"raw" : 1}'


@pytest.mark.req("R-11")
@pytest.mark.parametrize("alias", ["default", "service", "native"])
def test_alias_is_native_dispatch(client: Client, partner: FakePartner, alias: str) -> None:
    """The aliases are the model's own provider, on which `strict_mode` has no effect."""
    params = {"model_provider": alias, "strict_mode": "true"}
    assert client.submit("fake/many-1", params=params).status_code == 422
    request_id = client.queue("fake/many-1", {"prompt": "a"}, params=params)
    client.wait_for_completion(request_id, "fake/many-1")
    assert [request.path for request in partner.requests()] == [NATIVE]


@pytest.mark.req("R-16")
def test_edit_runs_where_it_is_carried(client: Client, partner: FakePartner) -> None:
    """Where the named provider's translation carries the picture, an edit is queued there at its own rate."""
    body = {"prompt": "a", "image": INLINE}
    told = client.submit("fake/many-1", body, params={"model_provider": "wavespeed"}).json()
    assert told["estimate"]["amount"] == "0.04"
    client.wait_for_completion(told["request_id"], "fake/many-1")
    assert [request.path for request in partner.requests()] == [WAVESPEED]


@pytest.mark.req("R-14")
def test_queued_run_does_not_fall_back(client: Client, partner: FakePartner) -> None:
    """There is no fallback: who fails is not replaced, though another provider would have served it."""
    partner.script(NATIVE, reply(500))
    partner.script(FAL, images())
    assert client.run("fake/many-1", {"prompt": "a"}).headers["x-service-router-fallback-provider"] == "fal"
    before = len(partner.requests(FAL))
    request_id = client.queue("fake/many-1", {"prompt": "a"})
    assert client.wait_for_completion(request_id, "fake/many-1") == {
        "status": "COMPLETED",
        "error_type": "provider_error",
    }
    assert client.collect(request_id, "fake/many-1").status_code == 502
    assert len(partner.requests(FAL)) == before
    assert client.charges(request_id) == []


@pytest.mark.req("R-18")
def test_repeated_submit_finds_its_run(client: Client, partner: FakePartner) -> None:
    """The same call under the same key finds its run, as it stands now: waiting, under way, and completed."""
    client.change("--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    first = client.queue()
    client.in_progress(first)
    told = client.submit(headers=_KEYED)
    request_id = told.json()["request_id"]
    assert "estimate" in told.json()
    replayed = client.submit(headers=_KEYED)
    assert (replayed.status_code, replayed.headers["idempotent-replayed"]) == (201, "true")
    estimate = told.json().pop("estimate")
    assert estimate
    assert {**replayed.json(), "estimate": estimate} == told.json()
    assert replayed.headers["x-service-request-id"] != told.headers["x-service-request-id"]
    partner.script(NATIVE, reply(200, b"{}"))
    partner.release()
    client.wait_for_completion(request_id)
    again = client.submit(headers=_KEYED)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert (again.json()["request_id"], again.json()["status"]) == (request_id, "COMPLETED")
    assert again.json()["queue_position"] == 0
    assert int(again.headers["retry-after"]) > 0
    assert len(client.server.ledger(client.workspace)) == 4


@pytest.mark.req("R-18")
def test_concurrent_submits_with_a_key_make_one_run(client: Client, partner: FakePartner) -> None:
    """Of many concurrent submits with a key one makes a run, and all are told of it."""
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: client.submit(headers=_KEYED), range(12)))
    assert {answer.status_code for answer in answers} == {201}
    (request_id,) = {answer.json()["request_id"] for answer in answers}
    fresh = [answer for answer in answers if "idempotent-replayed" not in answer.headers]
    assert len(fresh) == 1
    assert ["estimate" in answer.json() for answer in answers].count(True) == 1
    client.wait_for_completion(request_id)
    assert (len(partner.requests()), client.charges(request_id)) == (1, ["0.01"])


@pytest.mark.req("R-18")
def test_replay_of_a_failed_run_tells_its_failure(client: Client, partner: FakePartner) -> None:
    """A replay of a run that failed says what it failed with, and runs nothing."""
    partner.script(NATIVE, reply(500))
    request_id = client.queue(headers=_KEYED)
    client.wait_for_completion(request_id)
    again = client.submit(headers=_KEYED).json()
    assert (again["request_id"], again["status"], again["error_type"]) == (request_id, "COMPLETED", "provider_error")
    assert len(partner.requests()) == 1


@pytest.mark.req("R-18")
@pytest.mark.parametrize("other", [{"body": {"a": 1}}, {"params": {"strict_mode": "false"}}, {"model": "fake/free-1"}])
def test_key_with_another_call_is_a_conflict(client: Client, other: dict[str, Any]) -> None:
    """A key that another body, query or path came under is a conflict, also while its run waits."""
    client.queue(headers=_KEYED)
    answer = client.submit(**other, headers=_KEYED)
    assert (answer.status_code, answer.headers["x-service-error-type"]) == (409, "invalid_input")
    assert "retry-after" not in answer.headers
    assert "idempotent-replayed" not in answer.headers


@pytest.mark.req("R-18")
def test_key_is_not_shared_with_the_synchronous_route(client: Client) -> None:
    """The same body under the same key at the synchronous route is another call, and the other way round."""
    client.queue(headers=_KEYED)
    assert client.run(headers=_KEYED).status_code == 409
    assert client.run(headers={"Idempotency-Key": "other"}).status_code == 200
    assert client.submit(headers={"Idempotency-Key": "other"}).status_code == 409


@pytest.mark.req("R-18")
def test_keys_belong_to_their_workspace(new_client: NewClient) -> None:
    """Each workspace has its own keys."""
    ids = {client.queue(headers=_KEYED) for client in (new_client(), new_client())}
    assert len(ids) == 2


@pytest.mark.req("R-18")
def test_replay_needs_no_money(new_client: NewClient, partner: FakePartner) -> None:
    """A replay costs nothing, so that an empty balance or a workspace that was blocked does not hinder it."""
    client = new_client("--billing", "prepaid", credit="0.01")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    request_id = client.queue(headers=_KEYED)
    assert client.submit().status_code == 402
    assert client.submit(headers=_KEYED).json()["request_id"] == request_id
    client.change("--in-flight-limit", "0")
    assert client.submit(headers=_KEYED).json()["request_id"] == request_id


@pytest.mark.req("R-28", "R-29")
def test_completed_run_is_charged_whether_or_not_it_is_collected(client: Client, partner: FakePartner) -> None:
    """A generation that completed is charged once, whether anybody collects it or not."""
    request_id = client.queue()
    wait_until(lambda: client.charges(request_id) == ["0.01"], "the charge")
    assert client.kinds(request_id) == ["hold", "post"]
    assert len(partner.requests()) == 1
    for _ in range(2):
        assert client.collect(request_id).status_code == 200
    assert client.kinds(request_id) == ["hold", "post"]


def test_queued_runs_count_as_usage(client: Client, partner: FakePartner) -> None:
    """The usage of a workspace counts what was run through its queue: what succeeded, failed and was cancelled."""
    client.wait_for_completion(client.queue())
    partner.script(NATIVE, reply(500))
    client.wait_for_completion(client.queue())
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    client.change("--in-flight-limit", "1")
    first, second = client.queue(), client.queue()
    assert client.cancel(second).status_code == 202
    partner.release()
    client.wait_for_completion(first)
    (row,) = client.request("GET", "/v2/usage", params={"group_by": "model"}).json()["data"]
    assert (row["model"], row["runs"], row["succeeded"], row["failed"], row["amount"]) == (
        "fake/json-1", 4, 2, 2, "0.02",
    )  # fmt: skip


@pytest.mark.req("R-23")
def test_budget_is_held_while_its_run_waits(client: Client, partner: FakePartner) -> None:
    """What a key may spend is held for its runs that wait, and free again when one is cancelled."""
    client.change("--in-flight-limit", "1")
    made = client.server.cli("keys", "create", client.workspace, "--budget", "0.02", "--json")
    limited = Client(client.server, client.workspace, made["key"])
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    _, second = limited.queue(), limited.queue()
    assert limited.submit().status_code == 402
    assert limited.cancel(second).status_code == 202
    assert limited.submit().status_code == 201
    assert client.submit().status_code == 201


@pytest.mark.req("R-40")
def test_v1_has_no_queue(queue: Server) -> None:
    """The queue came with the second generation."""
    answer = queue.client.post("/v1/models/fake/json-1/requests", json={})
    assert answer.status_code == 404


def test_body_is_queued_byte_by_byte(client: Client, partner: FakePartner) -> None:
    """A task's body is kept as it was sent, byte by byte, until its partner gets it."""
    partner.script("/tasks", reply_json({"id": "t-1"}, 202))
    partner.script("/tasks/t-1", reply_json({"state": "running"}), reply(200, b'{"state": "done" , "n":1.0}'))
    body = '{"text": "\u00e9 \\u00e9 🜁", "n": 1.00}'.encode()
    request_id = client.queue("fake/task-1", content=body)
    client.wait_for_completion(request_id, "fake/task-1")
    assert partner.requests("/tasks")[0].body == body
    assert client.collect(request_id, "fake/task-1").content == b'{"state": "done" , "n":1.0}'
