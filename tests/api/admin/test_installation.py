"""Models, providers and settings over the administration API: who sees them, and no secret among them (A-01)."""

from functools import partial
from typing import Any

import pytest

from api.admin.members import Person, refusal_of
from api.admin.test_runs import caller
from api.legs import NATIVE
from api.queues import TIRED, NewClient
from conftest import Run
from fairlead.storage.db.opening import open_database
from fairlead.storage.verifications import Verification, write_verification
from fake_partner import SECRET, FakePartner, reply
from servers import Server, database_url, wait_until

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


def test_cautions_of_prices_are_told(chief: Person, queue: Server) -> None:
    """A model whose prices are past their end says so in the list, in full, among the prices, and in a metric."""
    (listed,) = chief.get("/models", q="fake/stale-1")["items"]
    shown = chief.get("/models/fake/stale-1")
    page = chief.get("/prices", limit="200")
    priced = page["items"]
    while page["next_cursor"]:
        page = chief.get("/prices", limit="200", cursor=page["next_cursor"])
        priced += page["items"]
    (price,) = [one for one in priced if one["model"] == "fake/stale-1"]
    assert (price["stale_after"], price["check_by"]) == ("2026-01-31", None)
    assert [one["cautions"] for one in (listed, shown, shown["providers"][0], price)] == [["stale"]] * 4
    assert chief.get("/models/fake/json-1")["cautions"] == []
    for caution in ("stale", "overdue", "derived"):
        number = sum(caution in one["cautions"] for one in priced)
        assert queue.metric("fairlead_rate_cards_cautioned", caution=caution) == number


def test_model_says_when_it_was_last_verified_at_its_vendor(chief: Person, queue: Server, run: Run) -> None:
    """By which version and where; one that never was claims nothing."""
    model_id, told = (
        "fake/json-1",
        {"at": "1970-01-01T00:00:01.000Z", "version": "9.9", "address": "https://fake.example"},
    )
    assert chief.get(f"/models/{model_id}")["verified"] is None
    verification = Verification(model_id, "fake", 1000, "9.9", "https://fake.example", "run-1", 5)

    async def record() -> None:
        database = open_database(database_url(queue.data, queue.database))
        await database.write(partial(write_verification, verification=verification))
        await database.close()

    run(record())
    (listed,) = chief.get("/models", q=model_id)["items"]
    shown = chief.get(f"/models/{model_id}")
    assert listed["verified"] == shown["verified"] == shown["providers"][0]["verified"] == told
    assert [one["verified"] for one in shown["providers"][1:]] == [None] * (len(shown["providers"]) - 1)


def test_key_sees_the_models_of_its_workspace(new_client: NewClient) -> None:
    """What a workspace is not entitled to is not there for its key, and prices have the workspace's own markup."""
    client = new_client("--models", "fake/json-1", "--markup", "-10")
    person = caller(client)
    (listed,) = person.get("/models", limit="200")["items"]
    assert (listed["id"], listed["prices"]) == ("fake/json-1", ["0.009 per run"])
    assert person.get("/models/fake/json-1")["providers"][0]["prices"] == listed["prices"]
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


@pytest.mark.req("T-01", "T-02")
def test_partner_that_fails_for_one_workspace_is_told_with_it(
    chief: Person, new_client: NewClient, partner: FakePartner
) -> None:
    """Its runs wait or are refused, and say why; another's succeed; operators see for whom, and may end it."""
    one, other = new_client(), new_client()
    assert other.run(TIRED).status_code == 200
    partner.script(NATIVE, *[reply(503)] * 5, reply(200, b"{}"))
    assert [one.run(TIRED).status_code for _ in range(6)] == [502] * 5 + [503]
    assert other.run(TIRED).status_code == 200
    waiting = one.queue(TIRED)
    wait_until(lambda: "detail" in one.stands(waiting, TIRED), "the run to wait for its partner")
    status = one.stands(waiting, TIRED)
    assert status["status"] == "IN_QUEUE"
    assert status["detail"].startswith("The provider tired could not take it yet; it is tried again after 20")
    kinds = {entry["kind"]: entry["detail"] for entry in chief.get(f"/runs/{waiting}")["timeline"]}
    assert kinds["postponed"].startswith("tired: cooling down; it is tried again after ")
    assert one.cancel(waiting, TIRED).status_code == 202

    def shown() -> Any:
        (found,) = (one for one in chief.get("/providers")["items"] if one["name"] == "tired")
        return found

    (credential,) = shown()["credentials"]
    assert (shown()["state"], credential["state"]) == ("ready", "ready")
    told = [(each["workspace"], each["reason"]) for each in credential["workspaces"]]
    assert told == [(one.workspace, "answered 503")]
    assert chief.ask("POST", "/providers/tired/end-cooldowns").status_code == 200
    assert shown()["credentials"][0]["workspaces"] == []
    assert one.run(TIRED).status_code == 200


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
