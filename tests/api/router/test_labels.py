"""Labels of runs: given in a header, shown with the run, found by them, and in the ledger (M-07)."""

import csv
import io
import json
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from api.admin.members import Person, refusal_of
from api.queues import Client, NewClient
from servers import Server

pytestmark = pytest.mark.req("M-07")

_LABELS = "X-Fairlead-Labels"


@pytest.fixture
def chief(queue: Server) -> Person:
    """Return the operator of the server of the queue."""
    return Person(queue, (queue.data / "first-operator-key").read_text("ascii").strip())


def labelled(client: Client, labels: str, **more: Any) -> str:
    """Run with labels; the id of the run."""
    answer = client.run(headers={_LABELS: labels, **more})
    assert answer.status_code == 200, answer.text
    run_id: str = answer.headers["x-service-request-id"]
    return run_id


def test_usage_is_told_by_label(client: Client, chief: Person) -> None:
    """To the workspace and to its people; not to an API key of the administration, which sees only its own."""
    labelled(client, "client=acme,project=spring")
    labelled(client, "client=acme")
    client.run()
    acme = {"name": "client", "value": "acme"}
    key = {"X-API-Key": client.key}
    told = httpx.get(f"{client.server.url}/v2/usage?group_by=day,label:client", headers=key, timeout=60).json()
    assert told["group_by"] == ["day", "label:client"]
    assert [(row["label"], row["runs"]) for row in told["data"]] == [(acme, 2), (None, 1)]
    assert told["total"]["runs"] == 3
    (one,) = httpx.get(f"{client.server.url}/v2/usage?label=project=spring", headers=key, timeout=60).json()["data"]
    assert (one["runs"], one.keys()) == (1, {"day", "runs", "succeeded", "failed", "amount", "credits"})
    items = chief.get("/usage", workspace=client.workspace, by="label:client,workspace")["items"]
    assert [(row["label"], row["workspace"], row["charge"]) for row in items] == [
        (acme, client.workspace, "0.02"),
        (None, client.workspace, "0.01"),
    ]
    for by, label, field in (("label:client,key", None, "by"), ("day", "client", "label")):
        query = {"by": by} | ({"label": label} if label else {})
        assert refusal_of(chief.ask("GET", f"/usage?{urlencode(query)}")) == (422, "invalid_input", field)
    own = Person(client.server, client.key)
    assert refusal_of(own.ask("GET", "/usage?by=label:client")) == (422, "invalid_input", "by")


def test_budget_of_a_label_refuses_its_runs(client: Client, chief: Person) -> None:
    """Runs that carry the label, synchronous and queued, and no others."""
    path = f"/workspaces/{client.workspace}/budgets"
    made = chief.ask("POST", path, {"scope": "label", "subject": "client=acme", "limit": "0.015"})
    assert made.status_code == 201, made.text
    labelled(client, "client=acme,project=spring")
    refused = client.run(headers={_LABELS: "client=acme"})
    assert (refused.status_code, refused.json()["error_type"]) == (402, "insufficient_credits")
    assert "the budget of the label client=acme is 0.015 a month, of which 0.01 are spent" in refused.json()["detail"]
    assert client.submit(headers={_LABELS: "client=acme"}).status_code == 402
    labelled(client, "client=other")
    assert client.run().status_code == 200
    (budget,) = chief.get(path)["items"]
    assert (budget["spent"], budget["held"]) == ("0.01", "0")


def test_runs_are_found_by_their_labels(client: Client, chief: Person) -> None:
    """All labels that are asked for must fit, letter for letter; a value may have any character."""
    spring = labelled(client, "client=acme, project=Spring%2C%20Caf%C3%A9 %22x%22")
    autumn = labelled(client, "client=acme,project=autumn")
    plain = client.run().headers["x-service-request-id"]
    assert chief.get(f"/runs/{spring}")["labels"] == {"client": "acme", "project": 'Spring, Café "x"'}
    assert chief.get(f"/runs/{plain}")["labels"] == {}
    for query, wanted in (
        (["client=acme"], [autumn, spring]),
        (["client=acme", "project=autumn"], [autumn]),
        (['project=Spring, Café "x"'], [spring]),
        (["client=Acme"], []),
        (["client=acm"], []),
        (["lient=acme"], []),
        (["client=other"], []),
    ):
        found = chief.ask("GET", "/runs", params={"workspace": client.workspace, "label": query}).json()["items"]
        assert [one["id"] for one in found] == wanted, query
    refused = chief.ask("GET", "/runs", params={"label": "client"})
    assert refusal_of(refused) == (422, "invalid_input", "label")


def test_queued_run_has_its_labels(client: Client, chief: Person) -> None:
    """As a synchronous one; they are in the row from its admission on."""
    run_id = client.queue(headers={_LABELS: "client=acme"})
    assert chief.get(f"/runs/{run_id}")["labels"] == {"client": "acme"}
    client.wait_for_completion(run_id)


def test_ledger_and_its_exports_have_the_labels(client: Client, chief: Person) -> None:
    """Of each entry of the run, over HTTP and by command."""
    labelled(client, "project=spring,client=acme")
    told = '{"client":"acme","project":"spring"}'
    path = f"/workspaces/{client.workspace}/ledger"
    assert {one["labels"] for one in chief.get(path)["items"] if one["run"]} == {told}
    rows = list(csv.DictReader(io.StringIO(chief.ask("GET", f"{path}/export").text)))
    assert {row["labels"] for row in rows if row["run"]} == {told}
    lines = [json.loads(line) for line in chief.ask("GET", "/ledger/export?format=jsonl").text.splitlines()]
    assert told in {line["labels"] for line in lines if line["workspace"] == client.workspace}


@pytest.mark.parametrize(
    "labels",
    [
        "client",
        "=acme",
        "a b=c",
        "client=acme,client=other",
        ",".join(f"l{number}=x" for number in range(9)),
        f"{'n' * 41}=x",
        f"client={'v' * 257}",
        "client=%00",
        f"client={'v' * 5000}",
    ],
    ids=["no value", "no name", "bad name", "twice", "nine", "long name", "long value", "control", "too long"],
)
def test_labels_that_break_a_rule_are_refused(new_client: NewClient, labels: str, chief: Person) -> None:
    """Before anything is admitted, on both kinds of runs."""
    client = new_client()
    for path in ("", "/requests"):
        headers = {_LABELS: labels}
        answer = client.request("POST", f"/v2/models/fake/json-1{path}", json={"prompt": "x"}, headers=headers)
        assert (answer.status_code, answer.headers["x-service-error-type"]) == (400, "invalid_input")
        assert "X-Fairlead-Labels" in answer.json()["detail"]
    assert chief.get("/runs", workspace=client.workspace)["items"] == []
