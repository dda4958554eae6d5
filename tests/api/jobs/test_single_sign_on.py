"""Keys of accounts that must come by the single sign-on of their organization (J-09, J-11)."""

import re
from typing import Any, Final

import httpx
import pytest

from api.conftest import MakeToken
from api.jobs.callers import NOBODY, JobsCaller, refusal_of
from api.jobs.conftest import NewJobsCaller
from fairlead.api.jobs.routes import ROUTES
from servers import wait_until

_JOBS: Final = "/api/v2/jobs"
_GOVERNED: Final = ("--organization", "org_7", "--sso-required")


def call(caller: JobsCaller, **headers: str) -> httpx.Response:
    """Return the answer to a call with these headers, and no others that say who calls."""
    return httpx.get(caller.server.url + _JOBS, headers=headers, timeout=60)


def error_of(caller: JobsCaller) -> Any:
    """Return the error of a call that single sign-on is asked of."""
    response = caller.ask("GET", _JOBS)
    assert refusal_of(response) == (403, "sso_required")
    return response.json()["error"]


@pytest.mark.req("J-09", "J-11")
def test_every_operation_refuses_a_governed_key(jobs_server: Any, new_name: Any) -> None:
    """Every operation refuses the key, says which organization to sign in at, and reads nothing of the call."""
    name = new_name()
    caller = JobsCaller(jobs_server, name, jobs_server.new_workspace(name, *_GOVERNED))
    for route in ROUTES:
        path = re.sub(r"\{\w+\}", NOBODY, route.path)
        response = caller.ask(route.method, path)
        assert response.status_code == 403, route
        if route.method != "HEAD":
            assert refusal_of(response) == (403, "sso_required")
            assert response.json()["error"]["organization_id"] == "org_7"


@pytest.mark.req("J-09")
def test_governed_account_signs_in_with_a_session_token(jobs_server: Any, new_name: Any, token: MakeToken) -> None:
    """A token of a session is how one comes then; wrong keys are wrong as ever; the other APIs take the key."""
    name = new_name()
    caller = JobsCaller(jobs_server, name, jobs_server.new_workspace(name, *_GOVERNED))
    assert call(caller, Authorization=f"Bearer {token(name)}").json() == {"jobs": []}
    assert refusal_of(call(caller, **{"X-API-Key": f"{caller.key}x"})) == (401, "unauthorized")
    for path in ("/api/queue", "/v2/models"):
        assert caller.ask("GET", path).status_code == 200


@pytest.mark.req("J-09", "J-11")
def test_single_sign_on_takes_effect_without_a_restart(new_jobs_caller: NewJobsCaller) -> None:
    """Asked for and given up while the server runs; what nobody has said is not told."""
    caller = new_jobs_caller()
    caller.get(_JOBS)
    change = ("workspaces", "change", caller.workspace)
    caller.server.cli(*change, "--sso-required")
    wait_until(lambda: caller.ask("GET", _JOBS).status_code == 403, "the key is refused")
    assert "organization_id" not in error_of(caller)
    caller.server.cli(*change, "--organization", "org_8")
    wait_until(lambda: error_of(caller).get("organization_id") == "org_8", "the organization is told")
    caller.server.cli(*change, "--organization", "none", "--no-sso-required")
    wait_until(lambda: caller.ask("GET", _JOBS).status_code == 200, "the key is taken again")


@pytest.mark.req("J-11")
def test_organization_of_the_account_is_told(new_jobs_caller: NewJobsCaller) -> None:
    """The one that holds the account comes before the one that holds the workspace, and governs its keys alone."""
    caller = new_jobs_caller("--organization", "org_of_workspace")
    held = ("--organization", "org_of_account", "--sso-required")
    made = caller.server.cli("keys", "create", caller.workspace, *held, "--json")
    assert error_of(JobsCaller(caller.server, caller.workspace, made["key"]))["organization_id"] == "org_of_account"
    assert caller.get(_JOBS) == {"jobs": []}
