"""Which provider serves a run, and why one is refused: `model_provider` and its six refusals over HTTP (R-11)."""

from itertools import combinations
from typing import Any, Final

import httpx
import pytest

from api.conftest import NewName
from api.legs import EDITS, FAL, INLINE, NATIVE, WAVESPEED
from fake_partner import FakePartner
from servers import Server

pytestmark = pytest.mark.req("R-11")

_EDIT: Final = "this request's image selects the edit operation"
_BYOK: Final = "this request resolved a BYOK credential"
_NOT_SERVED: Final = "does not serve this model"
_ANSWERS: Final = {
    "unregistered": (400, "invalid_input", _NOT_SERVED),
    "edit": (409, "invalid_input", _EDIT),
    "byok": (409, "invalid_input", _BYOK),
    "gate": (403, "not_enabled", "is not enabled for this workspace yet"),
    "no leg": (400, "invalid_input", _NOT_SERVED),
    "policy": (403, "forbidden", "does not allow the provider"),
}
"""The six in their order, each with status, bucket and how its words begin or what they say."""


def _ask(legs: Server, key: str, reasons: set[str]) -> httpx.Response:
    """Make a call to which all of some refusals apply, and no other."""
    provider = "nobody" if "unregistered" in reasons else "runware" if "no leg" in reasons else "fal"
    body: dict[str, Any] = {"prompt": "a"}
    if "edit" in reasons:
        body["image"] = INLINE
    return httpx.post(
        f"{legs.url}/v2/models/fake/many-1",
        params={"model_provider": provider},
        headers={"X-API-Key": key},
        json=body,
        timeout=60,
    )


def _workspace(legs: Server, name: str, reasons: set[str]) -> str:
    """Make a workspace that some of the refusals are about."""
    provider = "nobody" if "unregistered" in reasons else "runware" if "no leg" in reasons else "fal"
    options: list[str] = []
    if "gate" in reasons:
        options += ["--gate", f"provider:{provider}=off"]
    if "policy" in reasons:
        options += ["--providers", "fake"]
    key = legs.new_workspace(name, *options)
    if "byok" in reasons:
        stored = httpx.put(
            f"{legs.url}/v2/provider-keys/fake", headers={"X-API-Key": key}, json={"key": "mine-at-fake"}
        )
        assert stored.status_code == 201
    return key


def _is(response: httpx.Response, reason: str) -> None:
    status, error_type, words = _ANSWERS[reason]
    assert (response.status_code, response.headers["x-service-error-type"]) == (status, error_type), reason
    assert response.json()["error_type"] == error_type
    detail = response.json()["detail"]
    assert detail.startswith(words) if status == 409 else words in detail
    assert "retry-after" not in response.headers


@pytest.mark.parametrize("reason", _ANSWERS)
def test_each_refusal_has_its_answer(legs: Server, partner: FakePartner, new_name: NewName, reason: str) -> None:
    """Each of the six refusals has its status, its bucket and its words, and nobody is called."""
    key = _workspace(legs, new_name(), {reason})
    _is(_ask(legs, key, {reason}), reason)
    assert not partner.requests()


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        pytest.param(*pair, id=" before ".join(pair))
        for pair in combinations(_ANSWERS, 2)
        if pair != ("unregistered", "no leg")  # a value is one or the other
    ],
)
def test_earlier_refusal_answers_first(legs: Server, new_name: NewName, earlier: str, later: str) -> None:
    """Of two refusals that apply, the earlier one of the specification's order answers."""
    key = _workspace(legs, new_name(), {earlier, later})
    _is(_ask(legs, key, {earlier, later}), earlier)


def test_edit_proceeds_where_the_leg_carries_it(legs: Server, partner: FakePartner) -> None:
    """Where the named provider's translation carries the picture, an edit proceeds there."""
    response = legs.client.post(
        "/v2/models/fake/many-1", params={"model_provider": "wavespeed"}, json={"prompt": "a", "image": INLINE}
    )
    assert (response.status_code, response.json()) == (200, {"leg": "wavespeed"})
    assert not partner.requests(NATIVE)


def test_stored_key_of_another_provider_does_not_conflict(legs: Server, new_name: NewName) -> None:
    """Only a key for the provider in the path resolves on it: one stored for the alternate is no conflict."""
    key = legs.new_workspace(new_name())
    headers = {"X-API-Key": key}
    httpx.put(f"{legs.url}/v2/provider-keys/fal", headers=headers, json={"key": "mine-at-fal"})
    assert _ask(legs, key, set()).status_code == 200


@pytest.mark.parametrize("alias", [None, "default", "service", "native"])
def test_alias_leads_to_the_models_own_provider(legs: Server, partner: FakePartner, alias: str | None) -> None:
    """Left out, `default` and the two aliases are the model's own provider, on which `strict_mode` has no effect."""
    params = {"strict_mode": "true"} | ({} if alias is None else {"model_provider": alias})
    response = legs.client.post("/v2/models/fake/many-1", params=params, json={"prompt": "a"})
    assert (response.status_code, response.json()) == (200, {"leg": "native"})
    assert [request.path for request in partner.requests()] == [NATIVE]
    assert legs.client.post("/v2/models/fake/many-1", params=params, json={}).status_code == 422


@pytest.mark.parametrize(("provider", "path"), [("fal", FAL), ("wavespeed", WAVESPEED)])
def test_named_provider_serves_the_run(legs: Server, partner: FakePartner, provider: str, path: str) -> None:
    """A named alternate serves the run alone, at its own rate."""
    response = legs.client.post("/v2/models/fake/many-1", params={"model_provider": provider}, json={"prompt": "a"})
    assert response.status_code == 200
    assert [request.path for request in partner.requests()] == [path]
    assert "x-service-router-fallback-provider" not in response.headers
    price = {"fal": "0.02", "wavespeed": "0.03"}[provider]
    assert legs.charges(response.headers["x-service-request-id"]) == [price]
    assert response.headers["x-service-credits-used"] == {"fal": "4.22", "wavespeed": "6.33"}[provider]


@pytest.mark.parametrize("name", ["fake", "FAL", "", "fal ", "local"])
def test_unregistered_provider_is_refused(legs: Server, name: str) -> None:
    """Only the registered alternates can be named, exactly; a model's own provider has its aliases."""
    response = legs.client.post("/v2/models/fake/many-1", params={"model_provider": name}, json={"prompt": "a"})
    _is(response, "unregistered")


def test_native_gate_does_not_stop_an_alternate(legs: Server, new_name: NewName) -> None:
    """What a workspace may not do at the model's own provider, it may at another; and the other way round."""
    key = legs.new_workspace(new_name(), "--gate", "provider:fake=off", "--providers", "fal")
    assert _ask(legs, key, set()).status_code == 200
    native = httpx.post(f"{legs.url}/v2/models/fake/many-1", headers={"X-API-Key": key}, json={"prompt": "a"})
    assert (native.status_code, native.json()["error_type"]) == (403, "not_enabled")


def test_detail_says_which_legs_can_be_called(legs: Server) -> None:
    """The detail lists every leg, the native one first, and says which of them this server can call."""
    shown = legs.client.get("/v2/models/fake/many-1").json()["providers"]
    assert shown == [
        {"provider": "fake", "native": True, "model": "many-1", "available": True},
        {"provider": "fal", "native": False, "model": "fal-ai/many", "available": True},
        {"provider": "wavespeed", "native": False, "model": "wavespeed-ai/many", "available": True},
    ]
    pinned = legs.client.get("/v2/models/fake/pinned-1").json()["providers"]
    assert [(leg["provider"], leg["available"]) for leg in pinned] == [("fake", True), ("higgsfield", False)]


def test_query_is_read_after_the_entitlement(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """A bad parameter is told after the entitlement, and before the gate of the model's own provider."""
    bad = {"strict_mode": "perhaps"}

    def ask(*options: str) -> tuple[int, str]:
        headers = {"X-API-Key": legs.new_workspace(new_name(), *options)}
        response = httpx.post(f"{legs.url}/v2/models/fake/many-1", params=bad, headers=headers, json={"prompt": "a"})
        return response.status_code, response.json()["error_type"]

    assert ask("--models", "none") == (403, "forbidden")
    assert ask("--gate", "provider:fake=off") == (400, "invalid_input")
    assert ask("--providers", "none") == (400, "invalid_input")
    assert not partner.requests(EDITS)
