"""Who may call the jobs API on each of its surfaces, and what a surface does not do (J-09, J-10)."""

import time
from collections.abc import Iterator
from typing import Any, Final

import httpx
import jwt
import pytest

from api.cloud.clients import picture
from api.conftest import JWT_AUDIENCE, JWT_ISSUER, JWT_SECRET
from api.jobs.callers import JobsCaller, refusal_of
from api.jobs.conftest import ENGINE
from fairlead.server.settings import BadSettingError, read_settings
from servers import Server, serving

_JOBS: Final = "/api/v2/jobs"
_TOKEN: Final = "a-static-token-of-a-test"
_WITHOUT_ISSUER: Final = {name: value for name, value in ENGINE.items() if not name.startswith("FAIRLEAD_JWT_")}


def _env(surface: str, token: str = "") -> dict[str, str]:
    """Return the environment of a server that has a surface, and no issuer of tokens."""
    return {**_WITHOUT_ISSUER, "FAIRLEAD_JOBS_SURFACE": surface, "FAIRLEAD_STATIC_TOKEN": token}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with the cloud's surface."""
    with serving(tmp_path_factory.mktemp("cloud") / "data", env=_env("cloud")) as server:
        yield server


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a self-hosted server that is open to everybody."""
    with serving(tmp_path_factory.mktemp("opened") / "data", env=_env("self_hosted")) as server:
        yield server


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a self-hosted server that takes one static token."""
    with serving(tmp_path_factory.mktemp("locked") / "data", env=_env("self_hosted", _TOKEN)) as server:
        yield server


def ask(server: Server, headers: dict[str, str], method: str = "GET", path: str = _JOBS, **more: Any) -> httpx.Response:
    """Ask with these headers and no others that say who asks."""
    return httpx.request(method, server.url + path, headers=headers, timeout=60, **more)


@pytest.mark.req("J-09")
def test_oauth_access_token_is_a_credential(jobs_server: Server, caller: JobsCaller) -> None:
    """One that says what it is (RFC 9068) is a token of the issuer like that of a session."""
    claims = {
        "sub": "app",
        "client_id": "app",
        "iss": JWT_ISSUER,
        "aud": [JWT_AUDIENCE, "jobs"],
        "scope": "jobs",
        "workspace": caller.workspace,
    }
    access = jwt.encode({**claims, "exp": int(time.time()) + 600}, JWT_SECRET, headers={"typ": "at+jwt"})
    assert ask(jobs_server, {"Authorization": f"Bearer {access}"}).json() == {"jobs": []}
    assert refusal_of(ask(jobs_server, {"Authorization": f"Bearer {access}x"})) == (401, "unauthorized")


@pytest.mark.req("J-09")
def test_refused_token_says_that_keys_alone_are_taken(cloud: Server) -> None:
    """The refusal says that this server takes keys only; a key works."""
    response = ask(cloud, {"Authorization": "Bearer e30.e30.x"})
    assert refusal_of(response) == (401, "unauthorized")
    assert "takes API keys only" in response.json()["error"]["message"]
    assert ask(cloud, {"Authorization": f"Bearer {cloud.key}"}).status_code == 501


@pytest.mark.req("J-09", "J-10")
def test_surface_without_a_list_answers_501(cloud: Server) -> None:
    """It answers 501 to who may ask, keeps no labels, and does everything else."""
    caller = JobsCaller(cloud, "default", cloud.key)
    assert refusal_of(ask(cloud, {})) == (401, "unauthorized")
    for query in ("", "?limit=none", "?metadata[a]=b"):
        assert refusal_of(caller.ask("GET", _JOBS + query)) == (501, "not_implemented")
    labelled = {"workflow": picture(), "metadata": {"team": "blue"}}
    assert refusal_of(caller.ask("POST", _JOBS, json=labelled)) == (422, "metadata_not_supported")
    job = caller.runs(picture(), metadata={})
    assert (job["status"], "metadata" in job) == ("succeeded", False)


@pytest.mark.req("J-09", "J-10")
def test_open_server_needs_no_key(opened: Server) -> None:
    """Who sends no credential speaks for the default workspace; a key still speaks for its own."""
    submitted = ask(opened, {}, "POST", json={"workflow": picture(), "metadata": {"team": "blue"}})
    assert submitted.status_code == 201
    job_id = submitted.json()["id"]
    default = JobsCaller(opened, "default", opened.key)
    assert default.reaches(job_id, "succeeded")["metadata"] == {"team": "blue"}
    assert [job["id"] for job in ask(opened, {}).json()["jobs"]] == [job_id]
    other = JobsCaller(opened, "other", opened.new_workspace("other"))
    assert other.get(_JOBS) == {"jobs": []}


@pytest.mark.req("J-09", "J-11")
def test_single_sign_on_applies_only_to_the_serverless_surface(cloud: Server, opened: Server) -> None:
    """Only the serverless surface respects what an organization wants."""
    key = cloud.new_workspace("held", "--organization", "org_7", "--sso-required")
    assert refusal_of(ask(cloud, {"X-API-Key": key})) == (501, "not_implemented")
    key = opened.new_workspace("held", "--organization", "org_7", "--sso-required")
    assert ask(opened, {"X-API-Key": key}).json() == {"jobs": []}


@pytest.mark.req("J-09")
def test_open_server_refuses_bad_credentials(opened: Server) -> None:
    """A credential that is sent must be good, other APIs are not open, and pages of other sites are kept out."""
    for wrong in ({"X-API-Key": "flk_nobody"}, {"Authorization": "Bearer x.y.z"}):
        assert refusal_of(ask(opened, wrong)) == (401, "unauthorized")
    assert ask(opened, {}, path="/api/queue").status_code == 401
    for foreign in ({"Origin": "http://elsewhere.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert refusal_of(ask(opened, foreign, "POST", json={"workflow": picture()})) == (403, "forbidden")
    for rebound in ({"Host": "elsewhere.example"}, {"Host": "elsewhere.example", "Sec-Fetch-Site": "same-origin"}):
        assert refusal_of(ask(opened, rebound)) == (403, "forbidden")
        own_key = {**rebound, "X-API-Key": opened.key}
        assert ask(opened, own_key).status_code == 200
    for own in ({"Origin": opened.url}, {"Sec-Fetch-Site": "same-origin", "Origin": "http://elsewhere.example"}):
        assert ask(opened, own).status_code == 200


@pytest.mark.req("J-09", "J-10")
def test_static_token_opens_the_default_workspace(locked: Server) -> None:
    """It speaks for the default workspace, also from other sites; without it, or with another, nobody is let in."""
    for good in ({"Authorization": f"Bearer {_TOKEN}", "Origin": "http://elsewhere.example"}, {"X-API-Key": _TOKEN}):
        assert ask(locked, good).status_code == 200
    for wrong in ({}, {"Authorization": f"Bearer {_TOKEN}x"}, {"Authorization": f"Basic {_TOKEN}"}):
        assert refusal_of(ask(locked, wrong)) == (401, "unauthorized")
    other = JobsCaller(locked, "other", locked.new_workspace("other"))
    assert other.get(_JOBS) == {"jobs": []}
    assert _TOKEN not in str(locked.log.read_text(encoding="utf-8"))


def test_static_token_is_hidden_and_strong() -> None:
    """Settings hide it as they are written down; one that is short, cannot be sent or opens nothing is refused."""
    settings = read_settings({}, jobs_surface="self_hosted", static_token=_TOKEN, jwt_secret="hidden-too")
    assert _TOKEN not in repr(settings)
    assert "hidden-too" not in repr(settings)
    for bad in ("short", "with a space in it", "schlüssel-schlüssel"):
        with pytest.raises(BadSettingError, match="FAIRLEAD_STATIC_TOKEN"):
            read_settings({}, jobs_surface="self_hosted", static_token=bad)
    with pytest.raises(BadSettingError, match="only FAIRLEAD_JOBS_SURFACE=self_hosted takes one"):
        read_settings({}, jobs_surface="cloud", static_token=_TOKEN)
