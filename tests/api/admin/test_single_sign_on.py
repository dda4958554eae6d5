"""Signing in at a real OpenID Connect provider (npm's oidc-provider, which demands PKCE), as a browser does."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

import npm
from api.admin.members import PATH, Person, accept, sign_in, token_of
from ports import free_ports
from servers import Server, ServerFailedError, kill_at_last, serving

_FOLDER: Final = Path(__file__).parents[2] / "oidc_provider"
_SECRET: Final = "a secret: of tests/100%"
_ACCOUNTS: Final = {
    "ada": {"email": "Ada@example.com", "email_verified": True},
    "eve": {"email": "ada@example.com", "email_verified": False},
    "mallory": {"email": "ada@example.com", "email_verified": True},
    "nobody": {"email": "nobody@example.com", "email_verified": True},
    "grace": {"email": "grace@example.com", "email_verified": True, "groups": ["staff", "makers"]},
    "left": {"email": "left@example.com", "email_verified": True, "groups": ["alumni"]},
}


@pytest.fixture(scope="module")
def node() -> str:
    """Return Node.js with the provider's packages installed."""
    npm.install(_FOLDER)
    return shutil.which("node") or "node"


@contextmanager
def _signing(node: str, data: Path, **more: str) -> Iterator[Server]:
    """A server whose members may sign in at a running provider."""
    ports = free_ports(2)
    callback = f"http://127.0.0.1:{ports[1]}{PATH}/oidc/callback"
    env = {**os.environ, "ACCOUNTS": json.dumps(_ACCOUNTS)}
    words = [node, "provider.mjs", str(ports[0]), callback]
    settings = {
        "FAIRLEAD_OIDC_ISSUER": f"http://127.0.0.1:{ports[0]}",
        "FAIRLEAD_OIDC_CLIENT_ID": "fairlead",
        "FAIRLEAD_OIDC_CLIENT_SECRET": _SECRET,
        "FAIRLEAD_OIDC_NAME": "Example ID",
        "FAIRLEAD_TRUSTED_PROXIES": "127.0.0.1",
        **more,
    }
    log = data.with_name("provider.log").open("wb")
    with log, subprocess.Popen(words, cwd=_FOLDER, env=env, stdout=subprocess.PIPE, stderr=log) as provider:
        assert provider.stdout is not None
        with kill_at_last(provider):
            assert provider.stdout.readline()
            plain = ("--no-local-partner", "--port", str(ports[1]))
            with serving(data, env=settings, arguments=plain) as server:
                yield server


@pytest.fixture(scope="module")
def signing(node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server whose members may sign in at a running provider."""
    with _signing(node, tmp_path_factory.mktemp("signing") / "data") as server:
        yield server


@pytest.fixture
def browser(signing: Server) -> Iterator[httpx.Client]:
    """Return a browser without cookies, at an address of its own."""
    with httpx.Client(base_url=signing.url, timeout=60) as client:
        client.headers["X-Forwarded-For"] = f"198.51.100.{os.urandom(1)[0]}"
        yield client


@pytest.fixture
def ada(signing: Server) -> str:
    """Return the id of a member whom the provider knows, who has not signed in there yet."""
    for row in signing.cli("members", "list", "--json"):
        if row["email"] == "ada@example.com":
            signing.cli("members", "delete", row["id"])
    signing.cli("members", "create", "ada@example.com", "--name", "Ada")
    signing.cli("members", "grant", "default", "ada@example.com", "--unproven")
    member: str = next(
        row["id"] for row in signing.cli("members", "list", "--json") if row["email"] == "ada@example.com"
    )
    return member


def _come_back(browser: httpx.Client, name: str, start: str = f"{PATH}/oidc/start") -> str:
    """Sign in at the provider as somebody, and return the address that it sends the browser back to."""
    at = browser.get(start)
    assert at.status_code == 303, at.text
    provider = httpx.Client(timeout=60)
    answer = provider.get(at.headers["location"])
    for form in ({"prompt": "login", "login": name, "password": "x"}, {"prompt": "consent"}):
        while answer.is_redirect and PATH not in answer.headers["location"]:
            answer = provider.get(str(answer.url.join(answer.headers["location"])))
        if answer.is_redirect:
            break
        action = re.search(r'action="([^"]+)"', answer.text)
        assert action is not None, answer.text
        answer = provider.post(str(answer.url.join(action[1])), data=form)
    while answer.is_redirect and PATH not in answer.headers["location"]:
        answer = provider.get(str(answer.url.join(answer.headers["location"])))
    back: str = answer.headers["location"]
    provider.close()
    return back


def _why(answer: httpx.Response) -> str:
    """Why nobody was signed in."""
    assert answer.status_code == 303
    assert "fairlead_session" not in answer.headers.get("set-cookie", "")
    target = urlsplit(answer.headers["location"])
    assert (target.netloc, target.path) == ("", "/")
    return parse_qs(target.query)["sign_in_error"][0]


@pytest.mark.req("A-01", "T-04")
def test_member_signs_in_at_the_provider(signing: Server, browser: httpx.Client, ada: str) -> None:
    """By code, PKCE, state and nonce; the page comes back to where it was, with a session that is recorded.

    The key of before, when nobody had proven the address, is gone then.
    """
    method = browser.get(f"{PATH}/login-methods").json()["oidc"]
    assert method == {"name": "Example ID", "start_url": f"{PATH}/oidc/start"}
    back = _come_back(browser, "ada", f"{method['start_url']}?return_to=/console/runs")
    answer = browser.get(back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/runs")
    me = browser.get(f"{PATH}/me").json()
    assert (me["id"], me["email"]) == (ada, "ada@example.com")
    assert me["csrf_token"]
    assert signing.cli("members", "keys", ada, "--json") == []
    log = signing.cli("members", "log", "--json")
    assert [row["action"] for row in log][:2] == ["session.created", "member.linked"]
    assert "member.linked" not in [row["action"] for row in log][2:3]
    again = _come_back(browser, "ada")
    assert browser.get(again).headers["location"] == "/"


def test_unverified_or_foreign_address_takes_no_member_over(browser: httpx.Client, ada: str) -> None:
    """Neither somebody whose address is not verified, nor another subject once the member has signed in."""
    assert ada
    assert _why(browser.get(_come_back(browser, "eve"))) == "unknown_member"
    assert browser.get(_come_back(browser, "ada")).headers["location"] == "/"
    browser.cookies.clear()
    assert _why(browser.get(_come_back(browser, "mallory"))) == "unknown_member"
    assert _why(browser.get(_come_back(browser, "nobody"))) == "unknown_member"


def test_code_of_another_browser_signs_nobody_in(signing: Server, browser: httpx.Client, ada: str) -> None:
    """A link with somebody's code is of no use without what waits in the browser that left."""
    assert ada
    back = _come_back(browser, "ada")
    with httpx.Client(base_url=signing.url) as other:
        assert _why(other.get(back)) == "expired"
        other.get(f"{PATH}/oidc/start")
        assert _why(other.get(back)) == "expired"
    changed = re.sub(r"code=[^&]*", "code=another", back)
    assert _why(browser.get(changed)) == "unavailable"
    assert _why(browser.get(re.sub(r"code=[^&]*&?", "", back))) == "cancelled"


@pytest.mark.req("T-04")
def test_browser_that_comes_back_from_another_provider_is_refused(browser: httpx.Client, ada: str) -> None:
    """The answer of the provider names it; a code that comes with another name is not exchanged."""
    assert ada
    back = _come_back(browser, "ada")
    assert "iss=" in back
    assert _why(browser.get(re.sub(r"iss=[^&]*", "iss=https%3A%2F%2Fevil.example", back))) == "unavailable"


@pytest.mark.req("T-04")
def test_group_lets_in_and_shuts_out_and_keys_begin_no_sessions(node: str, tmp_path: Path) -> None:
    """Who is in the group signs in; who is not is refused, and loses keys and sessions. A key signs nobody in."""
    more = {
        "FAIRLEAD_OIDC_SCOPES": "openid email groups",
        "FAIRLEAD_OIDC_GROUP": "makers",
        "FAIRLEAD_KEY_SIGN_IN": "false",
    }
    with _signing(node, tmp_path / "data", **more) as server, httpx.Client(base_url=server.url, timeout=60) as browser:
        keys = {
            name: server.cli("members", "create", f"{name}@example.com", "--name", name, "--json")["key"]
            for name in ("grace", "left")
        }
        assert browser.get(f"{PATH}/login-methods").json()["key"] is False
        assert sign_in(server, keys["grace"]).status_code == 403
        assert Person(server, keys["left"]).get("/me")["email"] == "left@example.com"
        assert _why(browser.get(_come_back(browser, "left"))) == "not_in_group"
        assert Person(server, keys["left"]).ask("GET", "/me").status_code == 401
        assert browser.get(_come_back(browser, "grace")).headers["location"] == "/"
        assert browser.get(f"{PATH}/me").json()["email"] == "grace@example.com"
        acts = [row["action"] for row in server.cli("members", "log", "--json")]
        assert acts[:3] == ["session.created", "member.linked", "member.shut_out"]
        link = server.cli("members", "invite", "default", "new@example.com", "--json")["link"]
        accepted = accept(server, token_of(link))
        assert (accepted.status_code, accepted.json()["session"]) == (201, None)
        assert "set-cookie" not in accepted.headers


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "/x\r\ny", "x" * 600])
def test_browser_returns_to_paths_of_ours_alone(browser: httpx.Client, ada: str, target: str) -> None:
    """No link of ours leads a browser that has just signed in to somebody else."""
    assert ada
    start = str(httpx.URL(f"{PATH}/oidc/start", params={"return_to": target}))
    assert browser.get(_come_back(browser, "ada", start)).headers["location"] == "/"


def test_deleted_member_is_signed_out_also_of_single_sign_on(signing: Server, browser: httpx.Client, ada: str) -> None:
    """What the provider says is of no use to somebody who is no longer a member."""
    browser.get(_come_back(browser, "ada"))
    assert browser.get(f"{PATH}/me").status_code == 200
    signing.cli("members", "delete", ada)
    assert browser.get(f"{PATH}/me").status_code == 401
    assert _why(browser.get(_come_back(browser, "ada"))) == "unknown_member"
    assert {row["reason"] for row in signing.logged_events("SignInFailed")} >= {
        "no member has this verified e-mail address"
    }


@pytest.mark.req("T-04")
def test_server_that_would_let_nobody_sign_in_does_not_start(tmp_path: Path) -> None:
    """Keys begin no sessions only where there is another way."""
    with (
        pytest.raises(ServerFailedError, match="FAIRLEAD_KEY_SIGN_IN: false needs FAIRLEAD_OIDC_ISSUER"),
        serving(tmp_path / "data", env={"FAIRLEAD_KEY_SIGN_IN": "false"}, arguments=("--no-local-partner",)),
    ):
        pass


def test_without_a_provider_there_is_nothing_to_start(operator: Person) -> None:
    """The addresses are there, and say so."""
    assert operator.ask("GET", "/oidc/start").status_code == 404
    assert operator.ask("GET", "/oidc/callback").status_code == 404
