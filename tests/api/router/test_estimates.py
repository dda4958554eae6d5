"""What a call would cost, over HTTP: nothing begun, held or charged (R-30)."""

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import httpx
import pytest

from api.conftest import MakeToken, NewName
from api.legs import INLINE
from fairlead.api.router.wire import estimate_response
from fairlead.domain.ledger.estimates import Estimate, Source
from fairlead.operations.runs.estimate import Quoted
from fairlead_partners.simulator.media import wav
from fake_partner import FakePartner
from servers import Server, wait_until

pytestmark = pytest.mark.req("R-30")

Ask: TypeAlias = Callable[..., httpx.Response]
_ALWAYS = {"source", "currency", "provider", "model", "pricing_as_of"}


def ask(server: Server, model: str, body: Any = None, query: str = "", **options: Any) -> httpx.Response:
    """Ask for an estimate of a run."""
    return server.client.post(f"/v2/models/fake/{model}/estimate{query}", json={} if body is None else body, **options)


def test_exact_estimate_has_its_fields(legs: Server, partner: FakePartner) -> None:
    """A price that the body fixes: dollars as text, cents and credits as numbers, nothing else; and nobody is asked."""
    answer = ask(legs, "many-1", {"prompt": "x", "n": 3})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert "x-service-request-id" in answer.headers
    told = answer.json()
    assert datetime.datetime.fromisoformat(told.pop("pricing_as_of")).tzinfo is not None
    assert told == {
        "source": "exact",
        "currency": "USD",
        "provider": "fake",
        "model": "fake/many-1",
        "amount": "0.03",
        "amount_cents": 3.0,
        "credits": 6.33,
    }
    assert partner.requests() == []


@pytest.mark.req("R-28")
@pytest.mark.parametrize(
    ("query", "marked", "version"),
    [("", "0.01125", "fake-1+12.5%"), ("?model_provider=fal", "0.0225", "fal-1+12.5%")],
)
def test_markup_is_shown_in_the_estimate_and_charged(legs: Server, query: str, marked: str, version: str) -> None:
    """An operator's percentage is in the amount, named beside it, charged, and named in the statement of the run."""
    told = ask(legs, "marked-1", {"prompt": "x"}, query).json()
    assert (told["amount"], told["markup_percent"]) == (marked, 12.5)
    run = legs.client.post(f"/v2/models/fake/marked-1{query}", json={"prompt": "x"})
    run_id = run.headers["x-service-request-id"]
    assert legs.charges(run_id) == [marked]
    assert {row["rate_version"] for row in legs.ledger() if row["run_id"] == run_id} == {version}


@pytest.mark.req("R-28")
@pytest.mark.parametrize(("own", "amount", "label"), [("-10", "0.009", "fake-1-10%"), ("0", "0.01", "fake-1")])
def test_markup_of_a_workspace_takes_the_place_of_the_setting(
    legs: Server, new_name: NewName, own: str, amount: str, label: str
) -> None:
    """It is in estimates, price lists and charges of new runs, until the workspace has none of its own again."""
    name = new_name()
    headers = {"X-API-Key": legs.new_workspace(name, "--markup", own)}
    told = ask(legs, "marked-1", {"prompt": "x"}, headers=headers).json()
    assert (told["amount"], told.get("markup_percent", 0)) == (amount, float(own))
    run = legs.client.post("/v2/models/fake/marked-1", json={"prompt": "x"}, headers=headers)
    assert legs.charges(run.headers["x-service-request-id"], name) == [amount]
    assert {row["rate_version"] for row in legs.ledger(name)} == {label}
    for path in ("/v2/models/fake/marked-1?prices=true", "/v2/models?prices=true&q=marked-1"):
        page = legs.client.get(path, headers=headers).json()
        assert page.get("data", [page])[0]["price"] == [f"{amount} per run"]
    legs.cli("workspaces", "change", name, "--markup", "default")
    wait_until(
        lambda: ask(legs, "marked-1", {"prompt": "x"}, headers=headers).json()["amount"] == "0.01125", "the setting's"
    )
    assert {row["rate_version"] for row in legs.ledger(name)} == {label}


def test_bounded_estimate_has_its_fields(router: Server) -> None:
    """What the partner will report is bounded by what is asked for."""
    told = ask(router, "metered-1", {"units": 4}).json()
    assert told.keys() == _ALWAYS | {"min_amount", "max_amount", "min_amount_cents", "max_amount_cents"}
    assert told["source"] == "estimated"
    assert told["min_amount"] == told["max_amount"]
    assert float(told["max_amount"]) * 100 == pytest.approx(told["max_amount_cents"])


@pytest.mark.req("X-02")
def test_length_of_a_given_file_bounds_the_estimate_and_the_hold(legs: Server, partner: FakePartner) -> None:
    """A second more than the sound has, in place of the longest taken; no link elsewhere is opened."""
    sound = "data:audio/wav;base64," + base64.b64encode(wav(2.0).content).decode()
    told = ask(legs, "filmed-1", {"clip": sound}).json()
    assert (told["source"], told["min_amount"], told["max_amount"]) == ("estimated", "0.01", "0.03")
    assert ask(legs, "filmed-1", {"clip": f"{partner.url}/clip.mp4"}).json()["max_amount"] == "0.6"
    run_id = legs.client.post("/v2/models/fake/filmed-1", json={"clip": sound}).headers["x-service-request-id"]
    assert [row["held_change"] for row in legs.ledger() if row["run_id"] == run_id] == ["0.03", "-0.03"]
    assert legs.charges(run_id) == ["0.03"]
    assert not any("clip.mp4" in request.path for request in partner.requests())


@pytest.mark.parametrize(
    ("source", "typical", "shown"),
    [(Source.ESTIMATED, 250, "0.0000025"), (Source.ESTIMATED, None, None), (Source.UNKNOWN, None, None)],
)
def test_typical_price_is_told_beside_its_bounds(source: Source, typical: int | None, shown: str | None) -> None:
    """As dollars, where the card knows what is usual."""
    told = estimate_response(Quoted(Estimate(source, 100, 1000, typical=typical), "fake", "fake/x", 0, Decimal(0)))
    assert told.typical_amount == shown


def test_unknown_estimate_has_its_fields(router: Server) -> None:
    """A body that does not bound what is paid for is not quoted, and the answer says why."""
    told = ask(router, "metered-1", {}).json()
    assert told.keys() == _ALWAYS | {"reason"}
    assert (told["source"], told["reason"]) == ("unknown", "not_quotable")


def test_run_costs_its_exact_estimate(legs: Server) -> None:
    """The credits of an exact estimate are those the run's header then has, for every leg and operation."""
    for query, body in (
        ("", {"prompt": "x"}),
        ("", {"prompt": "x", "n": 2}),
        ("", {"prompt": "x", "image": INLINE}),
        ("?model_provider=fal", {"prompt": "x"}),
    ):
        told = ask(legs, "many-1", body, query).json()
        run = legs.client.post(f"/v2/models/fake/many-1{query}", json=body)
        assert (run.status_code, told["source"]) == (200, "exact")
        assert float(run.headers["x-service-credits-used"]) == told["credits"]


def test_stale_prices_are_not_quoted(legs: Server) -> None:
    """A card whose day has passed gives no quote; the model runs all the same."""
    answer = ask(legs, "stale-1")
    assert (answer.status_code, answer.json()["error_type"]) == (503, "service_unavailable")
    assert "retry-after" not in answer.headers
    assert legs.client.post("/v2/models/fake/stale-1", json={}).status_code == 200


@pytest.mark.req("R-31")
def test_unquotable_body_needs_no_fresh_rate_card(legs: Server) -> None:
    """Only where a price of the card would be told does its age matter; `pricing_as_of` is the time of the answer."""
    before = datetime.datetime.now(datetime.UTC)
    told = ask(legs, "stale-2").json()
    assert (told["source"], told["reason"]) == ("unknown", "not_quotable")
    assert datetime.datetime.fromisoformat(told["pricing_as_of"]) >= before.replace(microsecond=0)
    assert ask(legs, "stale-2", {"units": 4}).status_code == 503
    priced = ask(legs, "many-1", {"prompt": "x"}).json()
    assert datetime.datetime.fromisoformat(priced["pricing_as_of"]) < before


def test_estimate_moves_no_money(legs: Server, new_name: NewName) -> None:
    """A workspace without a cent may ask, and its book stays empty."""
    name = new_name()
    key = legs.new_workspace(name, "--billing", "prepaid")
    answer = ask(legs, "many-1", {"prompt": "x"}, headers={"X-API-Key": key})
    assert answer.status_code == 200
    workspace = legs.workspace(name)
    assert (workspace["balance"], workspace["held"], workspace["in_flight"]) == ("0", "0", 0)


@pytest.mark.parametrize(
    ("model", "body", "query", "status", "bucket"),
    [
        ("many-1", {"prompt": 5}, "", 422, "invalid_input"),
        ("many-1", {"prompt": "x", "model": "fake/other-1"}, "", 422, "invalid_input"),
        ("many-1", [], "", 400, "invalid_input"),
        ("many-1", {"prompt": "x"}, "?strict_mode=true", 400, "invalid_input"),
        ("many-1", {"prompt": "x"}, "?fallback_provider=false", 400, "invalid_input"),
        ("many-1", {"prompt": "x"}, "?reject_unknown_fields=true", 400, "invalid_input"),
        ("many-1", {"prompt": "x"}, "?model_provider=nobody", 400, "invalid_input"),
        ("many-1", {"prompt": "x"}, "?model_provider=runware", 400, "invalid_input"),
        ("many-1", {"prompt": "x", "image": "data:,"}, "?model_provider=fal", 400, "invalid_input"),
        ("nothing-1", {}, "", 404, "model_not_found"),
    ],
)
def test_malformed_estimate_is_refused(
    legs: Server, model: str, body: Any, query: str, status: int, bucket: str
) -> None:
    """What a default run would refuse is refused, and so are the parameters that only runs have."""
    answer = ask(legs, model, body, query)
    assert (answer.status_code, answer.headers["x-service-error-type"]) == (status, bucket)


def test_undeclared_field_does_not_change_an_estimate(legs: Server) -> None:
    """A field that `reject_unknown_fields` would refuse changes nothing here."""
    assert ask(legs, "undeclared-1", {"strange": 1}).json()["source"] == "exact"


def test_estimate_is_the_platforms_price_despite_a_stored_key(legs: Server, new_name: NewName) -> None:
    """The estimate is the platform's price, whatever key is stored; naming an alternate is no conflict here."""
    key = legs.new_workspace(new_name())
    headers = {"X-API-Key": key}
    stored = httpx.put(f"{legs.url}/v2/provider-keys/fake", headers=headers, json={"key": "my-own"}, timeout=60)
    assert stored.status_code == 201
    assert ask(legs, "many-1", {"prompt": "x"}, headers=headers).json()["amount"] == "0.01"
    named = ask(legs, "many-1", {"prompt": "x"}, "?model_provider=fal", headers=headers).json()
    assert (named["provider"], named["amount"]) == ("fal", "0.02")


def test_estimate_needs_a_credential(legs: Server) -> None:
    """Nobody is told a price."""
    answer = httpx.post(f"{legs.url}/v2/models/fake/many-1/estimate", json={"prompt": "x"}, timeout=60)
    assert answer.status_code == 401


@pytest.mark.parametrize("gate", ["estimate", "router", "provider:fake"])
def test_closed_gate_refuses_an_estimate(legs: Server, new_name: NewName, gate: str) -> None:
    """Where the estimate, the router or the provider is not rolled out to a workspace, it is told so."""
    key = legs.new_workspace(new_name(), "--gate", f"{gate}=off")
    answer = ask(legs, "many-1", {"prompt": "x"}, headers={"X-API-Key": key})
    assert (answer.status_code, answer.json()["error_type"]) == (403, "not_enabled")


def test_provider_outside_the_policy_is_not_quoted(legs: Server, new_name: NewName) -> None:
    """A provider that the policy of a workspace rules out is not quoted."""
    key = legs.new_workspace(new_name(), "--providers", "fake")
    headers = {"X-API-Key": key}
    assert ask(legs, "many-1", {"prompt": "x"}, headers=headers).status_code == 200
    assert ask(legs, "many-1", {"prompt": "x"}, "?model_provider=fal", headers=headers).status_code == 403


@pytest.mark.req("R-40")
def test_v1_has_no_estimates(router: Server, token: MakeToken) -> None:
    """Estimates came with the second generation."""
    answer = httpx.post(
        f"{router.url}/v1/models/fake/json-1/estimate",
        headers={"Authorization": f"Bearer {token()}"},
        json={},
        timeout=60,
    )
    assert answer.status_code == 404
