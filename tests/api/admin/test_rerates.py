"""Re-rates over the administration API and by command: of a run, and of the runs of a model in pages (M-07)."""

from collections.abc import Mapping

import pytest

from api.admin.members import Person, refusal_of
from api.admin.test_runs import caller, invite
from api.queues import Client, NewClient
from fake_partner import FakePartner, reply
from servers import Server

pytestmark = pytest.mark.req("M-07", "A-01")

_MODEL = "fake/rated-1"
_ALL = {"model": _MODEL, "from": "2020-01-01", "reason": "wrong card"}


@pytest.fixture
def chief(queue: Server) -> Person:
    """Return the operator of the server of the queue."""
    return Person(queue, (queue.data / "first-operator-key").read_text("ascii").strip())


def ran(client: Client) -> str:
    """A run that has cost a cent; its id."""
    answer = client.run(_MODEL)
    assert answer.status_code == 200
    return answer.headers["x-service-request-id"]


def test_run_is_charged_by_another_card(client: Client, chief: Person) -> None:
    """The run, its timeline, its usage, the ledger and the audit log tell it; a repeat changes nothing."""
    run_id = ran(client)
    path, order = f"/runs/{run_id}/rerate", {"reason": "list price", "to_version": "fake-cheap"}
    dry = chief.ask("POST", path, {**order, "is_dry_run": True}).json()
    assert (dry["charge"], chief.get(f"/runs/{run_id}")["charge"]) == ("0.004", "0.01")
    first = chief.ask("POST", path, order).json()
    assert first == {
        "run": run_id, "workspace": client.workspace, "before": "0.01", "charge": "0.004",
        "rate_version": "fake-cheap", "at": first["at"], "is_new": True,
    }  # fmt: skip
    again = chief.ask("POST", path, order).json()
    assert again == {**first, "before": "0.004", "is_new": False}
    run = chief.get(f"/runs/{run_id}")
    assert (run["charge"], run["rate_version"]) == ("0.004", "fake-cheap")
    assert [one["kind"] for one in run["ledger"]] == ["hold", "post", "rerate"]
    (told,) = [one for one in run["timeline"] if one["kind"] == "re-rate"]
    assert told["detail"] == "0.006 US dollars less, by fake-cheap: list price"
    (row,) = caller(client).get("/usage", by="model")["items"]
    assert (row["runs"], row["charge"]) == (1, "0.004")
    (entry,) = chief.get("/audit-log", workspace=client.workspace, action="run.rerated")["items"]
    assert (entry["target"], entry["detail"]) == (
        run_id, {"before": "0.01", "charge": "0.004", "rate_version": "fake-cheap", "reason": "list price"},
    )  # fmt: skip
    assert chief.get("/books")["is_right"]


@pytest.mark.parametrize(
    ("body", "refusal", "why"),
    [
        ({"to_version": "fake-9"}, (409, "conflict", None), "no such rate card"),
        ({"to_version": "fake-by-length"}, (409, "conflict", None), "was not kept of it"),
        ({"to_version": ""}, (422, "invalid_input", "to_version"), ""),
        ({"reason": ""}, (422, "invalid_input", "reason"), ""),
    ],
)
def test_rerate_that_is_not_one_is_refused(
    client: Client, chief: Person, body: Mapping[str, str], refusal: tuple[int, str, str | None], why: str
) -> None:
    """The charge stays, and the answer says why."""
    run_id = ran(client)
    answer = chief.ask("POST", f"/runs/{run_id}/rerate", {"reason": "list price", **body})
    assert refusal_of(answer) == refusal
    assert why in answer.text
    assert chief.get(f"/runs/{run_id}")["charge"] == "0.01"


def test_run_costs_more_only_where_that_is_allowed(client: Client, chief: Person) -> None:
    """A word of the order allows it."""
    run_id = ran(client)
    path = f"/runs/{run_id}/rerate"
    assert chief.ask("POST", path, {"reason": "list price", "to_version": "fake-cheap"}).status_code == 200
    raised = {"reason": "list price", "to_version": "fake-raised"}
    assert refusal_of(chief.ask("POST", path, raised)) == (409, "conflict", None)
    assert chief.ask("POST", path, {**raised, "may_raise": True}).json()["charge"] == "0.006"
    (told, _) = [one for one in reversed(chief.get(f"/runs/{run_id}")["timeline"]) if one["kind"] == "re-rate"]
    assert told["detail"] == "0.002 US dollars more, by fake-raised: list price"


def test_what_the_provider_reported_is_priced_again(client: Client, chief: Person, partner: FakePartner) -> None:
    """Of a synchronous and of a queued run, neither of whose bodies and answers is kept."""
    partner.script("/json", reply(200, b'{"usage":{"units":3}}'))
    metered = "fake/metered-1"
    synchronous = client.run(metered, {"units": 5}).headers["x-service-request-id"]
    queued = client.queue(metered, {"units": 5})
    client.wait_for_completion(queued, metered)
    for run_id in (synchronous, queued):
        told = chief.ask("POST", f"/runs/{run_id}/rerate", {"reason": "list price", "to_version": "fake-cheap"}).json()
        assert (told["before"], told["charge"]) == ("0.015", "0.006")


def test_runs_of_a_model_are_rerated_in_pages(new_client: NewClient, chief: Person) -> None:
    """A dry run says how; then each page is booked, those of other workspaces are not."""
    client, other = new_client(), new_client()
    ids, untouched = [ran(client) for _ in range(3)], ran(other)
    wanted = {**_ALL, "workspace": client.workspace, "to_version": "fake-cheap"}
    dry = chief.ask("POST", "/rerates", {**wanted, "is_dry_run": True}).json()
    assert [(one["run"], one["charge"]) for one in dry["items"]] == [(id_, "0.004") for id_ in ids]
    first = chief.ask("POST", "/rerates?limit=2", {**wanted, "is_dry_run": False}).json()
    assert ([one["run"] for one in first["items"]], first["obstacles"]) == (ids[:2], {})
    query = f"/rerates?limit=2&cursor={first['next_cursor']}"
    second = chief.ask("POST", query, {**wanted, "is_dry_run": False}).json()
    assert ([one["run"] for one in second["items"]], second["next_cursor"]) == (ids[2:], None)
    assert chief.get(f"/runs/{untouched}")["charge"] == "0.01"
    lacking = chief.ask("POST", "/rerates", {**wanted, "to_version": "fake-by-length", "is_dry_run": True}).json()
    assert (lacking["items"], lacking["obstacles"]) == ([], dict.fromkeys(ids, "not_known"))
    (entry, _) = chief.get("/audit-log", workspace=client.workspace, action="runs.rerated")["items"]
    assert (entry["detail"]["runs"], entry["detail"]["before"], entry["detail"]["charge"]) == (1, "0.01", "0.004")


def test_only_operators_rerate(client: Client, chief: Person) -> None:
    """Neither the owner of the workspace nor its key."""
    run_id = ran(client)
    for person in (invite(chief, client.workspace, "owner"), caller(client)):
        assert refusal_of(person.ask("POST", f"/runs/{run_id}/rerate", {"reason": "mine"}))[0] == 403
        assert refusal_of(person.ask("POST", "/rerates", {**_ALL, "is_dry_run": True}))[0] == 403


def test_command_books_what_it_has_shown(client: Client, chief: Person) -> None:
    """Without --yes nothing is booked; the ledger as a file has the kind and the card."""
    first, second = ran(client), ran(client)
    server, why = client.server, ("--reason", "wrong card", "--to-version", "fake-cheap", "--json")
    assert server.cli("runs", "rerate", first, *why)["is_dry_run"]
    assert chief.get(f"/runs/{first}")["charge"] == "0.01"
    assert server.cli("runs", "rerate", first, *why, "--yes")["is_new"]
    assert not server.cli("runs", "rerate", first, *why, "--yes")["is_new"]
    model = ("runs", "rerate", "--model", _MODEL, "--from", "2020-01-01", "--workspace", client.workspace, *why)
    shown = server.cli(*model)
    assert (shown["runs"], shown["before"], shown["charge"], shown["obstacles"]) == (1, "0.01", "0.004", {})
    booked = server.cli(*model, "--yes")
    assert [(one["run"], one["rate_version"]) for one in booked["rerates"]] == [(second, "fake-cheap")]
    assert server.cli(*model, "--yes")["runs"] == 0
    lacking = ("--reason", "by length", "--to-version", "fake-by-length", "--json")
    assert server.cli(*model[:-5], *lacking)["obstacles"] == {"not_known": 2}
    entries = chief.get(f"/workspaces/{client.workspace}/ledger")["items"]
    rows = [(one["run"], one["rate_version"]) for one in entries if one["kind"] == "rerate"]
    assert rows == [(second, "fake-cheap"), (first, "fake-cheap")]
