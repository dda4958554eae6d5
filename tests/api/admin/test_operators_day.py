"""An operator's day over the administration API, from an empty installation to a key that is revoked (A-01)."""

import httpx
import pytest

from api.admin.members import Person, accepted, refusal_of
from api.conftest import NewName
from fake_partner import FakePartner, reply
from servers import Server

_MODEL = "fake/json-1"


@pytest.mark.req("A-01", "A-02", "A-03")
def test_operator_runs_an_installation_over_http(
    site: Server, operator: Person, partner: FakePartner, new_name: NewName
) -> None:
    """Make a workspace, fund it, invite a member, set a budget, watch spend, find a failed run, revoke a key."""
    name = new_name()
    made = operator.ask("POST", "/workspaces", {"name": name, "billing": "prepaid"})
    assert made.status_code == 201, made.text
    assert operator.ask("POST", f"/workspaces/{name}/credit", {"amount": "25", "reason": "a start"}).is_success
    assert operator.get(f"/workspaces/{name}")["available"] == "25"

    owner = accepted(site, operator, name, f"{name}@x.example", "owner")
    budget = {"scope": "workspace", "period": "month", "limit": "5"}
    assert owner.ask("POST", f"/workspaces/{name}/budgets", budget).status_code == 201
    key = owner.ask("POST", f"/workspaces/{name}/keys", {"label": "website"}).json()

    partner.script("/json", reply(200, b'{"made":1}'), reply(400, b'{"error":"no"}'))
    assert [_run(site, key["secret"]) for _ in range(2)] == [200, 400]
    (spent,) = owner.get(f"/workspaces/{name}/budgets")["items"]
    (usage,) = owner.get("/usage", workspace=name, by="model")["items"]
    assert (usage["model"], usage["runs"], usage["succeeded"], usage["charge"]) == (_MODEL, 2, 1, spent["spent"])
    (failed,) = owner.get("/runs", workspace=name, state="failed")["items"]
    told = owner.get(f"/runs/{failed['id']}")
    assert (told["charge"], told["ledger"][-1]["kind"]) == ("0", "void")
    assert told["timeline"][-1]["kind"] == "failed"

    assert owner.ask("DELETE", f"/workspaces/{name}/keys/{key['key']['id']}").is_success
    assert refusal_of(owner.ask("POST", f"/workspaces/{name}/credit", {"amount": "1", "reason": "no"}))[0] == 403
    actions = [entry["action"] for entry in operator.get("/audit-log", workspace=name)["items"]]
    assert actions[0] == "key.revoked"
    assert {"workspace.created", "budget.created", "key.created"} <= set(actions)


def _run(site: Server, key: str) -> int:
    headers = {"X-API-Key": key}
    return httpx.post(f"{site.url}/v2/models/{_MODEL}", json={}, headers=headers, timeout=60).status_code
