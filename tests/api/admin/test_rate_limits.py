"""Limits of requests of keys and of models: who sets them, and whom they refuse (A-03)."""

import httpx
import pytest

from api.admin.members import Person, refusal_of
from api.admin.test_runs import invite
from api.queues import Client, NewClient
from servers import Server, wait_until

pytestmark = pytest.mark.req("A-03")


@pytest.fixture
def chief(queue: Server) -> Person:
    """Return the operator of the server of the queue."""
    return Person(queue, (queue.data / "first-operator-key").read_text("ascii").strip())


def limit(chief: Person, client: Client, scope: str, subject: str, per_minute: int = 1) -> str:
    """Set a limit, and return its id."""
    body = {"scope": scope, "subject": subject, "per_minute": per_minute}
    made = chief.ask("POST", f"/workspaces/{client.workspace}/rate-limits", body)
    assert made.status_code == 201, made.text
    id_: str = made.json()["id"]
    return id_


def is_refused_soon(client: Client, path: str, method: str = "GET") -> httpx.Response:
    """Ask until an answer is 429: the minute may turn meanwhile, and a limit is noticed within a second."""
    answers: list[httpx.Response] = []

    def is_refused() -> bool:
        answers.append(client.request(method, path, **({"json": {}} if method == "POST" else {})))
        return answers[-1].status_code == 429

    wait_until(is_refused, "the limit refuses", 60, 0.05)
    return answers[-1]


def test_limit_of_a_key_refuses_its_requests_only(new_client: NewClient, chief: Person) -> None:
    """Another key of the workspace goes on."""
    client = new_client()
    second = Client(
        client.server, client.workspace, client.server.cli("keys", "create", client.workspace, "--json")["key"]
    )
    (first_id, _) = sorted(
        row["id"] for row in client.server.cli("keys", "list", "--json") if row["workspace"] == client.workspace
    )
    limit(chief, client, "key", first_id)
    answer = is_refused_soon(client, "/v2/models")
    assert answer.json()["error_type"] == "rate_limited"
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert {second.request("GET", "/v2/models").status_code for _ in range(4)} == {200}


@pytest.mark.parametrize("path", ["/v2/models/fake/json-1", "/v2/models/fake/json-1/requests"])
def test_limit_of_a_model_refuses_its_runs_only(client: Client, chief: Person, path: str) -> None:
    """Runs of the model are refused for every key, synchronous and queued ones; those of others are not."""
    limit(chief, client, "model", "fake/json-1")
    answer = is_refused_soon(client, path, "POST")
    assert answer.json()["error_type"] == "rate_limited"
    assert client.run("fake/free-1").status_code == 200
    assert client.request("GET", "/v2/models").status_code == 200
    client.server.cli("audit")


def test_limit_is_set_again_listed_and_deleted(client: Client, chief: Person) -> None:
    """A subject has one limit; a deleted one refuses nothing."""
    path = f"/workspaces/{client.workspace}/rate-limits"
    id_ = limit(chief, client, "model", "fake/json-1", 1)
    assert limit(chief, client, "model", "fake/json-1", 7) == id_
    limit(chief, client, "model", "fake/free-1", 9)
    first = chief.get(path, limit="1")
    second = chief.get(path, limit="1", cursor=first["next_cursor"])
    found = [(one["subject"], one["per_minute"]) for one in (*first["items"], *second["items"])]
    assert found == [("fake/free-1", 9), ("fake/json-1", 7)]
    assert chief.ask("DELETE", f"{path}/{id_}").status_code == 204
    assert refusal_of(chief.ask("DELETE", f"{path}/{id_}"))[:2] == (404, "not_found")
    acts = [one["action"] for one in chief.get("/audit-log", workspace=client.workspace)["items"]]
    assert acts[:2] == ["rate_limit.deleted", "rate_limit.set"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scope": "model", "subject": "nothing", "per_minute": 1}, "subject"),
        ({"scope": "key", "subject": "nothing", "per_minute": 1}, "subject"),
        ({"scope": "team", "subject": "x", "per_minute": 1}, "scope"),
        ({"scope": "model", "subject": "fake/json-1", "per_minute": 0}, "per_minute"),
    ],
)
def test_bad_field_of_a_limit_is_named(client: Client, chief: Person, body: dict[str, object], field: str) -> None:
    """Nothing is set."""
    answer = chief.ask("POST", f"/workspaces/{client.workspace}/rate-limits", body)
    assert refusal_of(answer) == (422, "invalid_input", field)


def test_member_does_not_set_limits(client: Client, chief: Person) -> None:
    """Those who may read the workspace see them; owners set them."""
    member, path = invite(chief, client.workspace, "member"), f"/workspaces/{client.workspace}/rate-limits"
    assert member.get(path)["items"] == []
    body = {"scope": "model", "subject": "fake/json-1", "per_minute": 1}
    assert refusal_of(member.ask("POST", path, body))[:2] == (403, "forbidden")
