"""Runs over the administration API: who sees which, what is told of one, and cancelling (A-01, A-02)."""

import pytest

from api.admin.members import Person, add_member, refusal_of
from api.legs import NATIVE
from api.queues import Client, NewClient, at_work
from fake_partner import FakePartner, reply, reply_json
from servers import Server


@pytest.fixture
def chief(queue: Server) -> Person:
    """Return the operator of the server of the queue."""
    return Person(queue, (queue.data / "first-operator-key").read_text("ascii").strip())


def invite(chief: Person, workspace: str, role: str) -> Person:
    """A new person with a role in a workspace."""
    return add_member(chief, workspace, role, f"{role}-of-{workspace}")


def caller(client: Client) -> Person:
    """The API key of a caller, as one who asks the administration API."""
    return Person(client.server, client.key)


@pytest.mark.req("A-02")
def test_api_key_sees_its_own_runs_only(new_client: NewClient, chief: Person) -> None:
    """Neither those of another workspace, nor those of another key of its own."""
    mine, other = new_client(), new_client()
    run_id, foreign = mine.queue(), other.queue()
    mine.wait_for_completion(run_id)
    other.wait_for_completion(foreign)
    second = mine.server.cli("keys", "create", mine.workspace, "--json")["key"]
    assert [one["id"] for one in caller(mine).get("/runs")["items"]] == [run_id]
    assert Person(mine.server, second).get("/runs")["items"] == []
    for person, hidden in ((caller(mine), foreign), (Person(mine.server, second), run_id)):
        assert refusal_of(person.ask("GET", f"/runs/{hidden}"))[:2] == (404, "not_found")
        assert refusal_of(person.ask("POST", f"/runs/{hidden}/cancel"))[0] in (403, 404)
    assert refusal_of(caller(mine).ask("GET", f"/runs?workspace={other.workspace}"))[:2] == (404, "not_found")
    assert {run_id, foreign} <= {one["id"] for one in chief.get("/runs", limit="200")["items"]}


@pytest.mark.req("A-01")
def test_run_is_told_with_its_timeline(client: Client, chief: Person) -> None:
    """Admission, hold, claim, charge and end, in order, with what was booked; amounts are dollars."""
    run_id = client.queue()
    client.wait_for_completion(run_id)
    viewer = invite(chief, client.workspace, "viewer")
    run = viewer.get(f"/runs/{run_id}")
    assert (run["workspace"], run["model"], run["state"], run["hold"]) == (
        client.workspace, "fake/json-1", "succeeded", "0.01",
    )  # fmt: skip
    assert [entry["kind"] for entry in run["ledger"]] == ["hold", "post"]
    kinds = [entry["kind"] for entry in run["timeline"]]
    assert kinds[:2] == ["admitted", "hold"]
    assert {"claimed", "charge", "succeeded"} <= set(kinds)
    assert [entry["at"] for entry in run["timeline"]] == sorted(entry["at"] for entry in run["timeline"])
    assert run["timeline"][1]["detail"].startswith("0.01 US dollars")


@pytest.mark.req("A-01", "A-02")
def test_kept_result_is_shown_to_who_may_see_the_run(new_client: NewClient, chief: Person) -> None:
    """One with an idempotency key is kept, one without is not; nobody else's is shown, and nothing in it can run."""
    client, other = new_client(), new_client()
    kept, unkept = client.run(headers={"Idempotency-Key": "k"}), client.run()
    path = f"/runs/{kept.headers['x-service-request-id']}/result"
    for person in (chief, caller(client), invite(chief, client.workspace, "viewer")):
        shown = person.ask("GET", path)
        assert (shown.status_code, shown.content) == (200, kept.content)
        assert shown.headers["content-security-policy"] == "sandbox"
    assert refusal_of(caller(other).ask("GET", path))[:2] == (404, "not_found")
    assert refusal_of(chief.ask("GET", f"/runs/{unkept.headers['x-service-request-id']}/result"))[:2] == (
        404,
        "not_found",
    )


@pytest.mark.req("A-01")
def test_timeline_tells_how_often_a_provider_was_asked(client: Client, chief: Person, partner: FakePartner) -> None:
    """The provider that took the work, when, and the polls until it ended, before the charge."""
    pending = reply_json({"state": "running"})
    at_work(partner, pending, pending, reply_json({"state": "done"}))
    run_id = client.queue("brake/task-1")
    client.wait_for_completion(run_id, "brake/task-1")
    timeline = chief.get(f"/runs/{run_id}")["timeline"]
    (polled,) = [one for one in timeline if one["kind"] == "polled"]
    assert polled["detail"].startswith("brake works on it; asked 3 times in ")
    kinds = [one["kind"] for one in timeline]
    assert kinds.index("claimed") < kinds.index("polled") < kinds.index("charge")


@pytest.mark.req("A-01")
def test_partners_own_words_are_in_the_timeline(client: Client, chief: Person, partner: FakePartner) -> None:
    """Operators read them all; the workspace those about its input and its task, not those about our account."""
    said: dict[str, dict[str, list[str]]] = {}
    answers = {
        "account": reply_json({"error": {"message": "organization org-7 is over its quota"}}, 402),
        "input": reply_json({"title": "Bad request", "errors": [{"msg": "the picture is too small"}]}, 415),
    }
    for what, answer in answers.items():
        partner.script(NATIVE, answer)
        run_id = client.run().headers["x-service-request-id"]
        said[what] = _said(run_id, chief, caller(client))
    at_work(partner, reply_json({"state": "failed", "reason": "a face was not found"}))
    run_id = client.queue("brake/task-1")
    client.wait_for_completion(run_id, "brake/task-1")
    said["task"] = _said(run_id, chief, caller(client))
    assert said == {
        "account": {"operator": ["fake answered 402: organization org-7 is over its quota"], "workspace": []},
        "input": {"operator": ["fake answered 415: Bad request"], "workspace": ["fake answered 415: Bad request"]},
        "task": {
            "operator": ["brake answered 200: a face was not found"],
            "workspace": ["brake answered 200: a face was not found"],
        },
    }


def _said(run_id: str, operator: Person, owner: Person) -> dict[str, list[str]]:
    seen = {"operator": operator, "workspace": owner}
    return {
        who: [one["detail"] for one in person.get(f"/runs/{run_id}")["timeline"] if one["kind"].startswith("provider")]
        for who, person in seen.items()
    }


@pytest.mark.req("A-01")
def test_queued_run_is_cancelled_by_a_member_and_noted(
    new_client: NewClient, chief: Person, partner: FakePartner
) -> None:
    """A viewer may not, a member may; the audit log has it, and a second time it is too late."""
    client = new_client("--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    client.in_progress(client.queue())
    waiting = client.queue()
    viewer, member = (invite(chief, client.workspace, role) for role in ("viewer", "member"))
    assert refusal_of(viewer.ask("POST", f"/runs/{waiting}/cancel"))[:2] == (404, "not_found")
    assert member.ask("POST", f"/runs/{waiting}/cancel").json() == {"is_cancelled": True}
    assert member.ask("POST", f"/runs/{waiting}/cancel").json() == {"is_cancelled": False}
    (act, *_) = chief.get("/audit-log", workspace=client.workspace)["items"]
    assert (act["action"], act["target"], act["actor"]["id"]) == ("run.cancelled", waiting, member.id)
    assert member.get(f"/runs/{waiting}")["reason"] == "cancelled"
    partner.release()


@pytest.mark.req("A-01")
def test_runs_are_filtered_and_paged(client: Client, chief: Person) -> None:
    """Every run once, whatever the page; a filter that is wrong is named."""
    ids = [client.queue() for _ in range(5)]
    for run_id in ids:
        client.wait_for_completion(run_id)
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = chief.get("/runs", workspace=client.workspace, state="succeeded", limit="2", **cursor)
        found += [one["id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert found == ids[::-1]
    assert chief.get("/runs", workspace=client.workspace, model="fake/other-1")["items"] == []
    assert chief.get("/runs", workspace=client.workspace, to="2020-01-01")["items"] == []
    for query, field in (("state=odd", "state"), ("from=never", "from"), ("limit=0", "limit"), ("model=", "model")):
        assert refusal_of(chief.ask("GET", f"/runs?{query}")) == (422, "invalid_input", field)


def test_synchronous_run_is_not_cancelled(client: Client, chief: Person) -> None:
    """It ends with the answer of its partner."""
    answer = client.request("POST", "/v2/models/fake/json-1", json={"prompt": "x"})
    run_id = answer.headers["x-service-request-id"]
    assert refusal_of(chief.ask("POST", f"/runs/{run_id}/cancel"))[:2] == (409, "conflict")
    assert refusal_of(chief.ask("GET", "/runs/nothing"))[:2] == (404, "not_found")
