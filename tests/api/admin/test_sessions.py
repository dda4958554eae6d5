"""Signing in, sessions, and what keeps others from using them."""

import stat

import httpx
import pytest

from api.admin.conftest import NewPerson
from api.admin.members import PATH, Person, refusal_of, sign_in
from servers import Server


def test_first_start_makes_one_operator_with_a_key(site: Server, operator: Person) -> None:
    """Its key is in a file for the owner alone, and opens everything."""
    assert stat.S_IMODE((site.data / "first-operator-key").stat().st_mode) == 0o600
    assert operator.key.startswith("flp_")
    me = operator.get("/me")
    assert (me["kind"], me["name"], me["email"], me["is_operator"]) == ("member", "operator", None, True)
    assert {"name": "default", "role": "operator"}.items() <= me["workspaces"][0].items()
    assert "csrf_token" not in me


def test_login_methods_are_for_everybody(site: Server) -> None:
    """Nobody has to show anything to learn how to sign in."""
    answer = httpx.get(f"{site.url}{PATH}/login-methods")
    assert (answer.status_code, answer.json()) == (200, {"key": True, "oidc": None})


def test_session_works_by_cookie_and_tells_its_token(new_person: NewPerson, workspace: str) -> None:
    """Signing in sets a cookie that pages cannot read; /me tells the token that changes need."""
    person = new_person("viewer")
    answer = sign_in(person.server, person.key)
    cookie = answer.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"))
    assert "Secure" not in cookie
    assert answer.headers["cache-control"] == "no-store"
    session = person.sign_in()
    me = session.get("/me")
    assert me["csrf_token"] == session.headers["X-CSRF-Token"]
    assert [(one["name"], one["role"]) for one in me["workspaces"]] == [(workspace, "viewer")]


@pytest.mark.req("T-04")
def test_cookie_is_of_this_host_alone_behind_https(new_person: NewPerson) -> None:
    """Where the caller came by https, the cookie goes back by https alone, and no neighbouring host can set it."""
    person, by_https = new_person(), {"X-Forwarded-Proto": "https"}
    answer = sign_in(person.server, person.key, **by_https)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-fairlead_session=")
    assert all(part in cookie for part in ("; Secure", "; Path=/;", "SameSite=Strict"))
    assert "Domain" not in cookie
    name, _, value = cookie.partition(";")[0].partition("=")
    headers = {**by_https, "X-CSRF-Token": answer.json()["csrf_token"]}
    session = Person(person.server, "", headers={**headers, "Cookie": f"{name}={value}"})
    assert session.ask("GET", "/me").status_code == 200
    planted = Person(person.server, "", headers={**headers, "Cookie": f"fairlead_session={value}"})
    assert planted.ask("GET", "/me").status_code == 401
    ended = session.ask("DELETE", "/sessions/current")
    assert ended.headers["set-cookie"].startswith("__Host-fairlead_session=; Max-Age=0")


@pytest.mark.parametrize("token", [None, "", "0" * 64, "x"])
def test_change_without_the_token_is_refused(new_person: NewPerson, token: str | None) -> None:
    """A cookie alone changes nothing."""
    session = new_person().sign_in()
    del session.headers["X-CSRF-Token"]
    headers = {} if token is None else {"X-CSRF-Token": token}
    assert refusal_of(session.ask("POST", "/members/me/keys", {}, headers))[:2] == (403, "forbidden")
    assert session.ask("GET", "/me").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "https://other.example.com"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_page_of_another_origin_cannot_use_a_session(new_person: NewPerson, headers: dict[str, str]) -> None:
    """Neither reading nor changing, nor signing somebody in: whatever token it sends."""
    person = new_person()
    session = person.sign_in()
    assert refusal_of(session.ask("GET", "/me", headers=headers))[:2] == (403, "forbidden")
    assert refusal_of(session.ask("POST", "/members/me/keys", {}, headers=headers))[:2] == (403, "forbidden")
    assert refusal_of(sign_in(person.server, person.key, **headers))[:2] == (403, "forbidden")


def test_page_of_this_origin_is_let_in(new_person: NewPerson) -> None:
    """Browsers send the origin with changes, also to addresses without TLS."""
    session = new_person().sign_in()
    answer = session.ask("POST", "/members/me/keys", {}, headers={"Origin": session.server.url})
    assert answer.status_code == 201


def test_ended_session_opens_nothing(new_person: NewPerson) -> None:
    """Signing out ends the session on the server and takes the cookie away."""
    session = new_person().sign_in()
    ended = session.ask("DELETE", "/sessions/current")
    assert (ended.status_code, "Max-Age=0" in ended.headers["set-cookie"]) == (204, True)
    assert refusal_of(session.ask("GET", "/me"))[:2] == (401, "unauthorized")


def test_sessions_are_listed_and_ended_from_another(new_person: NewPerson) -> None:
    """Somebody sees every session of theirs, with its address, and ends those of lost machines."""
    person = new_person()
    first, second = person.sign_in(), person.sign_in()
    listed = second.get("/sessions")["items"]
    assert [one["is_current"] for one in listed] == [True, False]
    assert all(one["address"].startswith("198.51.") and "httpx" in one["agent"] for one in listed)
    assert second.ask("DELETE", f"/sessions/{listed[1]['id']}").status_code == 204
    assert first.ask("GET", "/me").status_code == 401
    assert second.ask("GET", "/me").status_code == 200


def test_session_of_somebody_else_is_not_there(new_person: NewPerson) -> None:
    """Its id is answered like one that does not exist."""
    mine, theirs = new_person().sign_in(), new_person().sign_in()
    session_id = theirs.get("/sessions")["items"][0]["id"]
    assert refusal_of(mine.ask("DELETE", f"/sessions/{session_id}"))[:2] == (404, "not_found")
    assert theirs.ask("GET", "/me").status_code == 200


def test_revoked_key_ends_the_sessions_begun_with_it(new_person: NewPerson, operator: Person) -> None:
    """The page that is still open is told at its next call; a session begun with another key goes on."""
    person = new_person()
    session = person.sign_in()
    other = Person(person.server, session.ask("POST", "/members/me/keys", {"label": "other"}).json()["secret"])
    begun_with_other = other.sign_in()
    first = next(key for key in session.get("/members/me")["keys"] if key["label"] == "first key")
    assert operator.ask("DELETE", f"/members/{person.id}/keys/{first['id']}").status_code == 204
    assert refusal_of(session.ask("GET", "/me"))[:2] == (401, "unauthorized")
    assert refusal_of(person.ask("GET", "/me"))[:2] == (401, "unauthorized")
    assert begun_with_other.ask("GET", "/me").status_code == 200


def test_deleted_member_is_out_at_once(new_person: NewPerson, operator: Person) -> None:
    """Keys, sessions and roles go with the member."""
    person = new_person()
    session = person.sign_in()
    assert operator.ask("DELETE", f"/members/{person.id}").status_code == 204
    assert session.ask("GET", "/me").status_code == 401
    assert person.ask("GET", "/me").status_code == 401


@pytest.mark.parametrize("key", ["flp_" + "x" * 43, "é", "flk_nothing"])
def test_wrong_key_signs_nobody_in(site: Server, key: str) -> None:
    """Nothing of the key comes back."""
    answer = sign_in(site, key)
    assert refusal_of(answer)[:2] == (401, "unauthorized")
    assert key not in answer.text


def test_api_key_cannot_sign_in(site: Server) -> None:
    """A session is of a person."""
    assert refusal_of(sign_in(site, site.key))[:2] == (401, "unauthorized")


def test_logins_of_an_address_are_limited(site: Server, operator: Person) -> None:
    """The eleventh try within a minute is refused, even with the right key; another address is not concerned."""
    statuses = [sign_in(site, "flp_wrong", "203.0.113.7").status_code for _ in range(11)]
    assert statuses.count(401) <= 10
    assert statuses[-1] == 429 or 429 in statuses  # a minute may have turned between two of them
    many = [sign_in(site, operator.key, "203.0.113.7") for _ in range(12)]
    late = next(answer for answer in many if answer.status_code == 429)
    assert refusal_of(late)[:2] == (429, "rate_limited")
    assert int(late.headers["retry-after"]) >= 1
    assert sign_in(site, operator.key, "203.0.113.8").status_code == 201


def test_nothing_is_told_without_a_credential(site: Server) -> None:
    """Every route but signing in wants one."""
    assert refusal_of(httpx.get(f"{site.url}{PATH}/me"))[:2] == (401, "unauthorized")
    assert refusal_of(httpx.get(f"{site.url}{PATH}/me", headers={"Cookie": "fairlead_session=x"}))[:2] == (
        401, "unauthorized",
    )  # fmt: skip


def test_token_of_a_workspace_is_refused(site: Server) -> None:
    """Tokens are of callers, who administer nothing."""
    answer = httpx.get(f"{site.url}{PATH}/me", headers={"Authorization": "Bearer a.b.c"})
    assert refusal_of(answer)[:2] == (401, "unauthorized")


def test_api_key_knows_its_workspace(site: Server) -> None:
    """A workspace's own key may ask who it is."""
    me = httpx.get(f"{site.url}{PATH}/me", headers={"X-API-Key": site.key}).json()
    assert (me["kind"], me["is_operator"]) == ("key", False)
    assert [(one["name"], one["role"]) for one in me["workspaces"]] == [("default", "caller")]


@pytest.mark.parametrize(
    ("content", "content_type", "told"),
    [
        (b"{", "application/json", (400, "invalid_request", None)),
        (b'{"key":1}', "application/json", (422, "invalid_input", "key")),
        (b"{}", "application/json", (422, "invalid_input", "key")),
        (b'{"key":"x","more":1}', "application/json", (422, "invalid_input", "more")),
        (b'{"key":"x"}', "text/plain", (400, "invalid_request", None)),
        (b'{"key":"' + b"x" * 70_000 + b'"}', "application/json", (413, "body_too_large", None)),
        (b"[" * 30_000 + b"]" * 30_000, "application/json", (413, "body_too_large", None)),
    ],
)
def test_bad_body_is_told_with_its_field(
    site: Server, content: bytes, content_type: str, told: tuple[int, str, str | None]
) -> None:
    """What cannot be read is refused before anything else happens, and the field that is wrong is named."""
    headers = {"Content-Type": content_type, "X-Forwarded-For": f"192.0.2.{hash(content) % 200 + 1}"}
    assert refusal_of(httpx.post(f"{site.url}{PATH}/sessions", content=content, headers=headers)) == told


def test_unknown_paths_and_methods_are_told_in_the_same_envelope(operator: Person) -> None:
    """Whatever is below the API's path is answered by it."""
    assert refusal_of(operator.ask("GET", "/nothing"))[:2] == (404, "not_found")
    answer = operator.ask("PUT", "/me", {})
    assert refusal_of(answer)[:2] == (405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]
