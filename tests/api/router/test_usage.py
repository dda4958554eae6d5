"""What a workspace has used, over HTTP; and keys that may spend so much and no more."""

import datetime
from typing import Any

import httpx
import pytest

from api.conftest import MakeToken, NewName
from servers import Server


def ask(server: Server, key: str, query: str = "") -> httpx.Response:
    """Ask for the usage of a key's workspace."""
    return httpx.get(f"{server.url}/v2/usage{query}", headers={"X-API-Key": key}, timeout=60)


def make(server: Server, key: str, model: str = "json-1") -> httpx.Response:
    """Run a model with a key."""
    return httpx.post(f"{server.url}/v2/models/fake/{model}", headers={"X-API-Key": key}, json={}, timeout=60)


def key_row(server: Server, workspace: str) -> dict[str, Any]:
    """Return what is listed of the one key of a workspace."""
    (row,) = [row for row in server.cli("keys", "list", "--json") if row["workspace"] == workspace]
    return dict(row)


def test_usage_is_what_was_charged(router: Server, new_name: NewName, token: MakeToken) -> None:
    """Runs of a key and of a token, by day, model and key; amounts in dollars and credits, as text."""
    name = new_name()
    key = router.new_workspace(name)
    assert make(router, key).status_code == make(router, key).status_code == 200
    bearer = {"Authorization": f"Bearer {token(name)}"}
    assert httpx.post(f"{router.url}/v2/models/fake/json-1", headers=bearer, json={}, timeout=60).status_code == 200
    answer = ask(router, key)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "no-store"
    told = answer.json()
    today = datetime.datetime.now(datetime.UTC).date()
    assert (told["to"], told["group_by"]) == (today.isoformat(), ["day", "model", "key"])
    assert told["from"] == (today - datetime.timedelta(days=29)).isoformat()
    row = key_row(router, name)
    used = {"id": row["id"], "label": "", "hint": row["hint"]}
    assert [(one["model"], one["key"], one["runs"], one["succeeded"], one["failed"]) for one in told["data"]] == [
        ("fake/json-1", None, 1, 1, 0),
        ("fake/json-1", used, 2, 2, 0),
    ]
    assert all(one["day"] <= today.isoformat() for one in told["data"])
    charged = router.workspace(name)["balance"].removeprefix("-")
    assert (told["total"]["amount"], told["total"]["runs"]) == (charged, 3)
    # The same with the token, whose workspace it is.
    assert httpx.get(f"{router.url}/v2/usage", headers=bearer, timeout=60).json() == told


def test_usage_names_only_its_groups(router: Server, new_name: NewName) -> None:
    """Only what is grouped by is named."""
    key = router.new_workspace(new_name())
    make(router, key)
    by_model = ask(router, key, "?group_by=model").json()
    (row,) = by_model["data"]
    assert row.keys() == {"model", "runs", "succeeded", "failed", "amount", "credits"}
    assert by_model["total"] == {name: row[name] for name in row.keys() - {"model"}}
    assert ask(router, key, "?group_by=key,day").json()["group_by"] == ["day", "key"]
    assert ask(router, key, "?from=2020-01-01&to=2020-12-31").json()["data"] == []


def test_usage_is_of_the_workspace_alone(router: Server, new_name: NewName) -> None:
    """A workspace that used nothing is told nothing, whatever others have used."""
    make(router, router.new_workspace(new_name()))
    told = ask(router, router.new_workspace(new_name())).json()
    assert told["data"] == []
    assert told["total"] == {"runs": 0, "succeeded": 0, "failed": 0, "amount": "0", "credits": "0"}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?from=yesterday", "from must be a date"),
        ("?to=2026-02-30", "to must be a date"),
        ("?from=2026-02-02&to=2026-02-01", "is after"),
        ("?from=2024-01-01&to=2026-02-01", "366 days"),
        ("?group_by=", "group_by must be some of day, model, key"),
        ("?group_by=day,hour", "group_by must be"),
        ("?from=%ff", "malformed"),
    ],
)
def test_malformed_usage_query_is_refused(router: Server, query: str, words: str) -> None:
    """What cannot be asked is refused with the way to ask it."""
    answer = ask(router, router.key, query)
    assert (answer.status_code, answer.json()["error_type"]) == (400, "invalid_input")
    assert words in answer.json()["detail"]


def test_usage_needs_a_credential(router: Server, new_name: NewName) -> None:
    """Nobody is told anything; nor is a workspace without the router; and the first generation has no usage."""
    assert httpx.get(f"{router.url}/v2/usage", timeout=60).status_code == 401
    key = router.new_workspace(new_name(), "--gate", "router=off")
    assert ask(router, key).json()["error_type"] == "not_enabled"
    assert httpx.get(f"{router.url}/v1/usage", timeout=60).status_code == 404
    assert router.client.post("/v2/usage").status_code == 405


def test_key_never_spends_more_than_its_budget(router: Server, new_name: NewName) -> None:
    """A key is refused what its budget does not cover, though its workspace could pay; and told why."""
    name = new_name()
    router.cli("workspaces", "create", name)
    made = router.cli("keys", "create", name, "--budget", "0.025", "--budget-period", "total", "--json")
    price = float(ask_price(router, made["key"]))
    runs = int(0.025 / price)
    assert runs > 0
    for _ in range(runs):
        assert make(router, made["key"]).status_code == 200
    refused = make(router, made["key"])
    assert (refused.status_code, refused.json()["error_type"]) == (402, "insufficient_credits")
    assert "the budget of this API key is 0.025 in all, of which" in refused.json()["detail"]
    row = key_row(router, name)
    assert float(row["spent"]) == pytest.approx(runs * price)
    assert row["held"] == "0"
    router.cli("keys", "set", made["id"], "--budget", "none")
    assert make(router, made["key"]).status_code == 200


def ask_price(server: Server, key: str) -> str:
    """Return what a run costs, in dollars."""
    answer = httpx.post(f"{server.url}/v2/models/fake/json-1/estimate", headers={"X-API-Key": key}, json={}, timeout=60)
    return str(answer.json()["amount"])
