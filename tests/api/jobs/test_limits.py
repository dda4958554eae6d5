"""What an account may ask for, and what it may spend (J-07, J-11, J-12)."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from api.jobs.callers import NOBODY, JobsCaller, refusal_of
from api.jobs.conftest import ENGINE
from servers import Server, serving

_QUOTA: Final = 12
_READS: Final = 6
_JOBS: Final = "/api/v2/jobs"
_DUSK: Final = {
    "1": {
        "class_type": "PartnerLocalProceduralImage1",
        "inputs": {"prompt": "dusk", "width": 64, "height": 64, "seed": 3},
    },
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "dusk"}},
}


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with a partner, at which an account may ask for little."""
    env = {**ENGINE, "FAIRLEAD_REQUESTS_PER_DAY": str(_QUOTA), "FAIRLEAD_READS_PER_MINUTE": str(_READS)}
    with serving(tmp_path_factory.mktemp("narrow") / "data", env=env) as server:
        yield server


def submit(caller: JobsCaller, **extra: Any) -> tuple[int, str]:
    """Submit what must be refused."""
    return refusal_of(caller.ask("POST", _JOBS, json={"workflow": _DUSK, **extra}))


@pytest.mark.req("J-11")
def test_requests_of_an_account_are_limited(narrow: Server) -> None:
    """Past its quota an account is told to wait, also for what is not there; another one is not."""
    caller = JobsCaller(narrow, "asks-a-lot", narrow.new_workspace("asks-a-lot"))
    for _ in range(_QUOTA):
        assert caller.ask("POST", f"{_JOBS}/{NOBODY}/cancel").status_code == 404
    for path in (_JOBS, f"{_JOBS}/{NOBODY}/cancel"):
        response = caller.ask("POST", path)
        assert refusal_of(response) == (429, "rate_limited")
        assert int(response.headers["retry-after"]) > 0
    other = JobsCaller(narrow, "asks-little", narrow.new_workspace("asks-little"))
    assert other.ask("POST", f"{_JOBS}/{NOBODY}/cancel").status_code == 404


@pytest.mark.req("J-11")
@pytest.mark.parametrize(
    ("name", "read", "written"),
    [
        ("polls-jobs", f"{_JOBS}/{NOBODY}", f"{_JOBS}/{NOBODY}/cancel"),
        ("polls-history", "/api/history", f"/api/jobs/{NOBODY}/cancel"),
    ],
)
def test_reading_spends_nothing_of_what_submits(narrow: Server, name: str, read: str, written: str) -> None:
    """Reads have a quota of their own, past which they alone have to wait."""
    caller = JobsCaller(narrow, name, narrow.new_workspace(name))
    answers = [caller.ask("GET", read) for _ in range(3 * _READS + 1)]  # a minute may turn on the way
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert f"The quota of {_READS} reads per minute is spent." in refused.text
    assert int(refused.headers["retry-after"]) > 0
    assert [caller.ask("POST", written).status_code for _ in range(_QUOTA + 1)] == [404] * _QUOTA + [429]


@pytest.mark.req("J-11")
def test_refusals_of_single_sign_on_are_counted(narrow: Server) -> None:
    """A key that its organization does not let in spends the quota of its account like any other."""
    caller = JobsCaller(narrow, "governed", narrow.new_workspace("governed", "--sso-required"))
    for _ in range(_QUOTA):
        assert refusal_of(caller.ask("POST", f"{_JOBS}/{NOBODY}/cancel")) == (403, "sso_required")
    assert refusal_of(caller.ask("POST", f"{_JOBS}/{NOBODY}/cancel")) == (429, "rate_limited")


@pytest.mark.req("J-07", "J-12")
def test_partner_nodes_need_an_account_with_money(narrow: Server) -> None:
    """A workflow that runs partners' models is paid by a key that is good, or by the credential of the call."""
    caller = JobsCaller(narrow, "pays", narrow.new_workspace("pays"))
    poor = narrow.new_workspace("poor", "--billing", "prepaid")
    assert submit(JobsCaller(narrow, "poor", poor)) == (402, "insufficient_credits")
    assert submit(caller, extra_data={"api_key_service_org": "flk_nobody"}) == (401, "unauthorized")
    assert submit(caller, extra_data={"api_key_service_org": poor}) == (402, "insufficient_credits")
    assert caller.get(_JOBS) == {"jobs": []}


@pytest.mark.req("T-04")
def test_key_that_pays_is_used_from_its_networks_alone(narrow: Server) -> None:
    """It is looked at like the credential of the call, from the address that the call comes from."""
    caller = JobsCaller(narrow, "lends", narrow.new_workspace("lends"))
    narrow.new_workspace("lender", "--billing", "prepaid")
    for networks, refused in (("203.0.113.0/24", (403, "forbidden")), ("127.0.0.0/8", (402, "insufficient_credits"))):
        key = narrow.cli("keys", "create", "lender", "--networks", networks, "--json")["key"]
        assert submit(caller, extra_data={"api_key_service_org": key}) == refused
        body = {"prompt": _DUSK, "extra_data": {"api_key_service_org": key}}
        assert caller.ask("POST", "/api/prompt", json=body).status_code == refused[0]
