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


@pytest.mark.req("A-01")
def test_credit_that_is_sent_again_is_booked_once(operator: Person, workspace: str) -> None:
    """With its key it is answered as before and in the audit log once; another amount under that key is refused."""
    path, key = f"/workspaces/{workspace}/credit", {"Idempotency-Key": "invoice 17"}
    answers = [operator.ask("POST", path, {"amount": "1.5"}, key).json()["balance"] for _ in range(2)]
    assert answers == ["1.5", "1.5"]
    assert len(operator.get("/audit-log", workspace=workspace, action="workspace.credited")["items"]) == 1
    assert refusal_of(operator.ask("POST", path, {"amount": "2"}, key)) == (409, "conflict", None)
    for bad in ("", "k" * 256):
        refused = operator.ask("POST", path, {"amount": "2"}, {"Idempotency-Key": bad})
        assert refusal_of(refused) == (400, "invalid_request", None)


def test_credit_beyond_what_sums_can_hold_is_refused(operator: Person, workspace: str) -> None:
    """The field is named, nothing is booked, and every list of workspaces is as before."""
    refused = operator.ask("POST", f"/workspaces/{workspace}/credit", {"amount": "999999999"})
    assert refusal_of(refused) == (422, "invalid_input", "amount")
    assert operator.get("/workspaces", limit="200")["items"]
