"""Refunds over the administration API and by command: a run once, the runs of a model in pages (M-07)."""

from collections.abc import Mapping

import pytest

from api.admin.members import Person, refusal_of
from api.admin.test_runs import caller, invite
from api.queues import Client, NewClient
from servers import Server

pytestmark = pytest.mark.req("M-07", "A-01")

_ALL = {"model": "fake/json-1", "from": "2020-01-01", "reason": "wrong card"}


@pytest.fixture
def chief(queue: Server) -> Person:
    """Return the operator of the server of the queue."""
    return Person(queue, (queue.data / "first-operator-key").read_text("ascii").strip())


def ran(client: Client) -> str:
    """A run that has cost a cent; its id."""
    answer = client.run()
    assert answer.status_code == 200
    return answer.headers["x-service-request-id"]


def test_run_is_refunded_once(client: Client, chief: Person) -> None:
    """The run, its timeline, its usage, the balance and the audit log tell it; a repeat tells the same."""
    run_id = ran(client)
    path = f"/runs/{run_id}/refund"
    dry = chief.ask("POST", path, {"reason": "black", "is_dry_run": True}).json()
    assert (dry["amount"], chief.get(f"/runs/{run_id}")["charge"]) == ("0.01", "0.01")
    first = chief.ask("POST", path, {"reason": "black", "amount": "0.004"}).json()
    assert (first["run"], first["workspace"], first["amount"], first["charge"], first["is_new"]) == (
        run_id, client.workspace, "0.004", "0.006", True,
    )  # fmt: skip
    again = chief.ask("POST", path, {"reason": "all of it"}).json()
    assert again == {**first, "is_new": False}
    run = chief.get(f"/runs/{run_id}")
    assert (run["charge"], [one["kind"] for one in run["ledger"]]) == ("0.006", ["hold", "post", "refund"])
    (told,) = [one for one in run["timeline"] if one["kind"] == "refund"]
    assert told["detail"] == "0.004 US dollars are given back: black"
    (row,) = caller(client).get("/usage", by="model")["items"]
    assert (row["runs"], row["charge"]) == (1, "0.006")
    (entry,) = chief.get("/audit-log", workspace=client.workspace, action="run.refunded")["items"]
    assert (entry["target"], entry["detail"]) == (run_id, {"amount": "0.004", "reason": "black"})
    assert chief.get("/books")["is_right"]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"reason": "more", "amount": "1"}, (409, "conflict", None)),
        ({"reason": "none", "amount": "0"}, (422, "invalid_input", "amount")),
        ({"reason": "much", "amount": "much"}, (422, "invalid_input", "amount")),
        ({"reason": ""}, (422, "invalid_input", "reason")),
        ({}, (422, "invalid_input", "reason")),
    ],
)
def test_refund_that_is_not_one_is_refused(
    client: Client, chief: Person, body: Mapping[str, str], refusal: tuple[int, str, str | None]
) -> None:
    """Nothing is given back."""
    run_id = ran(client)
    assert refusal_of(chief.ask("POST", f"/runs/{run_id}/refund", body)) == refusal
    assert chief.get(f"/runs/{run_id}")["charge"] == "0.01"


def test_runs_of_a_model_are_refunded_in_pages(new_client: NewClient, chief: Person) -> None:
    """A dry run says how much; then each page is booked, those of other workspaces are not."""
    client, other = new_client(), new_client()
    ids, untouched = [ran(client) for _ in range(3)], ran(other)
    wanted = {**_ALL, "workspace": client.workspace}
    dry = chief.ask("POST", "/refunds", {**wanted, "is_dry_run": True}).json()
    assert dry["totals"] == {"runs": 3, "amount": "0.03", "refunded_runs": 0, "refunded_amount": "0"}
    assert [one["run"] for one in dry["items"]] == ids
    first = chief.ask("POST", "/refunds?limit=2", {**wanted, "is_dry_run": False}).json()
    assert ([one["run"] for one in first["items"]], first["totals"], first["obstacles"]) == (ids[:2], None, {})
    query = f"/refunds?limit=2&cursor={first['next_cursor']}"
    second = chief.ask("POST", query, {**wanted, "is_dry_run": False}).json()
    assert ([one["run"] for one in second["items"]], second["next_cursor"]) == (ids[2:], None)
    assert chief.get(f"/runs/{untouched}")["charge"] == "0.01"
    after = chief.ask("POST", "/refunds", {**wanted, "is_dry_run": True}).json()
    assert (after["items"], after["totals"]["refunded_amount"]) == ([], "0.03")
    entries = chief.get("/audit-log", workspace=client.workspace, action="runs.refunded")["items"]
    assert sum(one["detail"]["runs"] for one in entries) == 3


def test_only_operators_give_money_back(client: Client, chief: Person) -> None:
    """Neither the owner of the workspace nor its key."""
    run_id = ran(client)
    for person in (invite(chief, client.workspace, "owner"), caller(client)):
        assert refusal_of(person.ask("POST", f"/runs/{run_id}/refund", {"reason": "black"}))[0] == 403
        assert refusal_of(person.ask("POST", "/refunds", {**_ALL, "is_dry_run": True}))[0] == 403


def test_command_refunds_what_it_has_shown(client: Client, chief: Person) -> None:
    """Without --yes nothing is booked; a command that is repeated books nothing more."""
    first, second = ran(client), ran(client)
    server, why = client.server, ("--reason", "black", "--json")
    assert server.cli("runs", "refund", first, *why)["is_dry_run"]
    assert chief.get(f"/runs/{first}")["charge"] == "0.01"
    assert server.cli("runs", "refund", first, *why, "--yes")["is_new"]
    assert not server.cli("runs", "refund", first, *why, "--yes")["is_new"]
    model = ("runs", "refund", "--model", "fake/json-1", "--from", "2020-01-01", "--workspace", client.workspace, *why)
    shown = server.cli(*model)
    assert (shown["runs"], shown["amount"], shown["refunded_runs"]) == (1, "0.01", 1)
    booked = server.cli(*model, "--yes")
    assert [one["run"] for one in booked["refunds"]] == [second]
    assert server.cli(*model, "--yes")["runs"] == 0
