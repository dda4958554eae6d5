"""Runs with a workspace's own provider key: that key and no other, nothing billed, no other provider (R-17)."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import httpx
import pytest

from api.conftest import NewName
from api.legs import EDITS, INLINE, NATIVE, WAVESPEED
from fake_partner import SECRET, FakePartner, reply, reply_json
from servers import Server, wait_until

pytestmark = pytest.mark.req("R-17")

_MINE: Final = "sk-own-key-0f6b2a9c41"
_PREFIX: Final = "this request resolved a BYOK credential"

Owner: TypeAlias = Callable[..., tuple[str, str]]


@pytest.fixture
def owner(legs: Server, new_name: NewName) -> Owner:
    """Return a function that makes a workspace with a key of its own stored: its name and its API key."""

    def make(*options: str, key: str = _MINE, provider: str = "fake") -> tuple[str, str]:
        name = new_name()
        api_key = legs.new_workspace(name, *options)
        answer = httpx.put(f"{legs.url}/v2/provider-keys/{provider}", headers={"X-API-Key": api_key}, json={"key": key})
        assert answer.status_code == 201
        return name, api_key

    return make


def _run(legs: Server, api_key: str, body: Any = None, model: str = "many-1", **options: Any) -> httpx.Response:
    headers = {"X-API-Key": api_key, **options.pop("headers", {})}
    body = {"prompt": "a"} if body is None else body
    return httpx.post(f"{legs.url}/v2/models/fake/{model}", headers=headers, json=body, timeout=60, **options)


def _credentials_shown(partner: FakePartner) -> list[str]:
    """What each request that arrived was shown as a credential."""
    return [request.headers["authorization"] for request in partner.requests()]


@pytest.mark.req("R-29")
def test_run_with_ones_own_key_is_not_billed(legs: Server, partner: FakePartner, owner: Owner) -> None:
    """The partner is shown exactly that key; no credits are told, and the books move nothing."""
    name, api_key = owner()
    response = _run(legs, api_key)
    assert (response.status_code, response.json()) == (200, {"leg": "native"})
    assert _credentials_shown(partner) == [f"Bearer {_MINE}"]
    assert "x-service-credits-used" not in response.headers
    entries = legs.ledger(name)
    assert {row["kind"] for row in entries} == {"hold", "post"}
    assert {(row["balance_change"], row["held_change"]) for row in entries} == {("0", "0")}
    assert legs.workspace(name)["balance"] == "0"


def test_own_key_is_shown_while_a_task_is_polled(legs: Server, partner: FakePartner, owner: Owner) -> None:
    """Submit and polls are made with the caller's key, and so is a form."""
    _, api_key = owner()
    partner.script("/tasks", reply_json({"id": "t-1"}, 202))
    partner.script("/tasks/t-1", reply_json({"state": "running"}), reply_json({"state": "done"}))
    assert _run(legs, api_key, {}, "task-1").status_code == 200
    assert _run(legs, api_key, {"prompt": "a", "image": INLINE}).status_code == 200
    assert [request.path for request in partner.requests()] == ["/tasks", "/tasks/t-1", "/tasks/t-1", EDITS]
    assert set(_credentials_shown(partner)) == {f"Bearer {_MINE}"}


def test_each_workspace_shows_its_own_key(legs: Server, partner: FakePartner, owner: Owner, new_name: NewName) -> None:
    """Each run is made with the key of its own workspace, or with ours where there is none."""
    _, one = owner(key="key-of-one")
    _, two = owner(key="key-of-two")
    neither = legs.new_workspace(new_name())
    for api_key in (one, two, neither):
        assert _run(legs, api_key).status_code == 200
    assert _credentials_shown(partner) == ["Bearer key-of-one", "Bearer key-of-two", f"Bearer {SECRET}"]


def test_deleted_key_is_no_longer_used(legs: Server, partner: FakePartner, owner: Owner) -> None:
    """After it was replaced the new one is shown, after it was deleted ours, and the run is billed again."""
    name, api_key = owner()
    path = f"{legs.url}/v2/provider-keys/fake"
    httpx.put(path, headers={"X-API-Key": api_key}, json={"key": "another"})
    assert "x-service-credits-used" not in _run(legs, api_key).headers
    httpx.delete(path, headers={"X-API-Key": api_key})
    assert _run(legs, api_key).headers["x-service-credits-used"] == "2.11"
    assert _credentials_shown(partner) == ["Bearer another", f"Bearer {SECRET}"]
    assert legs.workspace(name)["balance"] == "-0.01"


@pytest.mark.parametrize("status", [401, 403, 429, 500])
def test_bad_key_is_not_replaced_by_ours(legs: Server, partner: FakePartner, owner: Owner, status: int) -> None:
    """When the partner does not take the key the run fails: ours is not tried, and fallback is inert."""
    _, api_key = owner()
    partner.script(NATIVE, reply(status))
    response = _run(legs, api_key, params={"fallback_provider": "true"})
    assert response.status_code in (502, 503)
    refused = "The provider refused your own key for fake with status"
    assert response.json()["detail"].startswith(refused) == (status in (401, 403))
    assert not [line for line in legs.logged_events("CredentialRefused") if line["label"] == "own"]
    assert "x-service-router-fallback-provider" not in response.headers
    assert _credentials_shown(partner) == [f"Bearer {_MINE}"]


@pytest.mark.req("R-11")
@pytest.mark.parametrize("provider", ["fal", "wavespeed", "higgsfield"])
def test_named_alternate_conflicts_with_a_stored_key(
    legs: Server, partner: FakePartner, owner: Owner, provider: str
) -> None:
    """An explicit `model_provider` is a conflict, whether or not that provider has a leg for the model."""
    _, api_key = owner()
    response = _run(legs, api_key, params={"model_provider": provider})
    assert (response.status_code, response.headers["x-service-error-type"]) == (409, "invalid_input")
    assert response.json()["detail"].startswith(_PREFIX)
    assert "retry-after" not in response.headers
    assert not partner.requests()


def test_alias_does_not_conflict_with_a_stored_key(legs: Server, partner: FakePartner, owner: Owner) -> None:
    """The aliases are native dispatch, on which the key is used."""
    _, api_key = owner()
    assert _run(legs, api_key, params={"model_provider": "default"}).status_code == 200
    assert _credentials_shown(partner) == [f"Bearer {_MINE}"]


def test_key_for_an_alternate_is_not_shown_to_another(legs: Server, partner: FakePartner, owner: Owner) -> None:
    """A key stored for an alternate is not what the native provider is shown."""
    _, api_key = owner(provider="wavespeed")
    response = _run(legs, api_key)
    assert response.headers["x-service-credits-used"] == "2.11"
    assert _run(legs, api_key, params={"model_provider": "wavespeed"}).status_code == 200
    assert partner.requests(NATIVE)[0].headers["authorization"] == f"Bearer {SECRET}"
    assert partner.requests(WAVESPEED)[0].headers["authorization"] == f"Bearer {SECRET}"


def test_empty_workspace_can_use_its_own_key(legs: Server, partner: FakePartner, owner: Owner) -> None:
    """A run that costs nothing needs no balance."""
    _, api_key = owner("--billing", "prepaid")
    assert _run(legs, api_key).status_code == 200
    assert _credentials_shown(partner) == [f"Bearer {_MINE}"]


def test_own_key_does_not_pass_a_gate(legs: Server, partner: FakePartner, owner: Owner) -> None:
    """A key of one's own does not pass the gate of its provider, nor the workspace's policy."""
    gated, api_key = owner()
    legs.cli("workspaces", "change", gated, "--gate", "provider:fake=off")
    ruled, other_key = owner()
    legs.cli("workspaces", "change", ruled, "--providers", "fal")
    # What a workspace may do is remembered for a second; a change of its keys forgets it at once.
    for key, expected in ((api_key, (403, "not_enabled")), (other_key, (403, "forbidden"))):
        httpx.delete(f"{legs.url}/v2/provider-keys/fal", headers={"X-API-Key": key})
        answer = _run(legs, key)
        assert (answer.status_code, answer.json()["error_type"]) == expected
    assert not partner.requests()


@pytest.mark.req("R-18")
def test_replay_of_an_unbilled_run_tells_no_credits(legs: Server, partner: FakePartner, owner: Owner) -> None:
    """A replay of such a run restates no credits either."""
    _, api_key = owner()
    answers = [_run(legs, api_key, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert [answer.headers.get("idempotent-replayed") for answer in answers] == [None, "true"]
    assert not any("x-service-credits-used" in answer.headers for answer in answers)
    assert len(partner.requests()) == 1


def test_own_key_is_never_logged(legs: Server, partner: FakePartner, owner: Owner) -> None:
    """Neither the log nor the metrics ever hold a key, also when the partner repeats it."""
    _, api_key = owner()
    repeated = {"error": {"message": f"bad key {_MINE}"}}
    partner.script(NATIVE, reply_json(repeated, 422), reply_json(repeated, 500), reply(200, _MINE.encode()))
    answers = [_run(legs, api_key) for _ in range(3)]
    answers.append(_run(legs, api_key, params={"model_provider": "fal"}))
    assert [answer.status_code for answer in answers] == [400, 502, 502, 409]
    last = answers[2].headers["x-service-request-id"]
    wait_until(
        lambda: any(last in line.values() for line in legs.logged_events("RunEnded")), "the last run is in the log"
    )
    told = legs.log.read_text("utf-8") + legs.client.get("/metrics").text
    assert _MINE not in told
    assert SECRET not in told
