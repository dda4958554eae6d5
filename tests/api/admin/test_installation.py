"""Models, providers and settings over the administration API: who sees them, and no secret among them (A-01)."""

import pytest

from api.admin.members import Person, refusal_of
from api.admin.test_runs import caller
from api.queues import NewClient
from fake_partner import SECRET
from servers import Server

pytestmark = pytest.mark.req("A-01")


@pytest.fixture
def chief(queue: Server) -> Person:
    """Return the operator of the server of the queue."""
    return Person(queue, (queue.data / "first-operator-key").read_text("ascii").strip())


def test_models_are_listed_searched_and_shown(chief: Person) -> None:
    """By id, in pages; one in full has those who serve it, prices and its schema."""
    first = chief.get("/models", limit="2", provider="fake")
    second = chief.get("/models", limit="200", provider="fake", cursor=first["next_cursor"])
    ids = [one["id"] for one in (*first["items"], *second["items"])]
    assert ids == sorted(ids)
    assert {"fake/json-1", "fake/metered-1"} <= set(ids)
    assert chief.get("/models", q="no such words")["items"] == []
    model = chief.get("/models/fake/json-1")
    assert (model["provider"], model["is_configured"]) == ("fake", True)
    assert model["prices"]
    assert model["providers"][0]["is_native"] is True
    assert refusal_of(chief.ask("GET", "/models/fake/none-1"))[:2] == (404, "not_found")


def test_key_sees_the_models_of_its_workspace(new_client: NewClient) -> None:
    """What a workspace is not entitled to is not there for its key."""
    client = new_client("--models", "fake/json-1")
    person = caller(client)
    assert [one["id"] for one in person.get("/models", limit="200")["items"]] == ["fake/json-1"]
    assert refusal_of(person.ask("GET", "/models/fake/free-1"))[:2] == (404, "not_found")


def test_provider_is_told_with_its_health(chief: Person, new_client: NewClient) -> None:
    """Which can be called, what has yet to be set; they are for operators."""
    providers = {one["name"]: one for one in chief.get("/providers")["items"]}
    assert (providers["fake"]["state"], providers["fake"]["is_configured"]) == ("ready", True)
    assert providers["fake"]["models"] > 0
    lockbox = providers["lockbox"]
    assert (lockbox["state"], lockbox["is_configured"]) == ("not_configured", False)
    assert lockbox["missing_settings"]
    for path in ("/providers", "/settings"):
        assert refusal_of(caller(new_client()).ask("GET", path))[:2] == (403, "forbidden")


def test_settings_are_told_without_secrets(chief: Person) -> None:
    """Each with its value, its default and its sentence; of a secret only that it is set."""
    page = chief.ask("GET", "/settings")
    settings = {one["name"]: one for one in page.json()["items"]}
    assert settings["FAIRLEAD_QUEUE_BACKLOG"]["value"] == "12"
    assert settings["FAIRLEAD_QUEUE_BACKLOG"]["default"] == "10000"
    secret = settings["FAIRLEAD_JWT_SECRET"]
    assert (secret["value"], secret["is_set"], secret["is_secret"]) == (None, True, True)
    assert settings["FAIRLEAD_DATABASE"]["value"] is None
    for text in (SECRET, "a shared secret of the tests"):
        assert text not in page.text
