"""Deployments over the administration API: those who run workflows make them, everybody in the workspace sees them."""

from typing import Final

import pytest

from api.admin.conftest import NewPerson
from api.admin.members import Person, refusal_of
from servers import Server

pytestmark = pytest.mark.req("A-01")

_DONE: Final = ("deleted", "started", "stopped", "released", "changed", "changed", "created")
"""What a test does to a deployment, the latest first."""


def test_deployment_is_made_changed_released_stopped_started_and_deleted(
    new_person: NewPerson, site: Server, workspace: str
) -> None:
    """As the commands do it, which see the same; each change is in the audit log once."""
    member, viewer, path = new_person("member"), new_person("viewer"), f"/workspaces/{workspace}/deployments"
    made = member.ask("POST", path, {"name": "pictures", "packs": [], "token_kinds": ["session"], "pool": "gpu"})
    assert made.status_code == 201, made.text
    one = made.json()
    assert one["id"].startswith("pictures-")
    assert (one["state"], one["last_release"], one["token_kinds"]) == ("not_ready", 1, ["session"])
    assert one["pool"] == "gpu"
    assert viewer.get(path)["items"] == [one] == [viewer.get(f"{path}/{one['id']}")]
    assert [row["id"] for row in site.cli("deployments", "list", "--workspace", workspace, "--json")] == [one["id"]]
    for pool in ("cpu", None):
        assert member.ask("PATCH", f"{path}/{one['id']}", {"pool": pool}).json()["pool"] == pool
        assert viewer.get(f"{path}/{one['id']}")["pool"] == pool
    released = member.ask("POST", f"{path}/{one['id']}/releases", {})
    assert (released.status_code, released.json()["version"], released.json()["packs"]) == (201, 2, None)
    assert [row["version"] for row in viewer.get(f"{path}/{one['id']}/releases")["items"]] == [2, 1]
    assert member.ask("POST", f"{path}/{one['id']}/stop").json()["state"] == "stopped"
    assert member.ask("POST", f"{path}/{one['id']}/start").json()["state"] == "not_ready"
    assert member.ask("DELETE", f"{path}/{one['id']}").status_code == 204
    assert refusal_of(member.ask("GET", f"{path}/{one['id']}"))[:2] == (404, "not_found")
    site.cli("deployments", "create", "other", "--workspace", workspace)
    log = new_person("owner").get("/audit-log", workspace=workspace)["items"]
    told = [(row["action"], row["actor"]["kind"]) for row in log if row["action"].startswith("deployment.")]
    assert told == [
        ("deployment.created", "command"),
        *((f"deployment.{what}", "member") for what in _DONE),
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "Pictures"}, "name"),
        ({"name": "x" * 41}, "name"),
        ({"name": "a", "packs": "all"}, "packs"),
        ({"name": "a", "packs": [""]}, "packs"),
        ({"name": "a", "packs": [str(number) for number in range(101)]}, "packs"),
        ({"name": "a", "token_kinds": ["none"]}, "token_kinds"),
        ({"name": "a", "pool": "GPU"}, "pool"),
        ({"name": "a", "pool": 1}, "pool"),
    ],
)
def test_bad_field_of_a_deployment_is_named(
    new_person: NewPerson, workspace: str, body: dict[str, object], field: str
) -> None:
    """Nothing is made."""
    member, path = new_person("member"), f"/workspaces/{workspace}/deployments"
    status, code, named = refusal_of(member.ask("POST", path, body))
    assert (status, code) == (422, "invalid_input")
    assert (named or "").startswith(field)
    assert member.get(path)["items"] == []


@pytest.mark.parametrize("body", [{}, {"pool": ""}, {"pool": "gpu-"}, {"pool": "x" * 33}, {"pool": []}])
def test_bad_pool_of_a_deployment_is_named(new_person: NewPerson, workspace: str, body: dict[str, object]) -> None:
    """Nothing is changed."""
    member, path = new_person("member"), f"/workspaces/{workspace}/deployments"
    made = member.ask("POST", path, {"name": "pictures", "packs": [], "pool": "gpu"}).json()
    assert refusal_of(member.ask("PATCH", f"{path}/{made['id']}", body)) == (422, "invalid_input", "pool")
    assert member.get(path)["items"] == [made]


def test_deployment_of_another_workspace_is_not_there(operator: Person, new_person: NewPerson, workspace: str) -> None:
    """Its id does not help, through whichever workspace it is asked for."""
    made = operator.ask("POST", "/workspaces/default/deployments", {"name": "theirs"}).json()
    member = new_person("member")
    for path in (f"/workspaces/{workspace}/deployments/{made['id']}", f"/workspaces/default/deployments/{made['id']}"):
        assert refusal_of(member.ask("GET", path))[:2] == (404, "not_found")
        assert refusal_of(member.ask("PATCH", path, {"pool": None}))[:2] == (404, "not_found")
        assert refusal_of(member.ask("POST", f"{path}/stop"))[:2] == (404, "not_found")
        assert refusal_of(member.ask("DELETE", path))[:2] == (404, "not_found")
