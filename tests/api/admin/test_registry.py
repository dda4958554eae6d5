"""Bans of the registry over HTTP: for operators, at once for everybody, and in both lists of what was done."""

import httpx
import pytest

from api.admin.conftest import NewPerson
from api.admin.members import Person, refusal_of
from servers import Server


@pytest.mark.req("A-01")
def test_operator_bans_a_publisher_and_takes_it_back(
    operator: Person, new_person: NewPerson, site: Server, workspace: str
) -> None:
    """It is hidden from everybody at once; only an operator may do that."""
    key = site.cli("keys", "create", workspace, "--json")["key"]
    id_ = f"pub-{workspace}"
    made = httpx.post(f"{site.url}/publishers", json={"id": id_, "name": id_}, headers={"X-API-Key": key})
    assert made.status_code == 201
    path = f"/registry-bans/publisher/{id_}"
    assert refusal_of(new_person("owner").ask("PUT", path))[:2] == (403, "forbidden")
    assert operator.ask("PUT", path).status_code == 204
    assert operator.ask("PUT", path).status_code == 204
    assert httpx.get(f"{site.url}/publishers/{id_}").status_code == 404
    assert operator.ask("DELETE", path).status_code == 204
    assert httpx.get(f"{site.url}/publishers/{id_}").status_code == 200
    acts = operator.get("/registry-acts", publisher=id_)["items"]
    assert [one["act"] for one in acts] == ["publisher_unbanned", "publisher_banned", "publisher_created"]
    first = operator.get("/registry-acts", publisher=id_, limit="2")
    rest = operator.get("/registry-acts", publisher=id_, limit="2", cursor=first["next_cursor"])
    assert [*first["items"], *rest["items"]] == acts
    assert rest["next_cursor"] is None
    log = [one["action"] for one in operator.get("/audit-log")["items"] if one["target"] == id_]
    assert log == ["registry.unbanned", "registry.banned"]


def test_unknown_entry_cannot_be_banned(operator: Person) -> None:
    """Neither one that is not there, nor something that is not an entry."""
    assert refusal_of(operator.ask("PUT", "/registry-bans/node/nothing"))[:2] == (404, "not_found")
    assert refusal_of(operator.ask("PUT", "/registry-bans/version/nothing")) == (422, "invalid_input", "kind")
