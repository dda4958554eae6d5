"""Members, their keys and their roles: who may change whom."""

import pytest

from api.admin.conftest import NewPerson
from api.admin.members import Person, add_member, refusal_of
from api.conftest import NewName
from servers import Server

_ROLES = ("owner", "member", "viewer")


def test_operator_makes_changes_and_deletes_a_member(operator: Person, new_name: NewName) -> None:
    """A member is known by an e-mail address, whose case does not matter."""
    name = new_name()
    made = operator.ask("POST", "/members", {"name": "Ada Lovelace", "email": f"{name}@Example.COM"})
    assert made.status_code == 201
    member = made.json()
    assert (member["email"], member["is_operator"], member["workspaces"]) == (f"{name}@example.com", False, [])
    taken = operator.ask("POST", "/members", {"name": "Another", "email": f"{name}@example.com"})
    assert refusal_of(taken) == (409, "conflict", "email")
    changed = operator.ask("PATCH", f"/members/{member['id']}", {"name": "Ada King"})
    assert (changed.json()["name"], changed.json()["email"]) == ("Ada King", f"{name}@example.com")
    assert operator.ask("DELETE", f"/members/{member['id']}").status_code == 204
    assert refusal_of(operator.ask("GET", f"/members/{member['id']}"))[:2] == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "", "email": "a@b.c"}, "name"),
        ({"name": " a", "email": "a@b.c"}, "name"),
        ({"name": "a\nb", "email": "a@b.c"}, "name"),
        ({"name": "x" * 101, "email": "a@b.c"}, "name"),
        ({"name": "a", "email": "nobody"}, "email"),
        ({"name": "a", "email": "a b@c.d"}, "email"),
        ({"name": "a", "email": "a@" + "b" * 300}, "email"),
        ({"email": "a@b.c"}, "name"),
        ({"name": "a", "email": "a@b.c", "is_operator": "yes"}, "is_operator"),
    ],
)
def test_bad_field_is_named(operator: Person, body: dict[str, object], field: str) -> None:
    """The field that is wrong is in the answer, and nothing is made."""
    assert refusal_of(operator.ask("POST", "/members", body)) == (422, "invalid_input", field)


@pytest.mark.req("A-01")
def test_last_operator_cannot_be_removed(operator: Person, new_person: NewPerson) -> None:
    """Neither deleted nor made less, until another one is there."""
    assert refusal_of(operator.ask("DELETE", f"/members/{operator.id}"))[:2] == (409, "conflict")
    assert refusal_of(operator.ask("PATCH", f"/members/{operator.id}", {"is_operator": False}))[:2] == (409, "conflict")
    second = new_person()
    told = {"is_operator": True, "unproven": True}
    assert operator.ask("PATCH", f"/members/{second.id}", told).status_code == 200
    assert second.ask("PATCH", f"/members/{operator.id}", {"is_operator": False}).status_code == 200
    assert refusal_of(operator.ask("GET", "/members"))[:2] == (403, "forbidden")
    assert refusal_of(second.ask("DELETE", f"/members/{second.id}"))[:2] == (409, "conflict")
    assert second.ask("PATCH", f"/members/{operator.id}", {"is_operator": True}).status_code == 200
    assert operator.ask("DELETE", f"/members/{second.id}").status_code == 204


@pytest.mark.req("A-01")
@pytest.mark.parametrize("role", _ROLES)
def test_only_owners_give_roles(new_person: NewPerson, workspace: str, role: str) -> None:
    """A member or a viewer reads who is there, and changes nothing."""
    person, other = new_person(role), new_person("viewer")
    allowed = role == "owner"
    path = f"/workspaces/{workspace}/members"
    assert {one["id"]: one["role"] for one in person.get(path)["items"]} == {person.id: role, other.id: "viewer"}
    body = {"email": f"new-{person.id}@example.com", "role": "viewer"}
    invited = person.ask("POST", f"/workspaces/{workspace}/invitations", body)
    assert invited.status_code == (201 if allowed else 403)
    changed = person.ask("PATCH", f"{path}/{other.id}", {"role": "member", "unproven": True})
    assert changed.status_code == (200 if allowed else 403)
    assert person.ask("DELETE", f"{path}/{other.id}").status_code == (204 if allowed else 403)


@pytest.mark.req("A-01")
def test_workspace_of_others_is_not_there(site: Server, new_person: NewPerson, new_name: NewName) -> None:
    """Its name and its id are answered exactly like those of none."""
    elsewhere = new_name()
    site.cli("workspaces", "create", elsewhere)
    id_ = next(row["id"] for row in site.cli("workspaces", "list", "--json") if row["name"] == elsewhere)
    owner, theirs = new_person("owner"), new_person("owner", elsewhere)
    for named in (elsewhere, id_, "nothing-of-the-kind"):
        for method, path, body in (
            ("GET", "", None),
            ("PATCH", f"/{theirs.id}", {"role": "viewer"}),
            ("DELETE", f"/{theirs.id}", None),
        ):
            answer = owner.ask(method, f"/workspaces/{named}/members{path}", body)
            assert refusal_of(answer)[:2] == (404, "not_found")
            assert answer.json()["error"]["message"] == f"There is no workspace {named}."


def test_member_of_another_workspace_cannot_be_changed_through_mine(
    site: Server, new_person: NewPerson, workspace: str, new_name: NewName
) -> None:
    """A role is changed where it is held, whatever ids a path has."""
    elsewhere = new_name()
    site.cli("workspaces", "create", elsewhere)
    owner, theirs = new_person("owner"), new_person("owner", elsewhere)
    path = f"/workspaces/{workspace}/members/{theirs.id}"
    assert refusal_of(owner.ask("PATCH", path, {"role": "viewer"}))[:2] == (404, "not_found")
    assert refusal_of(owner.ask("DELETE", path))[:2] == (404, "not_found")
    assert [one["role"] for one in theirs.get("/me")["workspaces"]] == ["owner"]


def test_nobody_but_operators_sees_other_members(new_person: NewPerson, workspace: str) -> None:
    """The list, other members, their keys, roles without an invitation: all of it is refused, to owners too."""
    owner, other = new_person("owner"), new_person()
    for method, path, body in (
        ("GET", "/members", None),
        ("POST", "/members", {"name": "a", "email": "a@b.c"}),
        ("GET", f"/members/{other.id}", None),
        ("PATCH", f"/members/{other.id}", {"is_operator": True}),
        ("PATCH", f"/members/{owner.id}", {"is_operator": True}),
        ("DELETE", f"/members/{other.id}", None),
        ("POST", f"/members/{other.id}/keys", {}),
        ("DELETE", f"/members/{other.id}/keys/{other.id}", None),
        ("POST", f"/workspaces/{workspace}/members", {"member": other.id, "role": "owner"}),
    ):
        assert refusal_of(owner.ask(method, path, body))[:2] == (403, "forbidden"), (method, path)


def test_key_is_shown_once(new_person: NewPerson) -> None:
    """The secret is in the answer that makes it, and nowhere later; what is listed is a hint."""
    person = new_person()
    made = person.ask("POST", "/members/me/keys", {"label": "laptop"}).json()
    assert made["secret"].startswith("flp_")
    assert made["secret"] not in person.ask("GET", "/members/me").text
    listed = {key["id"]: key for key in person.get("/members/me")["keys"]}
    assert (listed[made["id"]]["label"], listed[made["id"]]["hint"][-2:]) == ("laptop", made["secret"][-2:])
    assert person.ask("DELETE", f"/members/me/keys/{made['id']}").status_code == 204
    assert refusal_of(person.ask("DELETE", f"/members/me/keys/{made['id']}"))[:2] == (404, "not_found")


def test_members_are_listed_in_pages(operator: Person, new_person: NewPerson) -> None:
    """Each member is on one page; a cursor of another list is refused."""
    made = {new_person().id for _ in range(3)}
    seen: list[str] = []
    query = {"limit": "2"}
    while True:
        page = operator.get("/members", **query)
        seen += [one["id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert made <= set(seen)
    assert len(seen) == len(set(seen))
    for bad, field in (({"limit": "0"}, "limit"), ({"limit": "201"}, "limit"), ({"limit": "x"}, "limit")):
        assert refusal_of(operator.ask("GET", "/members", params=bad)) == (422, "invalid_input", field)
    if "cursor" in query:
        answer = operator.ask("GET", "/audit-log", params={"cursor": query["cursor"]})
        assert refusal_of(answer) == (422, "invalid_input", "cursor")
    assert operator.ask("GET", "/members", params={"cursor": "x"}).status_code == 400


@pytest.mark.req("A-01")
def test_changes_are_in_the_audit_log(
    operator: Person, new_person: NewPerson, workspace: str, new_name: NewName
) -> None:
    """Who, when, from where and what; a refused change is not there, and no secret is."""
    owner = new_person("owner").sign_in()
    eve = add_member(operator, workspace, "viewer", name := new_name()).id
    headers = {"X-Forwarded-For": "203.0.113.99"}
    told = {"role": "member", "unproven": True}
    owner.ask("PATCH", f"/workspaces/{workspace}/members/{eve}", told, headers)
    owner.ask("DELETE", f"/workspaces/{workspace}/members/{eve}", headers=headers)
    assert owner.ask("DELETE", f"/members/{eve}").status_code == 403
    log = owner.get("/audit-log", workspace=workspace)["items"]
    mine = [one for one in log if one["target"] == f"{name}@example.com"]
    assert [one["action"] for one in mine] == ["membership.deleted", "membership.changed", "membership.created"]
    assert {(one["actor"]["id"], one["address"], one["workspace"]) for one in mine[:2]} == {
        (owner.id, "203.0.113.99", workspace)
    }
    assert mine[1]["detail"] == {"role": "member", "before": "viewer"}
    sign_ins = operator.get("/audit-log", member=owner.id, action="session.created")["items"]
    assert len(sign_ins) == 1


@pytest.mark.req("A-01")
@pytest.mark.parametrize("role", ["member", "viewer"])
def test_audit_log_is_for_owners_and_operators(new_person: NewPerson, workspace: str, role: str) -> None:
    """A member or a viewer is refused, and an owner sees no log but that of the workspace."""
    assert refusal_of(new_person(role).ask("GET", "/audit-log", params={"workspace": workspace}))[0] == 403
    owner = new_person("owner")
    assert refusal_of(owner.ask("GET", "/audit-log"))[0] == 403
    assert refusal_of(owner.ask("GET", "/audit-log", params={"workspace": "default"}))[0] == 404


def test_api_key_administers_nothing(site: Server) -> None:
    """It sees its own workspace's balance, runs and usage; members, sessions and the log are not for it."""
    key = Person(site, site.key)
    for path in ("/members", "/members/me", "/sessions", "/audit-log", "/workspaces/default/members"):
        assert refusal_of(key.ask("GET", path))[:2] == (403, "forbidden"), path
