"""Money over the administration API: ledger, export, statement, usage, books (A-01, A-02)."""

import csv
import datetime
import io
import json

import httpx
import pytest

from api.admin.members import PATH, Person, refusal_of
from api.admin.test_runs import caller, invite
from api.queues import Client, NewClient
from conftest import Run
from databases import opened_database
from fairlead.domain.days import first_id, start_of
from fairlead.storage.runs.entries import write_entries
from servers import Server
from storage.bookings import admission, settlement


@pytest.fixture
def chief(queue: Server) -> Person:
    """Return the operator of the server of the queue."""
    return Person(queue, (queue.data / "first-operator-key").read_text("ascii").strip())


@pytest.fixture
def spent(client: Client) -> Client:
    """Return a caller three of whose runs have cost a cent each, out of two dollars that were paid in."""
    client.server.cli("workspaces", "credit", client.workspace, "2", "--reason", "invoice 1")
    for _ in range(3):
        assert client.run().status_code == 200
    return client


@pytest.mark.req("A-01")
def test_ledger_is_paged_and_exported(spent: Client, chief: Person) -> None:
    """Pages have every entry once, the newest first; a file has the same, the oldest first."""
    path, found = f"/workspaces/{spent.workspace}/ledger", []
    page = chief.get(path, limit="3")
    while page["next_cursor"] is not None:
        found += page["items"]
        page = chief.get(path, limit="3", cursor=page["next_cursor"])
    found += page["items"]
    assert [one["kind"] for one in found] == [*["post", "hold"] * 3, "credit"]
    assert (found[0]["balance_change"], found[0]["model"]) == ("-0.01", "fake/json-1")
    lines = chief.ask("GET", f"{path}/export?format=jsonl").text.splitlines()
    assert [json.loads(line) for line in lines] == found[::-1]
    table = chief.ask("GET", f"{path}/export")
    assert table.headers["content-disposition"] == f'attachment; filename="ledger-{spent.workspace}.csv"'
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["id"] for row in rows] == [str(one["id"]) for one in found[::-1]]
    assert chief.get(path, to="2020-01-01")["items"] == []
    assert refusal_of(chief.ask("GET", f"{path}/export?format=xml")) == (422, "invalid_input", "format")


@pytest.mark.req("A-01")
def test_statement_of_a_month_adds_up(spent: Client, chief: Person) -> None:
    """What was there, what was paid in and what was spent make what is left."""
    viewer = invite(chief, spent.workspace, "viewer")
    told = viewer.get(f"/workspaces/{spent.workspace}/statement")
    assert (told["opening_balance"], told["credited"], told["charged"], told["closing_balance"]) == (
        "0", "2", "0.03", "1.97",
    )  # fmt: skip
    assert [(one["amount"], one["reason"]) for one in told["credits"]] == [("2", "invoice 1")]
    assert [(one["model"], one["runs"], one["charge"]) for one in told["spending"]] == [("fake/json-1", 3, "0.03")]
    refusal = viewer.ask("GET", f"/workspaces/{spent.workspace}/statement?month=2026-13")
    assert refusal_of(refusal) == (422, "invalid_input", "month")


@pytest.mark.req("M-06", "A-01")
def test_archives_are_listed_and_told(spent: Client, chief: Person, run: Run) -> None:
    """Operators see every archive; the ledger says before which time entries of what was asked for are archived."""
    server, path = spent.server, f"/workspaces/{spent.workspace}/ledger"
    assert chief.get(path)["archived_before"] is None
    id_ = chief.get(f"/workspaces/{spent.workspace}")["id"]
    at = start_of(datetime.date(2020, 8, 10))
    old = f"{first_id(at)}-7000-8000-{id_[-12:]}"

    async def add() -> None:
        async with opened_database(server.database or f"sqlite:///{server.data / 'fairlead.db'}") as database:
            await database.write(lambda c: write_entries(c, [admission(old, workspace_id=id_, created_at=at)]))
            end = settlement(old, workspace_id=id_, finished_at=at + 9, booked=None)
            await database.write(lambda c: write_entries(c, [end]))

    run(add())
    assert spent.run().status_code == 200, "whose entry is the newest"
    made = server.cli("archive", "--before", "2020-09-01", "--json")
    (one,) = chief.get("/archives", limit="1")["items"]
    assert (one["runs"], one["entries"], one["before"], one["first_run"]) == (1, 2, "2020-09-01T00:00:00.000Z", old)
    assert one["sha256"] == made["archives"][0]["digest"]
    assert chief.get(path)["archived_before"] == one["before"]
    assert chief.get(path, **{"from": "2020-09-01"})["archived_before"] is None
    assert chief.get("/books")["is_right"]
    assert refusal_of(invite(chief, spent.workspace, "owner").ask("GET", "/archives"))[0] == 403


@pytest.mark.req("A-02")
def test_caller_sees_its_own_usage(spent: Client, new_client: NewClient, chief: Person) -> None:
    """An API key sees what it has used, an operator what all have; what is told apart is asked for."""
    other = new_client()
    assert other.run().status_code == 200
    (row,) = caller(spent).get("/usage", by="workspace,model")["items"]
    assert row == {
        "workspace": spent.workspace, "model": "fake/json-1", "runs": 3, "succeeded": 3, "charge": "0.03",
    }  # fmt: skip
    names = {row["workspace"] for row in chief.get("/usage", by="workspace")["items"]}
    assert {spent.workspace, other.workspace} <= names
    key = chief.get("/usage", workspace=spent.workspace, by="key,day")["items"][0]
    assert (key["key"]["hint"][:4], key["runs"]) == ("flk_", 3)
    for query, field in (("from=never", "from"), ("by=colour", "by"), ("from=2020-01-01", "from")):
        assert refusal_of(chief.ask("GET", f"/usage?{query}")) == (422, "invalid_input", field)


def test_api_key_sees_no_ledger(spent: Client, chief: Person) -> None:
    """The ledger and the books are for people."""
    for path in (f"/workspaces/{spent.workspace}/ledger", f"/workspaces/{spent.workspace}/statement", "/books"):
        assert refusal_of(caller(spent).ask("GET", path))[:2] == (403, "forbidden")
    anonymous = httpx.get(f"{spent.server.url}{PATH}/books")
    assert refusal_of(anonymous)[:2] == (401, "unauthorized")
    books = chief.get("/books")
    assert (books["is_right"], books["disagreements"]) == (True, [])
