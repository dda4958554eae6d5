"""A run whose first provider fails goes on at another, where that cannot be paid or refused twice (R-14, R-28)."""

import json
from typing import Any

import httpx
import pytest

from api.conftest import NewName
from api.legs import EDITS, FAL, INLINE, NATIVE, WAVESPEED, images
from fake_partner import Behaviour, FakePartner, drop, half, hang, reply, reply_json
from servers import Server

pytestmark = pytest.mark.req("R-14")

_SERVED_BY = "x-service-router-fallback-provider"
_BROKEN = reply_json({"detail": "broken"}, 500)


def _run(legs: Server, body: Any = None, model: str = "fake/many-1", **params: str) -> httpx.Response:
    return legs.client.post(f"/v2/models/{model}", params=params, json={"prompt": "a"} if body is None else body)


def _called_paths(partner: FakePartner) -> list[str]:
    return [request.path for request in partner.requests()]


@pytest.mark.req("R-12", "R-28")
@pytest.mark.parametrize("value", [None, "true", "", "no", "False"])
def test_failed_partner_is_replaced_by_the_next_leg(legs: Server, partner: FakePartner, value: str | None) -> None:
    """The next leg serves the run: it is named, what it cannot say is told, and its rate is what is charged.

    Any value of the switch other than `false` leaves it on.
    """
    partner.script(NATIVE, _BROKEN)
    partner.script(FAL, images())
    params = {} if value is None else {"fallback_provider": value}
    response = _run(legs, {"prompt": "a", "user": "me"}, **params)
    assert (response.status_code, response.headers[_SERVED_BY]) == (200, "fal")
    assert response.json() == {"created": 0, "data": [{"url": "https://cdn.example/a.png"}], "seed": 5}
    dropped = json.loads(response.headers["x-service-router-dropped-params"])
    assert dropped == ["user: the provider keeps no users apart"]
    assert _called_paths(partner) == [NATIVE, FAL]
    assert legs.charges(response.headers["x-service-request-id"]) == ["0.02"]
    assert response.headers["x-service-credits-used"] == "4.22"


def test_hold_moves_to_the_price_of_the_next_leg(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """The move to a dearer provider is in the books before that one is called, and the end closes them.

    The workspace's discount is on both.
    """
    partner.script(NATIVE, _BROKEN)
    name = new_name()
    key = legs.new_workspace(name, "--markup", "-10")
    response = httpx.post(f"{legs.url}/v2/models/fake/many-1", headers={"X-API-Key": key}, json={"prompt": "a"})
    assert response.headers[_SERVED_BY] == "fal"
    entries = [
        (row["kind"], row["held_change"], row["balance_change"], row["rate_version"]) for row in legs.ledger(name)
    ]
    assert entries == [
        ("hold", "0.009", "0", "fake-1-10%"),
        ("raise", "0.009", "0", "fal-1-10%"),
        ("post", "-0.018", "-0.018", "fal-1-10%"),
    ]


def test_second_alternate_serves_when_the_first_fails(legs: Server, partner: FakePartner) -> None:
    """When the next leg fails as well, the one after it serves the run at its own rate."""
    partner.script(NATIVE, _BROKEN)
    partner.script(FAL, _BROKEN)
    response = _run(legs)
    assert (response.json(), response.headers[_SERVED_BY]) == ({"leg": "wavespeed"}, "wavespeed")
    assert legs.charges(response.headers["x-service-request-id"]) == ["0.03"]


def test_named_alternate_falls_back_to_the_native_provider(legs: Server, partner: FakePartner) -> None:
    """A named alternate that fails is replaced too, by the model's own provider first, with the native body."""
    partner.script(FAL, _BROKEN)
    response = _run(legs, {"prompt": "a", "user": "me"}, model_provider="fal")
    assert (response.json(), response.headers[_SERVED_BY]) == ({"leg": "native"}, "fake")
    assert json.loads(partner.requests(NATIVE)[-1].body) == {"model": "many-1", "prompt": "a", "user": "me"}
    assert "x-service-router-dropped-params" not in response.headers
    assert legs.charges(response.headers["x-service-request-id"]) == ["0.01"]


def test_fallback_can_be_turned_off(legs: Server, partner: FakePartner) -> None:
    """With `fallback_provider=false` the first failure is the answer, and nothing is charged."""
    partner.script(NATIVE, _BROKEN)
    response = _run(legs, fallback_provider="false")
    assert (response.status_code, response.json()["error_type"]) == (502, "provider_error")
    assert (_called_paths(partner), _SERVED_BY in response.headers) == ([NATIVE], False)
    assert legs.charges(response.headers["x-service-request-id"]) == []


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [
        pytest.param(reply_json({"error": {"message": "no", "param": "a"}}, 422), 422, id="a rejected field"),
        pytest.param(reply_json({"error": {"message": "no"}}, 400), 400, id="a rejected input"),
        pytest.param(reply_json({"error": {"code": "refused"}}, 400), 400, id="a refusal of content"),
        pytest.param(reply_json({"error": {"code": "refused"}}), 400, id="a refusal told with 200"),
        pytest.param(reply(504), 504, id="a partner out of time"),
        pytest.param(reply(200, b"[]"), 502, id="an answer that is not a result"),
        pytest.param(drop(), 502, id="no answer"),
        pytest.param(half(b"{", 100), 502, id="half an answer"),
    ],
)
def test_work_that_may_be_done_twice_is_not_sent_elsewhere(
    legs: Server, partner: FakePartner, behaviour: Behaviour, status: int
) -> None:
    """Nobody else is asked where the caller is at fault, or where the first partner may have taken the work."""
    partner.script(NATIVE, behaviour)
    assert _run(legs).status_code == status
    assert _called_paths(partner) == [NATIVE]


def test_slow_partner_is_not_replaced(legs: Server, partner: FakePartner) -> None:
    """A partner that does not answer may still be working: its time-out is the answer."""
    partner.script("/hasty", hang())
    response = _run(legs, {}, "fake/hasty-1")
    assert (response.status_code, response.json()["error_type"]) == (504, "provider_timeout")
    assert _called_paths(partner) == ["/hasty"]


@pytest.mark.parametrize("status", [500, 503, 429, 401])
def test_partner_that_did_no_work_is_replaced(legs: Server, partner: FakePartner, status: int) -> None:
    """A partner that breaks, is full, or does not take our key did no work, so another does it."""
    partner.script(NATIVE, reply(status))
    assert _run(legs).headers[_SERVED_BY] == "fal"


def test_edit_does_not_fall_back(legs: Server, partner: FakePartner) -> None:
    """On a body that selects the edit operation fallback is inert, although another leg could serve it."""
    partner.script(EDITS, _BROKEN)
    response = _run(legs, {"prompt": "a", "image": INLINE})
    assert (response.status_code, response.json()["error_type"]) == (502, "provider_error")
    assert _called_paths(partner) == [EDITS]


def test_first_failure_is_told_when_every_leg_fails(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """When every leg fails the caller gets the first failure, unchanged, and all that was held is free again."""
    partner.script(NATIVE, reply_json({}, 503, Retry_After="7"))
    partner.script(FAL, _BROKEN)
    partner.script(WAVESPEED, _BROKEN)
    name = new_name()
    key = legs.new_workspace(name)
    response = httpx.post(f"{legs.url}/v2/models/fake/many-1", headers={"X-API-Key": key}, json={"prompt": "a"})
    assert (response.status_code, response.headers["x-service-upstream-status"]) == (502, "503")
    assert _SERVED_BY not in response.headers
    assert _called_paths(partner) == [NATIVE, FAL, WAVESPEED]
    assert [row["kind"] for row in legs.ledger(name)] == ["hold", "raise", "raise", "void"]
    assert legs.workspace(name)["held"] == "0"


@pytest.mark.parametrize(
    "options", [("--providers", "fake,wavespeed"), ("--gate", "provider:fal=off")], ids=["policy", "gate"]
)
def test_fallback_goes_only_where_the_workspace_may(
    legs: Server, partner: FakePartner, new_name: NewName, options: tuple[str, ...]
) -> None:
    """A provider that the workspace's policy or a gate rules out is passed over."""
    partner.script(NATIVE, _BROKEN)
    key = legs.new_workspace(new_name(), *options)
    response = httpx.post(f"{legs.url}/v2/models/fake/many-1", headers={"X-API-Key": key}, json={"prompt": "a"})
    assert response.headers[_SERVED_BY] == "wavespeed"
    assert _called_paths(partner) == [NATIVE, WAVESPEED]


def test_provider_without_our_key_is_never_tried(legs: Server, partner: FakePartner) -> None:
    """A provider this server has no key for is never tried."""
    partner.script(NATIVE, _BROKEN)
    assert _run(legs, {}, "fake/pinned-1").status_code == 502
    assert _called_paths(partner) == [NATIVE]


@pytest.mark.req("R-29")
def test_fallback_never_spends_more_than_there_is(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """A dearer provider is not asked when the workspace cannot pay it: the first failure is the answer."""
    partner.script(NATIVE, _BROKEN)
    name = new_name()
    key = legs.new_workspace(name, "--billing", "prepaid", credit="1.5")
    response = httpx.post(f"{legs.url}/v2/models/fake/dearer-1", headers={"X-API-Key": key}, json={})
    assert (response.status_code, response.json()["error_type"]) == (502, "provider_error")
    assert _called_paths(partner) == [NATIVE]
    assert (legs.workspace(name)["balance"], legs.workspace(name)["held"]) == ("1.5", "0")
