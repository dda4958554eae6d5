"""Webhooks over HTTP: asked for at a submit, posted when the run has ended, logged, signed with a secret of ours."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from api.conftest import SETTINGS, NewName, fill
from fake_partner import CatalogFolder, FakePartner, Request, reply
from servers import Server, serving, wait_until

HOOK: Final = "/hook"
_SUBMIT: Final = "/v2/models/fake/json-1/requests"


@pytest.fixture(scope="module")
def shared_open(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that posts to receivers on this machine."""
    folder = tmp_path_factory.mktemp("webhooks")
    catalog = CatalogFolder(folder / "catalog")
    fill(catalog, shared_partner.url)
    env = {**SETTINGS, "FAIRLEAD_WEBHOOK_PRIVATE_ADDRESSES": "true"}
    with serving(folder / "data", catalog=catalog.path, env=env, arguments=("--no-local-partner",)) as server:
        yield server


@pytest.fixture
def opened(shared_open: Server, partner: FakePartner) -> Server:
    """Return that server, with a receiver that takes every message."""
    partner.script(HOOK, reply(204, b""))
    return shared_open


def submit(server: Server, url: str | None, **headers: str) -> httpx.Response:
    """Queue a run that is to tell a URL of its end."""
    params = {} if url is None else {"webhook_url": url}
    return server.client.post(_SUBMIT, json={}, params=params, headers=headers)


def wait_for_message(partner: FakePartner) -> Request:
    """Wait for a message."""
    return wait_until(lambda: partner.requests(HOOK, "POST"), "a webhook")[0]


def signature(request: Request, secret: str) -> str:
    """Sign what arrived as the standard says."""
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def deliveries(server: Server, request_id: str) -> Any:
    """Read the log of a run's webhook."""
    answer = server.client.get(f"{_SUBMIT}/{request_id}/deliveries")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    return answer.json()["data"]


def test_webhook_tells_the_end_of_a_run(opened: Server, partner: FakePartner) -> None:
    """The message leads to the status and the result, and its signature verifies with the secret that is shown."""
    submitted = submit(opened, partner.url + HOOK)
    assert submitted.status_code == 201
    request_id = submitted.json()["request_id"]
    request = wait_for_message(partner)
    secret = opened.client.get("/v2/webhook-secret").json()["secret"]
    assert signature(request, secret) in request.headers["webhook-signature"].split(" ")
    message = json.loads(request.body)
    assert (message["type"], message["data"]["request_id"]) == ("run.completed", request_id)
    assert message["data"]["status_url"] == submitted.json()["status_url"]
    assert message["data"]["response_url"] == submitted.json()["response_url"]
    assert opened.client.get(message["data"]["status_url"]).json()["status"] == message["data"]["status"]
    assert opened.client.get(message["data"]["response_url"]).content == b'{"made":true}'
    (delivery,) = wait_until(lambda: [one for one in deliveries(opened, request_id) if one["delivered_at"]], "the log")
    assert delivery.keys() == {"url", "tries", "delivered_at", "gave_up_at", "next_at"}
    assert (delivery["url"], delivery["gave_up_at"], delivery["next_at"]) == (partner.url + HOOK, None, None)
    (done,) = delivery["tries"]
    assert done.keys() == {"number", "at", "milliseconds", "status", "error"}
    assert (done["number"], done["status"], done["error"]) == (1, 204, None)


def test_webhook_of_a_failure_has_its_bucket(opened: Server, partner: FakePartner) -> None:
    """The bucket in the message is the one that the status has."""
    partner.script("/json", reply(418, b'{"error":{"code":"teapot"}}'))
    request_id = submit(opened, partner.url + HOOK).json()["request_id"]
    message = json.loads(wait_for_message(partner).body)
    status = opened.client.get(f"{_SUBMIT}/{request_id}/status").json()
    assert (message["type"], message["data"]["error_type"]) == ("run.failed", status["error_type"])


@pytest.mark.parametrize(
    "url",
    ["", "receiver.example", "ftp://receiver.example/", "https://user@receiver.example/", "http://169.254.169.254/"],
)
def test_malformed_webhook_address_is_refused(opened: Server, url: str) -> None:
    """It is refused before anything is queued, and before a key is taken."""
    answer = submit(opened, url)
    assert (answer.status_code, answer.json()["error_type"]) == (400, "invalid_input")
    assert answer.json()["detail"].startswith("webhook_url ")


def test_private_webhook_address_is_refused(router: Server, partner: FakePartner) -> None:
    """Unless an operator opens the network to webhooks."""
    answer = submit(router, partner.url + HOOK)
    assert (answer.status_code, answer.json()["error_type"]) == (400, "invalid_input")
    assert partner.requests(HOOK) == []


def test_run_without_a_webhook_has_no_deliveries(opened: Server, new_name: NewName) -> None:
    """It has none; and anyone who may not see the run does not learn whether it had any."""
    request_id = submit(opened, None).json()["request_id"]
    assert deliveries(opened, request_id) == []
    stranger = opened.new_workspace(new_name())
    for path, key in (
        (f"{_SUBMIT}/{request_id}/deliveries", stranger),
        (f"/v2/models/fake/closed-1/requests/{request_id}/deliveries", opened.key),
        (f"{_SUBMIT}/01a1fb60-0000-7000-8000-000000000001/deliveries", opened.key),
        (f"{_SUBMIT}/nothing/deliveries", opened.key),
    ):
        answer = httpx.get(opened.url + path, headers={"X-API-Key": key}, timeout=60)
        assert (answer.status_code, answer.json()["error_type"]) == (404, "request_not_found")


def test_each_workspace_has_its_own_webhook_secret(opened: Server, new_name: NewName) -> None:
    """Each workspace has its own, which stays until it is rotated; it is not to be kept by any cache."""
    mine, other = ({"X-API-Key": opened.new_workspace(new_name())} for _ in range(2))
    url = f"{opened.url}/v2/webhook-secret"
    first = httpx.get(url, headers=mine, timeout=60)
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-store")
    assert first.json().keys() == {"secret", "rotated_at"}
    assert first.json()["rotated_at"] is None
    assert len(base64.b64decode(first.json()["secret"].removeprefix("whsec_"))) == 32
    rotated = httpx.post(f"{url}/rotate", headers=mine, timeout=60)
    assert (rotated.status_code, rotated.headers["cache-control"]) == (200, "no-store")
    assert rotated.json()["secret"] != first.json()["secret"]
    assert rotated.json()["rotated_at"].endswith("Z")
    assert httpx.get(url, headers=mine, timeout=60).json() == rotated.json()
    assert httpx.get(url, headers=other, timeout=60).json()["secret"] not in (
        first.json()["secret"], rotated.json()["secret"],
    )  # fmt: skip


@pytest.mark.parametrize(("method", "path"), [("GET", "/v2/webhook-secret"), ("POST", "/v2/webhook-secret/rotate")])
def test_webhook_secret_needs_an_unlimited_credential(
    opened: Server, new_name: NewName, method: str, path: str
) -> None:
    """Without a credential, with one that is limited to some models, and without the router, nothing is shown."""
    name = new_name()
    limited = opened.new_workspace(name, models="fake/json-1")
    closed = opened.new_workspace(new_name(), "--gate", "router=off")
    for headers, told in (
        ({}, (401, "unauthorized")),
        ({"X-API-Key": limited}, (403, "forbidden")),
        ({"X-API-Key": closed}, (403, "not_enabled")),
    ):
        answer = httpx.request(method, opened.url + path, headers=headers, timeout=60)
        assert (answer.status_code, answer.json()["error_type"]) == told
        assert "whsec_" not in answer.text


def test_neither_secret_nor_address_is_logged(opened: Server, partner: FakePartner) -> None:
    """The log has the tries, and neither the query of an address, the address nor a secret."""
    request_id = submit(opened, f"{partner.url}{HOOK}?token=hidden-in-the-query").json()["request_id"]
    line = wait_until(
        lambda: [line for line in opened.logged_events("WebhookTried") if line["run_id"] == request_id], "the line"
    )[0]
    assert (line["number"], line["status"], line["delivered"]) == (1, 204, True)
    said = opened.log.read_text("utf-8")
    assert "hidden-in-the-query" not in said
    assert "whsec_" not in said
    assert opened.metric("fairlead_webhook_tries_total", result="delivered") >= 1
