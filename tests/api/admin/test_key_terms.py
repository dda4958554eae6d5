"""The terms of keys over HTTP (T-04): ends, networks behind a proxy, scopes, rotation, signing out everywhere."""

import pytest

from api.admin.conftest import NewPerson
from api.admin.members import Person, refusal_of, sign_in
from servers import Server

pytestmark = pytest.mark.req("T-04")

_HOME = {"X-Forwarded-For": "203.0.113.7"}
_AWAY = {"X-Forwarded-For": "198.51.100.200"}


def _key(person: Person, **terms: object) -> Person:
    made = person.ask("POST", "/members/me/keys", terms)
    assert made.status_code == 201, made.text
    return Person(person.server, made.json()["secret"], made.json()["id"])


def test_api_key_has_terms_that_can_be_changed(site: Server, new_person: NewPerson, workspace: str) -> None:
    """It answers from its networks alone, as the trusted proxy tells, and rotates without another id."""
    owner, path = new_person("owner"), f"/workspaces/{workspace}/keys"
    made = owner.ask("POST", path, {"label": "site", "expires_in_days": 30, "networks": ["203.0.113.0/24"]}).json()
    key_id = made["key"]["id"]
    assert made["key"]["networks"] == ["203.0.113.0/24"]
    assert made["key"]["expires_at"] is not None

    def statuses(secret: str) -> list[int]:
        key = Person(site, secret)
        return [key.call("GET", "/v2/models", headers=where).status_code for where in (_HOME, _AWAY)]

    assert statuses(made["secret"]) == [200, 403]
    rotated = owner.ask("POST", f"{path}/{key_id}/rotate", {"overlap_hours": 1}).json()
    assert rotated["key"]["id"] == key_id
    assert rotated["key"]["hint"] != made["key"]["hint"]
    assert rotated["key"]["previous_until"] is not None
    assert (statuses(made["secret"]), statuses(rotated["secret"])) == ([200, 403], [200, 403])
    changed = owner.ask("PATCH", f"{path}/{key_id}", {"expires_in_days": None, "networks": []}).json()
    assert (changed["expires_at"], changed["networks"]) == (None, [])
    assert statuses(rotated["secret"]) == [200, 200]
    for field, value in (("networks", ["203.0.113.7/24"]), ("expires_in_days", 0)):
        assert refusal_of(owner.ask("PATCH", f"{path}/{key_id}", {field: value})) == (422, "invalid_input", field)


def test_personal_key_answers_from_its_networks_alone(new_person: NewPerson) -> None:
    """Neither calls nor signing in from elsewhere."""
    key = _key(new_person(), networks=["203.0.113.7"])
    assert key.ask("GET", "/me", headers=_HOME).status_code == 200
    assert refusal_of(key.ask("GET", "/me", headers=_AWAY))[:2] == (403, "forbidden")
    assert refusal_of(sign_in(key.server, key.key, _AWAY["X-Forwarded-For"]))[:2] == (403, "forbidden")


def test_scopes_narrow_what_a_key_may_do(operator: Person, new_person: NewPerson, workspace: str) -> None:
    """Whatever its member may; it makes no keys, signs nobody in, and accepts nothing."""
    owner, base = new_person("owner"), f"/workspaces/{workspace}"
    reading, managing = _key(owner, scopes=["read"]), _key(owner, scopes=["manage"])
    assert [reading.ask("GET", f"{base}/{what}").status_code for what in ("keys", "invitations")] == [200, 403]
    assert [managing.ask("GET", f"{base}/{what}").status_code for what in ("keys", "invitations")] == [403, 200]
    assert reading.ask("GET", "/me").status_code == 200
    for key in (reading, managing):
        for method, path, body in (
            ("POST", f"{base}/keys", {} if key is reading else None),
            ("POST", "/members/me/keys", {}),
            ("GET", "/members/me", None),
            ("POST", "/invitations/accept", {"token": "nothing"}),
        ):
            if body is not None or method == "GET":
                assert refusal_of(key.ask(method, path, body))[:2] == (403, "forbidden"), path
        assert refusal_of(sign_in(key.server, key.key))[:2] == (403, "forbidden")
    operating = _key(operator, scopes=["operate"])
    assert [operating.ask("GET", path).status_code for path in ("/settings", f"{base}/keys")] == [200, 403]
    assert refusal_of(owner.ask("POST", "/members/me/keys", {"scopes": ["everything"]}))[0] == 422


def test_key_for_one_workspace_sees_no_other(operator: Person, workspace: str) -> None:
    """An operator's as well: others are not there for it."""
    key = _key(operator, workspace=workspace)
    assert [one["name"] for one in key.get("/me")["workspaces"]] == [workspace]
    assert key.ask("GET", f"/workspaces/{workspace}/keys").status_code == 200
    assert refusal_of(key.ask("GET", "/workspaces/default/keys"))[:2] == (404, "not_found")
    assert refusal_of(key.ask("GET", "/settings"))[:2] == (403, "forbidden")
    assert refusal_of(operator.ask("POST", "/members/me/keys", {"workspace": "none"})) == (
        422, "invalid_input", "workspace",
    )  # fmt: skip


def test_member_signs_out_everywhere(new_person: NewPerson, operator: Person) -> None:
    """With the keys that were made in sessions; nobody but operators does that for others."""
    person, other = new_person(), new_person()
    session = person.sign_in()
    made = _key(session, label="from the console", expires_in_days=7)
    listed = {one["label"]: one for one in person.get("/members/me")["keys"]}
    assert [listed[label]["is_of_session"] for label in ("first key", "from the console")] == [False, True]
    assert refusal_of(other.ask("DELETE", f"/members/{person.id}/sessions"))[:2] == (403, "forbidden")
    assert session.ask("DELETE", "/members/me/sessions").status_code == 204
    assert [who.ask("GET", "/me").status_code for who in (session, made, person)] == [401, 401, 200]
    again = _key(person.sign_in())
    path = f"/members/{person.id}/sessions"
    assert operator.ask("DELETE", path, params={"keep_keys": "true"}).status_code == 204
    assert again.ask("GET", "/me").status_code == 200


def test_personal_key_is_rotated(new_person: NewPerson) -> None:
    """The old secret is good for the overlap; without one it is gone, and the sessions that began with it."""
    person = new_person()
    (first,) = person.get("/members/me")["keys"]
    path = f"/members/me/keys/{first['id']}/rotate"
    rotated = person.ask("POST", path, {})
    assert (rotated.status_code, rotated.json()["id"]) == (200, first["id"])
    session = person.sign_in()
    again = person.ask("POST", path, {"overlap_hours": 0}).json()["secret"]
    assert [who.ask("GET", "/me").status_code for who in (person, session, Person(person.server, again))] == [
        401, 401, 200,
    ]  # fmt: skip
    assert refusal_of(Person(person.server, again).ask("POST", path, {"overlap_hours": 721})) == (
        422, "invalid_input", "overlap_hours",
    )  # fmt: skip
