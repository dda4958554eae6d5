"""What runs in flight may cost together, and how many of them may be costly (R-23)."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

import httpx
import pytest

from api.conftest import NewName
from api.legs import FAL, NATIVE, images
from fake_partner import FakePartner, reply
from servers import Server, wait_until

pytestmark = pytest.mark.req("R-23")

_NAMES = ("limit", "current", "remaining")
Run: TypeAlias = Callable[..., httpx.Response]
Hold: TypeAlias = Callable[..., Future[httpx.Response]]


def _run(legs: Server, key: str, model: str, **options: Any) -> httpx.Response:
    headers = {"X-API-Key": key, **options.pop("headers", {})}
    return httpx.post(f"{legs.url}/v2/models/fake/{model}", headers=headers, json={}, timeout=60, **options)


@pytest.fixture
def hold(legs: Server, partner: FakePartner) -> Iterator[Hold]:
    """Return a function that starts a run which stays in flight until the partner is released."""
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    with ThreadPoolExecutor(8) as pool:

        def start(key: str, workspace: str, model: str) -> Future[httpx.Response]:
            before = legs.workspace(workspace)["in_flight"]
            started = pool.submit(_run, legs, key, model)
            wait_until(lambda: legs.workspace(workspace)["in_flight"] == before + 1, "one run more in flight")
            return started

        yield start
        partner.release()


def _cents(response: httpx.Response, what: str = "committed-spend") -> tuple[int, ...]:
    return tuple(int(response.headers[f"x-{what}-{name}"]) for name in _NAMES)


def test_committed_spend_is_bounded_by_the_cap(
    legs: Server, partner: FakePartner, new_name: NewName, hold: Hold
) -> None:
    """Holds of runs in flight add up to the cap; the run beyond it is 429 with the three figures, in cents."""
    name = new_name()
    key = legs.new_workspace(name, "--commitment-limit", "2.5")
    held = [hold(key, name, "dearer-1") for _ in range(2)]
    refused = _run(legs, key, "dearer-1")
    assert (refused.status_code, refused.json()["error_type"]) == (429, "concurrency_limit_exceeded")
    assert _cents(refused) == (250, 200, 50)
    assert "x-concurrency-limit" not in refused.headers
    assert "retry-after" not in refused.headers
    partner.release()
    assert sorted(_cents(run.result()) for run in held) == [(250, 100, 150), (250, 200, 50)]
    legs.idle()
    assert _cents(_run(legs, key, "dearer-1")) == (250, 100, 150)


def test_cheaper_run_fits_under_the_rest_of_the_cap(legs: Server, new_name: NewName, hold: Hold) -> None:
    """What is left under the cap may be more than nothing: a cheaper run then fits."""
    name = new_name()
    key = legs.new_workspace(name, "--commitment-limit", "1.01")
    hold(key, name, "dearer-1")
    assert _cents(_run(legs, key, "dearer-1")) == (101, 100, 1)
    fits = hold(key, name, "unauthored-1")
    assert legs.workspace(name)["held"] == "1.01"
    assert not fits.done()
    assert _cents(_run(legs, key, "unauthored-1")) == (101, 101, 0)


def test_uncapped_workspace_is_told_no_cap(legs: Server, new_name: NewName) -> None:
    """Without a cap no run carries its figures."""
    response = _run(legs, legs.new_workspace(new_name()), "unauthored-1")
    assert response.status_code == 200
    assert not [name for name in response.headers if name.startswith("x-committed-spend")]


def test_slot_is_checked_before_the_cap(legs: Server, new_name: NewName, hold: Hold) -> None:
    """The slot is asked for first: where both limits are reached the slot answers, and says nothing of money."""
    name = new_name()
    key = legs.new_workspace(name, "--commitment-limit", "1", "--in-flight-limit", "1")
    hold(key, name, "dearer-1")
    refused = _run(legs, key, "dearer-1")
    assert (refused.status_code, _cents(refused, "concurrency")) == (429, (1, 1, 0))
    assert "x-committed-spend-limit" not in refused.headers


@pytest.mark.req("R-29")
def test_balance_is_checked_before_the_cap(legs: Server, new_name: NewName, hold: Hold) -> None:
    """What the workspace cannot pay is 402, whatever its cap would still allow."""
    name = new_name()
    key = legs.new_workspace(name, "--commitment-limit", "50", "--billing", "prepaid", credit="1")
    hold(key, name, "dearer-1")
    refused = _run(legs, key, "dearer-1")
    assert (refused.status_code, refused.json()["error_type"]) == (402, "insufficient_credits")


@pytest.mark.req("R-14")
def test_fallback_never_passes_the_cap(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """A run does not fall back to a provider whose price the cap has no room for."""
    partner.script(NATIVE, reply(500))
    partner.script(FAL, images())
    name = new_name()
    key = legs.new_workspace(name, "--commitment-limit", "1.99")
    refused = _run(legs, key, "dearer-1")
    assert (refused.status_code, refused.json()["error_type"]) == (502, "provider_error")
    assert not partner.requests(FAL)
    legs.cli("workspaces", "change", name, "--commitment-limit", "2")
    assert _run(legs, key, "dearer-1").headers["x-service-router-fallback-provider"] == "fal"


@pytest.mark.parametrize(("slots", "costly"), [("8", 2), ("2", 1)])
def test_costly_runs_share_a_quarter_of_the_slots(
    legs: Server, new_name: NewName, hold: Hold, slots: str, costly: int
) -> None:
    """Runs of 5 dollars or more share a quarter of the slots, at least one; cheaper ones use the rest."""
    name = new_name()
    key = legs.new_workspace(name, "--in-flight-limit", slots)
    for _ in range(costly):
        hold(key, name, "costly-1")
    refused = _run(legs, key, "costly-1")
    assert (refused.status_code, refused.json()["error_type"]) == (429, "concurrency_limit_exceeded")
    assert _cents(refused, "concurrency") == (costly, costly, 0)
    hold(key, name, "cheap-1")
    assert legs.workspace(name)["in_flight"] == costly + 1


def test_workspace_without_limits_is_unlimited_and_zero_blocks(legs: Server, new_name: NewName, hold: Hold) -> None:
    """-1 is no limit on costly runs either; 0 blocks every run."""
    name = new_name()
    key = legs.new_workspace(name, "--in-flight-limit", "-1")
    for _ in range(3):
        hold(key, name, "costly-1")
    blocked = legs.new_workspace(new_name(), "--in-flight-limit", "0")
    answer = _run(legs, blocked, "unauthored-1")
    assert (answer.status_code, answer.json()["error_type"]) == (403, "forbidden")


@pytest.mark.req("R-18")
def test_replay_carries_no_committed_figures(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """A replay commits to nothing and says nothing of it."""
    key = legs.new_workspace(new_name(), "--commitment-limit", "1")
    answers = [_run(legs, key, "unauthored-1", headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert ["x-committed-spend-limit" in answer.headers for answer in answers] == [True, False]
    assert len(partner.requests()) == 1
