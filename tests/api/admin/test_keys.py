"""API keys, provider keys and webhook secrets of a workspace over HTTP: for its owners, and for nobody else."""

from typing import Any

import httpx
import pytest

from api.admin.conftest import NewPerson
from api.admin.members import Person, refusal_of
from api.conftest import NewName
from servers import Server, wait_until


@pytest.fixture
def owner(new_person: NewPerson) -> Person:
    """Return an owner of the workspace of this test."""
    return new_person("owner")


def _opens(site: Server, secret: str) -> bool:
    return httpx.get(f"{site.url}/v2/models", headers={"X-API-Key": secret}).status_code == 200


@pytest.mark.req("A-01")
def test_owner_makes_changes_and_revokes_a_key(owner: Person, site: Server, workspace: str) -> None:
    """The secret is shown once; a revoked key opens nothing a moment later."""
    path = f"/workspaces/{workspace}/keys"
    body = {"label": "ci", "team": "render", "models": ["fake/*"], "budget": "7.5", "budget_period": "day"}
    made = owner.ask("POST", path, body)
    assert made.status_code == 201, made.text
    secret, key = made.json()["secret"], made.json()["key"]
    assert (key["label"], key["team"], key["models"]) == ("ci", "render", ["fake/*"])
    assert (key["budget"], key["budget_period"], key["spent"]) == ("7.5", "day", "0")
    assert _opens(site, secret)
    assert secret not in owner.ask("GET", path).text
    assert owner.get(path)["items"] == [key]
    changed = owner.ask("PATCH", f"{path}/{key['id']}", {"label": "nightly", "budget": None, "team": None}).json()
    assert (changed["label"], changed["budget"], changed["team"], changed["models"]) == (
        "nightly",
        None,
        None,
        ["fake/*"],
    )
    assert owner.ask("DELETE", f"{path}/{key['id']}").status_code == 204
    wait_until(lambda: not _opens(site, secret), "the key opens nothing")
    assert owner.get(f"{path}/{key['id']}")["revoked_at"] is not None
    assert refusal_of(owner.ask("DELETE", f"{path}/{key['id']}"))[:2] == (404, "not_found")
    assert refusal_of(owner.ask("PATCH", f"{path}/{key['id']}", {"label": "x"}))[:2] == (404, "not_found")
    log = owner.get("/audit-log", workspace=workspace)["items"]
    actions = [one["action"] for one in log if one["action"].startswith("key.")]
    assert actions == ["key.revoked", "key.changed", "key.created"]
    assert secret not in str(log)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"label": "x" * 101}, "label"),
        ({"budget": "-1"}, "budget"),
        ({"budget": "much"}, "budget"),
        ({"budget_period": "day"}, "budget_period"),
        ({"budget": "1", "budget_period": "year"}, "budget_period"),
        ({"models": "all"}, "models"),
        ({"team": " a"}, "team"),
        ({"organization": "a b"}, "organization"),
    ],
)
def test_bad_field_of_a_key_is_named(owner: Person, workspace: str, body: dict[str, Any], field: str) -> None:
    """No key is made."""
    path = f"/workspaces/{workspace}/keys"
    assert refusal_of(owner.ask("POST", path, body)) == (422, "invalid_input", field)
    assert owner.get(path)["items"] == []


def test_period_without_a_budget_is_refused(owner: Person, workspace: str) -> None:
    """There is nothing that it could be the period of."""
    path = f"/workspaces/{workspace}/keys"
    key = owner.ask("POST", path, {}).json()["key"]
    answer = owner.ask("PATCH", f"{path}/{key['id']}", {"budget_period": "day"})
    assert refusal_of(answer) == (422, "invalid_input", "budget_period")


@pytest.mark.req("A-01")
@pytest.mark.parametrize("role", ["member", "viewer"])
def test_others_of_the_workspace_see_keys_and_make_none(
    owner: Person, new_person: NewPerson, workspace: str, role: str
) -> None:
    """What they see has no secret in it."""
    path = f"/workspaces/{workspace}"
    key = owner.ask("POST", f"{path}/keys", {}).json()["key"]
    person = new_person(role)
    assert person.get(f"{path}/keys")["items"] == [key]
    for method, where, body in (
        ("POST", f"{path}/keys", {}),
        ("PATCH", f"{path}/keys/{key['id']}", {"label": "x"}),
        ("DELETE", f"{path}/keys/{key['id']}", None),
        ("PUT", f"{path}/provider-keys/fake", {"key": "x"}),
        ("DELETE", f"{path}/provider-keys/fake", None),
        ("GET", f"{path}/webhook-secret", None),
        ("POST", f"{path}/webhook-secret/rotate", {}),
    ):
        assert refusal_of(person.ask(method, where, body))[:2] == (403, "forbidden"), where


@pytest.mark.req("A-01")
def test_key_of_another_workspace_is_not_there(owner: Person, site: Server, workspace: str, new_name: NewName) -> None:
    """Its id does not help: neither through one's own workspace nor through the other."""
    elsewhere = new_name()
    site.cli("workspaces", "create", elsewhere)
    theirs = site.cli("keys", "create", elsewhere, "--json")
    for where in (workspace, elsewhere):
        path = f"/workspaces/{where}/keys/{theirs['id']}"
        assert refusal_of(owner.ask("GET", path))[:2] == (404, "not_found")
        assert refusal_of(owner.ask("PATCH", path, {"label": "mine"}))[:2] == (404, "not_found")
        assert refusal_of(owner.ask("DELETE", path))[:2] == (404, "not_found")
    assert _opens(site, theirs["key"])


def test_provider_keys_are_stored_and_never_shown(owner: Person, workspace: str) -> None:
    """A hint is all that is told of one; storing and deleting it are in the log."""
    path = f"/workspaces/{workspace}/provider-keys"
    stored = owner.ask("PUT", f"{path}/fake", {"key": "a-secret-of-ours"})
    assert stored.status_code == 201
    assert owner.ask("PUT", f"{path}/fake", {"key": "another-secret"}).status_code == 200
    listed = owner.ask("GET", path)
    assert "another-secret" not in listed.text
    assert [one["provider"] for one in listed.json()["items"]] == ["fake"]
    assert owner.ask("PUT", f"{path}/nobody", {"key": "x"}).status_code == 404
    assert owner.ask("DELETE", f"{path}/fake").status_code == 204
    assert owner.ask("DELETE", f"{path}/fake").status_code == 404
    log = owner.get("/audit-log", workspace=workspace)["items"]
    actions = [one["action"] for one in log if one["action"].startswith("provider_key")]
    assert actions == ["provider_key.deleted", "provider_key.stored", "provider_key.stored"]
    assert "another-secret" not in str(log)


def test_webhook_secret_is_shown_and_rotated(owner: Person, workspace: str) -> None:
    """Receivers need it in words, so owners may read it; a rotation is in the log."""
    path = f"/workspaces/{workspace}/webhook-secret"
    first = owner.get(path)
    assert first["secret"].startswith("whsec_")
    second = owner.ask("POST", f"{path}/rotate", {}).json()
    assert second["secret"] != first["secret"]
    assert owner.get(path) == second
    assert owner.get("/audit-log", workspace=workspace)["items"][0]["action"] == "webhook_secret.rotated"
