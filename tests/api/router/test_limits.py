"""What a workspace may spend and have in flight, over HTTP (R-19, R-23, R-29)."""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from api.conftest import NewName
from fake_partner import FakePartner, reply
from servers import Server, wait_until


def _run(router: Server, key: str, model: str = "fake/json-1", **options: Any) -> httpx.Response:
    options = options or {"json": {}}
    return httpx.post(f"{router.url}/v2/models/{model}", headers={"X-API-Key": key}, timeout=60, **options)


@pytest.fixture
def held(router: Server, partner: FakePartner) -> Iterator[Any]:
    """Return a function that keeps some runs of a key in flight until the test ends."""
    partner.script("/json", partner.hold(reply(200, b"{}")))
    threads: list[threading.Thread] = []

    def hold(key: str, workspace: str, count: int) -> None:
        threads.extend(threading.Thread(target=_run, args=(router, key)) for _ in range(count))
        for thread in threads[-count:]:
            thread.start()
        wait_until(lambda: router.workspace(workspace)["in_flight"] == count, f"{count} runs in flight")

    yield hold
    partner.release()
    for thread in threads:
        thread.join(30)


@pytest.mark.req("R-19", "R-29")
def test_prepaid_workspace_spends_what_it_has(router: Server, new_name: NewName) -> None:
    """A balance pays for as many runs as it covers; then 402 names what is needed, and what is left stays."""
    name = new_name()
    key = router.new_workspace(name, "--billing", "prepaid", credit="0.025")
    statuses = [_run(router, key) for _ in range(3)]
    assert [answer.status_code for answer in statuses] == [200, 200, 402]
    assert statuses[2].json() == {
        "detail": "The run may cost 0.01 US dollars; the workspace has 0.005 left.",
        "error_type": "insufficient_credits",
    }
    assert router.workspace(name)["balance"] == "0.005"


@pytest.mark.req("R-19")
def test_empty_workspace_is_402_before_validation(router: Server, new_name: NewName) -> None:
    """Without money the answer is 402 whatever the body is; with some left a bad body is reported."""
    empty = router.new_workspace(new_name(), "--billing", "prepaid")
    bad: dict[str, Any] = {"content": b"no JSON"}
    refusal = _run(router, empty, **bad)
    assert (refusal.status_code, refusal.json()["detail"]) == (402, "The workspace has 0 US dollars left.")
    poor = router.new_workspace(new_name(), "--billing", "prepaid", credit="0.00000001")
    assert _run(router, poor, **bad).status_code == 400
    assert _run(router, poor, "fake/closed-1", json={}).status_code == 422


@pytest.mark.req("R-19")
def test_payment_is_spendable_at_once(router: Server, new_name: NewName) -> None:
    """Money paid in is spendable at once, however fresh the server's memory of an empty workspace is."""
    name = new_name()
    key = router.new_workspace(name, "--billing", "prepaid")
    assert _run(router, key).status_code == 402
    router.cli("workspaces", "credit", name, "1")
    assert _run(router, key).status_code == 200


def test_postpaid_workspace_owes_at_most_its_cap(router: Server, new_name: NewName) -> None:
    """A postpaid workspace may owe up to its cap and not a hundredth of a cent more."""
    name = new_name()
    key = router.new_workspace(name, "--cap", "0.02")
    assert [_run(router, key).status_code for _ in range(3)] == [200, 200, 402]
    assert router.workspace(name)["balance"] == "-0.02"


@pytest.mark.req("R-29")
def test_runs_in_flight_hold_their_money(router: Server, new_name: NewName, held: Any) -> None:
    """What is held for runs under way is not there for another."""
    name = new_name()
    key = router.new_workspace(name, "--billing", "prepaid", credit="0.02")
    held(key, name, 2)
    assert router.workspace(name)["held"] == "0.02"
    refusal = _run(router, key)
    assert (refusal.status_code, refusal.json()["error_type"]) == (402, "insufficient_credits")


def test_run_beyond_the_limit_is_429(router: Server, new_name: NewName, held: Any) -> None:
    """At the in-flight limit it is 429 with the three figures and no `Retry-After`; other workspaces go on."""
    name = new_name()
    key = router.new_workspace(name, "--in-flight-limit", "2")
    held(key, name, 2)
    refusal = _run(router, key)
    assert (refusal.status_code, refusal.json()["error_type"]) == (429, "concurrency_limit_exceeded")
    figures = ("x-concurrency-limit", "x-concurrency-current", "x-concurrency-remaining")
    assert [refusal.headers[figure] for figure in figures] == ["2", "2", "0"]
    assert "retry-after" not in refusal.headers
    stranger = router.new_workspace(new_name())
    assert _run(router, stranger, "local/procedural-text-1", json={"prompt": "a"}).status_code == 200


def test_ended_run_gives_its_slot_back(router: Server, partner: FakePartner, new_name: NewName, held: Any) -> None:
    """The limit clears when one of the caller's own runs ends."""
    name = new_name()
    key = router.new_workspace(name, "--in-flight-limit", "1")
    held(key, name, 1)
    assert _run(router, key).status_code == 429
    partner.release()
    wait_until(lambda: router.workspace(name)["in_flight"] == 0, "the slot is free")
    assert _run(router, key).status_code == 200


def test_blocked_workspace_is_403(router: Server, new_name: NewName) -> None:
    """A limit of 0 blocks with 403 `forbidden`; -1 means no limit."""
    blocked = router.new_workspace(new_name(), "--in-flight-limit", "0")
    assert (_run(router, blocked).status_code, _run(router, blocked).json()["error_type"]) == (403, "forbidden")
    free = router.new_workspace(new_name(), "--in-flight-limit", "-1")
    assert _run(router, free).status_code == 200


@pytest.mark.req("R-29")
def test_failed_run_gives_its_hold_back(router: Server, partner: FakePartner, new_name: NewName) -> None:
    """A run that failed gives its hold back, so that the same money can pay the next."""
    name = new_name()
    key = router.new_workspace(name, "--billing", "prepaid", credit="0.01")
    partner.script("/json", reply(500), reply(500), reply(200, b"{}"))
    assert [_run(router, key).status_code for _ in range(4)] == [502, 502, 200, 402]
