"""What holds for each vendor alike: problems of transport come in JSON of its own, and never in the framework's."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_partners import simulator as simulator_package
from fairlead_partners.simulator.faults import NAMES
from fairlead_partners.simulator.vendors import VENDORS

PROVIDERS = [vendor.name for vendor in VENDORS]


def test_every_provider_is_served(simulator: Any) -> None:
    """The list that is asked for is the table."""
    assert simulator.client.get("/_simulator/providers").json()["providers"] == sorted(PROVIDERS)
    assert len(set(PROVIDERS)) == len(PROVIDERS) == 37


@pytest.fixture(scope="module")
def ordered(start_simulator: Any) -> Any:
    """Return a function that orders a fault and calls the provider once."""
    with start_simulator() as own:

        def call(provider: str, fault: str, argument: object = None) -> Any:
            own.order(provider, fault, argument=argument)
            return own.client.get(f"/{provider}/v1/anything")

        yield call


@pytest.mark.parametrize("provider", PROVIDERS)
def test_limited_rate_is_429_with_retry_after(ordered: Any, provider: str) -> None:
    """JSON, and the seconds ordered; Tencent puts it in its 200."""
    answer = ordered(provider, "rate-limited", 11)
    assert answer.status_code == (200 if provider == "tencent" else 429)
    assert answer.headers["retry-after"] == "11"
    assert answer.json()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_server_error_is_its_status_in_json(ordered: Any, provider: str) -> None:
    """JSON, and the status ordered."""
    answer = ordered(provider, "server-error", 503)
    assert answer.status_code == 503
    assert answer.json()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_key_and_an_unknown_address_are_refused_in_json(simulator: Any, provider: str) -> None:
    """Whatever the vendor says first, it says it in JSON; without a key it is 401 or 403."""
    answer = simulator.client.get(f"/{provider}/v1/anything")
    assert answer.json()
    assert answer.status_code in {401, 403} or provider in {"minimax", "tencent"}


@pytest.mark.parametrize("vendor", VENDORS, ids=PROVIDERS)
def test_call_that_makes_no_sense_is_never_a_fault_of_the_simulator(simulator: Any, vendor: Any) -> None:
    """Odd bodies on every creating route are refused as odd, not with 5xx."""
    odd: list[Any] = [None, [], {}, "x", {"prompt": 5}, [{}], {"input": "x", "parameters": [], "content": [5]}]
    for route in vendor.routes:
        if not route.is_creating:
            continue
        path = f"/{vendor.name}{route.path}".replace("{app:path}", "a/b")
        for body in odd:
            answer = simulator.post(path, body)
            assert answer.status_code < 500, (path, body, answer.text)
        answer = simulator.client.post(path, content=b"{", headers=dict(simulator.keys(vendor.name)))
        assert answer.status_code < 500, (path, json.dumps(body), answer.text)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_provider_is_on_the_protocol_page_once(provider: str) -> None:
    """Each provider has one row."""
    page = Path(simulator_package.__file__).with_name("PROTOCOL.md").read_text(encoding="utf-8")
    assert page.count(f"\n| `{provider}` |") == 1


@pytest.mark.parametrize("fault", sorted(NAMES))
def test_fault_is_on_the_protocol_page_once(fault: str) -> None:
    """Each fault has one row."""
    page = Path(simulator_package.__file__).with_name("PROTOCOL.md").read_text(encoding="utf-8")
    assert page.count(f"\n| `{fault}` |") == 1
