"""Workspaces over HTTP: made, changed, funded, suspended, deleted and restored by operators, seen by their own."""

import httpx
import pytest

from api.admin.conftest import NewPerson
from api.admin.members import Person, refusal_of
from api.conftest import NewName
from fake_partner import FakePartner, reply
from servers import Server, wait_until

_RUN = "/v2/models/fake/json-1"


@pytest.mark.req("A-01")
def test_operator_makes_funds_and_limits_a_workspace(operator: Person, site: Server, new_name: NewName) -> None:
    """What is set over HTTP is what the command shows."""
    name = new_name()
    body = {
        "name": name, "billing": "prepaid", "subscription": "creator", "models": ["fake/*"], "markup": "7.50",
        "limits": {"in_flight": 3, "commitment": "12.5", "storage_bytes": 1000}, "switches": {"estimate": "off"},
    }  # fmt: skip
    made = operator.ask("POST", "/workspaces", body)
    assert made.status_code == 201, made.text
    shown = made.json()
    assert (shown["billing"], shown["balance"], shown["available"], shown["state"]) == ("prepaid", "0", "0", "active")
    assert (shown["limits"]["in_flight"], shown["markup"]) == (3, "7.5")
    assert (shown["limits"]["commitment"], shown["limits"]["jobs"]) == ("12.5", 3)
    assert (shown["limits"]["storage_bytes"], shown["switches"]) == (1000, {"estimate": "off"})
    credited = operator.ask("POST", f"/workspaces/{name}/credit", {"amount": "20.5", "reason": "invoice 7"})
    assert (credited.json()["balance"], credited.json()["available"]) == ("20.5", "20.5")
    changes = {
        "cap": "5",
        "models": None,
        "tier": 2,
        "markup": None,
        "limits": {"storage_bytes": None},
        "switches": {"estimate": "on"},
    }
    changed = operator.ask("PATCH", f"/workspaces/{name}", changes).json()
    assert (changed["cap"], changed["models"], changed["tier"], changed["markup"]) == ("5", None, "2", None)
    assert changed["limits"]["in_flight"] == 5
    assert changed["limits"]["storage_bytes"] > 1000
    row = site.workspace(name)
    assert (row["balance"], row["cap"], row["tier"], row["subscription"]) == ("20.5", "5", "2", "creator")
    assert operator.get(f"/workspaces/{shown['id']}") == changed


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "Not A Name"}, "name"),
        ({"name": "x", "cap": "-1"}, "cap"),
        ({"name": "x", "cap": "1e3"}, "cap"),
        ({"name": "x", "tier": 99}, "tier"),
        ({"name": "x", "subscription": "gold"}, "subscription"),
        ({"name": "x", "markup": "-90.01"}, "markup"),
        ({"name": "x", "markup": "ten"}, "markup"),
        ({"name": "x", "billing": "free"}, "billing"),
        ({"name": "x", "switches": {"nothing": "on"}}, "switches"),
        ({"name": "x", "limits": {"commitment": "many"}}, "limits.commitment"),
        ({"name": "x", "organization": "two words"}, "organization"),
        ({"name": "x", "owner": "me"}, "owner"),
    ],
)
def test_bad_field_of_a_workspace_is_named(operator: Person, body: dict[str, object], field: str) -> None:
    """Nothing is made, and the field that is wrong is in the answer."""
    assert refusal_of(operator.ask("POST", "/workspaces", body)) == (422, "invalid_input", field)


def test_taken_name_is_a_conflict(operator: Person, workspace: str) -> None:
    """A name is of one workspace."""
    assert refusal_of(operator.ask("POST", "/workspaces", {"name": workspace})) == (409, "conflict", "name")


@pytest.mark.req("A-01")
@pytest.mark.parametrize("role", ["owner", "member", "viewer"])
def test_only_operators_change_workspaces(new_person: NewPerson, workspace: str, role: str) -> None:
    """Owners see their balance and limits, and raise neither."""
    person = new_person(role)
    assert [one["name"] for one in person.get("/workspaces")["items"]] == [workspace]
    before = person.get(f"/workspaces/{workspace}")
    path = f"/workspaces/{workspace}"
    for method, where, body in (
        ("POST", "/workspaces", {"name": "mine"}),
        ("PATCH", path, {"cap": "1000000"}),
        ("DELETE", path, None),
        ("POST", f"{path}/credit", {"amount": "1000"}),
        ("POST", f"{path}/suspend", {}),
        ("POST", f"{path}/resume", {}),
        ("POST", f"{path}/restore", {}),
    ):
        assert refusal_of(person.ask(method, where, body))[:2] == (403, "forbidden"), where
    assert person.get(path) == before


@pytest.mark.req("A-02")
def test_api_key_sees_its_own_balance_alone(site: Server, operator: Person, workspace: str) -> None:
    """A caller reads what is left to it, and of no other workspace anything."""
    operator.ask("POST", f"/workspaces/{workspace}/credit", {"amount": "3"})
    key = Person(site, site.cli("keys", "create", workspace, "--json")["key"])
    assert key.get(f"/workspaces/{workspace}")["balance"] == "3"
    assert [one["name"] for one in key.get("/workspaces")["items"]] == [workspace]
    assert refusal_of(key.ask("GET", "/workspaces/default"))[:2] == (404, "not_found")
    assert refusal_of(key.ask("GET", f"/workspaces/{workspace}/keys"))[:2] == (403, "forbidden")
    assert refusal_of(key.ask("PATCH", f"/workspaces/{workspace}", {"cap": "9"}))[:2] == (403, "forbidden")


@pytest.mark.req("A-01")
@pytest.mark.parametrize(("verb", "undo", "state"), [("suspend", "resume", "suspended"), ("", "restore", "deleting")])
def test_suspended_or_deleted_workspace_begins_nothing(
    operator: Person, site: Server, partner: FakePartner, workspace: str, verb: str, undo: str, state: str
) -> None:
    """Its keys are refused within a second; taken back, they work again as before."""
    partner.script("/json", reply(200, b'{"made":true}'))
    key = site.cli("keys", "create", workspace, "--json")["key"]
    path = f"/workspaces/{workspace}"

    def run() -> int:
        return httpx.post(site.url + _RUN, json={"prompt": "x"}, headers={"X-API-Key": key}).status_code

    assert run() == 200
    ended = operator.ask("POST", f"{path}/{verb}", {}) if verb else operator.ask("DELETE", path)
    assert (ended.status_code, ended.json()["state"]) == (200, state)
    assert (ended.json()["delete_at"] is None) is bool(verb)
    wait_until(lambda: run() == 403, "no run begins")
    assert operator.ask("POST", f"{path}/{undo}", {}).json()["state"] == "active"
    wait_until(lambda: run() == 200, "runs begin again")
    actions = [one["action"] for one in operator.get("/audit-log", workspace=workspace)["items"]]
    assert actions[:2] == [f"workspace.{undo}d", f"workspace.{'suspended' if verb else 'deleted'}"]


def test_workspaces_are_listed_in_pages(operator: Person, site: Server, new_name: NewName) -> None:
    """Each is on one page, by name."""
    made = {new_name() for _ in range(3)}
    for name in made:
        site.cli("workspaces", "create", name)
    seen: list[str] = []
    query = {"limit": "2"}
    while True:
        page = operator.get("/workspaces", **query)
        seen += [one["name"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert made <= set(seen)
    assert len(seen) == len(set(seen))


@pytest.mark.req("A-01")
def test_commands_are_in_the_audit_log(operator: Person, site: Server, new_name: NewName) -> None:
    """What is done at a shell of the server is recorded like a call, with the name of its user."""
    name = new_name()
    site.cli("workspaces", "create", name)
    site.cli("workspaces", "credit", name, "2.5", "--reason", "gift")
    key = site.cli("keys", "create", name, "--label", "laptop", "--json")
    site.cli("keys", "set", key["id"], "--budget", "1")
    site.cli("keys", "revoke", key["id"])
    log = operator.get("/audit-log", workspace=name)["items"]
    assert [one["action"] for one in log] == [
        "key.revoked", "key.changed", "key.created", "workspace.credited", "workspace.created",
    ]  # fmt: skip
    assert {(one["actor"]["kind"], one["address"]) for one in log} == {("command", None)}
    assert log[3]["detail"] == {"amount": "2.5", "reason": "gift"}
    assert key["key"] not in str(log)
