"""The upkeep of an installation over HTTP: secrets rotated, stored files audited, the catalog read again (A-01)."""

from collections.abc import Iterator
from typing import Any

import pytest

from api.admin.members import Person, refusal_of
from damage import blob_files, flip
from fake_partner import CatalogFolder, FakePartner, reply
from servers import Server, serving, wait_until

pytestmark = pytest.mark.req("A-01")


@pytest.fixture(scope="module")
def catalog(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    """Return a catalog that these tests spoil and mend."""
    folder = CatalogFolder(tmp_path_factory.mktemp("upkeep") / "catalog")
    folder.add_provider(shared_partner.url)
    folder.add_model("fake/json-1")
    return folder


@pytest.fixture(scope="module")
def kept(catalog: CatalogFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server whose secret and whose files are these tests' own, with a key of its workspace's at `fake`."""
    data = tmp_path_factory.mktemp("upkeep") / "data"
    with serving(data, catalog=catalog.path, arguments=("--no-local-partner",)) as server:
        stored = server.client.put("/v2/provider-keys/fake", json={"key": "sk-a-key-that-is-sealed"})
        assert stored.status_code == 201, stored.text
        yield server


@pytest.fixture(scope="module")
def chief(kept: Server) -> Person:
    """Return its operator."""
    return Person(kept, (kept.data / "first-operator-key").read_text("ascii").strip())


def test_secret_is_rotated_and_the_one_before_forgotten(kept: Server, chief: Person) -> None:
    """As the commands do it: announced, made current, and forgotten only when it may be; no answer has a secret."""
    (first,) = chief.get("/secrets")["items"]
    assert (first["state"], first["sealed"]) == ("current", 1)
    prepared = chief.ask("POST", "/secrets/rotate", {"is_only_prepared": True}).json()
    assert prepared["state"] == "next"
    done = chief.ask("POST", "/secrets/rotate", {}).json()
    assert done == {"name": prepared["name"], "state": "current", "resealed": 1, "unreadable": 0}
    assert [one["state"] for one in chief.get("/secrets")["items"]] == ["current", "former"]
    assert chief.ask("POST", "/secrets/reseal").json() == {"current": done["name"], "resealed": 0, "unreadable": 0}
    early = chief.ask("POST", "/secrets/finish", {})
    assert refusal_of(early) == (409, "conflict", None)
    assert "hours" in early.json()["error"]["message"]
    assert chief.ask("POST", "/secrets/finish", {"now": True}).json()["forgotten"] == 1
    assert [one["name"] for one in chief.get("/secrets")["items"]] == [done["name"]] != [first["name"]]
    assert [row["name"] for row in kept.cli("secret", "list", "--json")] == [done["name"]]
    log = chief.ask("GET", "/audit-log", params={"limit": "20"})
    actions = [one["action"] for one in log.json()["items"] if one["action"].startswith("secret.")]
    assert actions == ["secret.finished", "secret.resealed", "secret.rotated", "secret.prepared"]
    assert (kept.data / "secret-key").read_text().split()[0] not in log.text


def test_audit_of_the_stored_files_finds_what_is_damaged(kept: Server, chief: Person, partner: FakePartner) -> None:
    """It goes on in the background, and says what is wrong with which file, and who names it."""
    assert refusal_of(chief.ask("GET", "/stored-files/audit"))[:2] == (404, "not_found")
    partner.script("/json", reply(200, b'{"made":"' + b"x" * 200_000 + b'"}'))
    body, headers = {"prompt": "a"}, {"Idempotency-Key": "kept"}
    assert kept.client.post("/v2/models/fake/json-1", json=body, headers=headers).status_code == 200
    assert _audit(chief)["is_right"] is True
    flip(blob_files(kept.data / "blobs")[0])
    assert _audit(chief)["is_right"] is True
    found = _audit(chief, is_thorough=True)
    assert (found["is_right"], found["damaged"], found["missing"], found["progress"]) == (False, 1, 0, 1.0)
    (finding,) = found["findings"]
    assert finding["problem"] == "damaged"
    assert finding["named_by"][0]["kind"]


def test_catalog_is_read_again_and_a_mistake_is_told(chief: Person, catalog: CatalogFolder) -> None:
    """A catalog with a mistake never comes into force; the answer says where it is."""
    before = chief.get("/catalog")
    assert (before["models"] > 0, before["mistake"]) == (True, None)
    broken = catalog.path / "models" / "broken.toml"
    broken.parent.mkdir(exist_ok=True)
    broken.write_text("nothing = 1\n")
    answer = chief.ask("POST", "/catalog/reload")
    assert refusal_of(answer) == (422, "invalid_input", None)
    assert "broken.toml" in answer.json()["error"]["message"]
    assert chief.get("/catalog")["build"] == before["build"]
    assert "broken.toml" in chief.get("/catalog")["mistake"]
    broken.unlink()
    mended = chief.ask("POST", "/catalog/reload").json()
    assert (mended["build"], mended["mistake"]) == (before["build"], None)


def test_prices_are_listed_with_their_sources(chief: Person) -> None:
    """Every rate card of every model, in pages."""
    first = chief.get("/prices", limit="2")
    assert len(first["items"]) == 2
    second = chief.get("/prices", limit="200", cursor=first["next_cursor"])
    models = [row["model"] for row in (*first["items"], *second["items"])]
    assert models == sorted(models)
    assert "local/procedural-image-1" in models
    assert all(row["prices"] and row["effective"] for row in first["items"])


def _audit(chief: Person, *, is_thorough: bool = False) -> dict[str, Any]:
    begun = chief.ask("POST", "/stored-files/audit", {"is_thorough": is_thorough})
    assert begun.status_code == 202, begun.text

    def has_finished() -> bool:
        return chief.get("/stored-files/audit")["finished_at"] is not None

    wait_until(has_finished, "the audit has finished")
    found: dict[str, Any] = chief.get("/stored-files/audit")
    assert found["error"] is None
    return found
