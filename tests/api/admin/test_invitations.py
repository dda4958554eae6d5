"""Invitations over HTTP: the link, who may accept it, and what an address must have proven (T-04)."""

import httpx
import pytest

from api.admin.conftest import NewPerson
from api.admin.members import PATH, Person, accept, accepted, in_session, refusal_of, token_of
from api.conftest import NewName
from servers import Server

pytestmark = pytest.mark.req("T-04")


def _invite(inviter: Person, workspace: str, email: str, role: str = "member") -> str:
    answer = inviter.ask("POST", f"/workspaces/{workspace}/invitations", {"email": email, "role": role})
    assert answer.status_code == 201, answer.text
    return token_of(answer.json()["link"])


def test_person_accepts_an_invitation_and_makes_a_key(
    site: Server, new_person: NewPerson, workspace: str, new_name: NewName
) -> None:
    """The link signs its holder in, who makes a personal key; no answer to the inviter has one."""
    owner, email = new_person("owner"), f"{new_name()}@example.com"
    path = f"/workspaces/{workspace}/invitations"
    issued = owner.ask("POST", path, {"email": email.upper(), "role": "viewer"})
    link = issued.json()["link"]
    assert link.startswith(f"{site.url}/console#invitation=")
    assert "flp_" not in issued.text
    (listed,) = owner.get(path)["items"]
    assert (listed["email"], listed["role"], listed["is_mailed"]) == (email, "viewer", False)
    assert token_of(link) not in str(listed)
    offer = _show(site, token_of(link)).json()
    assert (offer["workspace"], offer["role"], offer["email"], offer["needs_sign_in"]) == (
        workspace, "viewer", email, False,
    )  # fmt: skip
    answer = accept(site, token_of(link))
    assert answer.status_code == 201, answer.text
    guest = in_session(site, answer)
    assert [(one["name"], one["role"]) for one in guest.get("/me")["workspaces"]] == [(workspace, "viewer")]
    key = guest.ask("POST", "/members/me/keys", {"label": "laptop"}).json()["secret"]
    assert Person(site, key).get("/me")["email"] == email
    assert owner.get(path)["items"] == []
    assert refusal_of(accept(site, token_of(link)))[:2] == (404, "not_found")


def test_member_accepts_in_its_own_session(
    site: Server, new_person: NewPerson, operator: Person, workspace: str, new_name: NewName
) -> None:
    """Whose address is a member's signs in first; a cookie without the page's token accepts nothing for its member."""
    person, owner = new_person("viewer"), new_person("owner", elsewhere := _workspace(site, new_name()))
    email = operator.get(f"/members/{person.id}")["email"]
    token = _invite(owner, elsewhere, email)
    assert refusal_of(accept(site, token))[:2] == (409, "conflict")
    session = person.sign_in()
    without_token = accept(site, token, Cookie=session.headers["Cookie"])
    assert refusal_of(without_token)[:2] == (409, "conflict")
    other = new_person("viewer").sign_in()
    assert refusal_of(accept(site, token, **other.headers))[:2] == (409, "conflict")
    done = accept(site, token, **session.headers)
    assert (done.status_code, done.json()["session"]) == (201, None)
    assert {one["name"] for one in session.get("/me")["workspaces"]} == {workspace, elsewhere}


def test_page_of_another_origin_accepts_nothing(site: Server, new_person: NewPerson, workspace: str) -> None:
    """Neither with a link of its own, for whoever looks at it, nor to learn what a link offers."""
    token = _invite(new_person("owner"), workspace, "victim@example.com")
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert refusal_of(accept(site, token, **foreign))[:2] == (403, "forbidden")
    assert refusal_of(_show(site, token, **foreign))[:2] == (403, "forbidden")


def test_tries_of_an_address_are_limited(site: Server) -> None:
    """Together with its tries to sign in."""
    address = {"X-Forwarded-For": "203.0.113.41"}
    statuses = [accept(site, "nothing", **address).status_code for _ in range(6)]
    statuses += [_show(site, "nothing", **address).status_code for _ in range(5)]
    assert statuses == [404] * 10 + [429]


def test_invitation_is_withdrawn(site: Server, new_person: NewPerson, workspace: str) -> None:
    """By an owner of its workspace, and by nobody else."""
    owner, path = new_person("owner"), f"/workspaces/{workspace}/invitations"
    token = _invite(owner, workspace, "somebody@example.com")
    (listed,) = owner.get(path)["items"]
    assert refusal_of(new_person("member").ask("GET", path))[0] == 403
    assert owner.ask("DELETE", f"{path}/{listed['id']}").status_code == 204
    assert refusal_of(accept(site, token))[:2] == (404, "not_found")
    assert refusal_of(owner.ask("DELETE", f"{path}/{listed['id']}"))[:2] == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"email": "nobody", "role": "viewer"}, "email"),
        ({"email": "a@b.c", "role": "caller"}, "role"),
        ({"email": "a@b.c", "role": "viewer", "name": "x"}, "name"),
    ],
)
def test_bad_invitation_is_refused_by_its_field(
    new_person: NewPerson, workspace: str, body: dict[str, str], field: str
) -> None:
    """Nothing is made of it."""
    answer = new_person("owner").ask("POST", f"/workspaces/{workspace}/invitations", body)
    assert refusal_of(answer) == (422, "invalid_input", field)


def test_power_for_an_unproven_address_has_to_be_confirmed(
    site: Server, operator: Person, new_person: NewPerson, workspace: str, new_name: NewName
) -> None:
    """A role at once, a higher role, and operating the installation; less power needs no word."""
    owner, email = new_person("owner"), f"{new_name()}@example.com"
    guest = accepted(site, owner, workspace, email, "member")
    base = f"/workspaces/{workspace}/members"
    for who, method, path, body in (
        (owner, "PATCH", f"{base}/{guest.id}", {"role": "owner"}),
        (operator, "POST", base, {"member": email, "role": "owner"}),
        (operator, "PATCH", f"/members/{guest.id}", {"is_operator": True}),
        (operator, "POST", "/members", {"name": "Chief", "email": f"x-{email}", "is_operator": True}),
    ):
        refused = who.ask(method, path, body)
        assert refusal_of(refused) == (409, "conflict", "unproven"), path
        assert email in refused.json()["error"]["message"]
    assert owner.ask("PATCH", f"{base}/{guest.id}", {"role": "viewer"}).status_code == 200
    assert owner.ask("PATCH", f"{base}/{guest.id}", {"role": "owner", "unproven": True}).status_code == 200
    assert next(one for one in owner.get(base)["items"] if one["id"] == guest.id)["is_unproven"]
    unproven = operator.get("/members", unproven="true", limit="200")["items"]
    assert operator.id not in {one["id"] for one in unproven}
    assert all(one["is_unproven"] for one in unproven)
    assert refusal_of(operator.ask("GET", "/members", params={"unproven": "1"})) == (422, "invalid_input", "unproven")


def _workspace(site: Server, name: str) -> str:
    site.cli("workspaces", "create", name)
    return name


def _show(site: Server, token: str, **headers: str) -> httpx.Response:
    told = {"X-Forwarded-For": "203.0.113.40", **headers}
    return httpx.post(f"{site.url}{PATH}/invitations/show", json={"token": token}, headers=told)
