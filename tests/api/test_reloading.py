"""The catalog's files under a running server, and at its start (R-03, R-05, R-08)."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.conftest import NESTED, SETTINGS, catalog_of
from fake_partner import CatalogFolder, FakePartner
from servers import Server, ServerFailedError, serving, wait_until

_PLAIN = ("--no-local-partner",)


class _Reloading:
    """A server and the catalog folder it reads."""

    def __init__(self, server: Server, catalog: CatalogFolder) -> None:
        self.server = server
        self.catalog = catalog

    def ids(self) -> list[str]:
        """The models, of all pages; a traversal begins again where the catalog changes meanwhile."""
        found: list[str] = []
        more: dict[str, str] = {}
        while True:
            page = self.server.client.get("/v2/models", params={"limit": "100", **more})
            if page.status_code != 200:
                return self.ids()
            found += [entry["id"] for entry in page.json()["data"]]
            if "next_cursor" not in page.json():
                return found
            more = {"cursor": page.json()["next_cursor"]}

    def load(self, model_id: str) -> None:
        """Wait until the server has a model."""
        wait_until(lambda: model_id in self.ids(), f"{model_id} is loaded")


@pytest.fixture(scope="module")
def shared_reloading(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Reloading]:
    """Return a server whose catalog the tests of this file change; each adds models of its own."""
    folder = tmp_path_factory.mktemp("reloading")
    catalog = catalog_of(folder, shared_partner.url)
    for name in ("a", "b", "c"):
        catalog.add_model(f"first/{name}")
    with serving(folder / "data", catalog=catalog.path, env=SETTINGS, arguments=_PLAIN) as server:
        yield _Reloading(server, catalog)


@pytest.fixture
def reloading(shared_reloading: _Reloading, partner: FakePartner) -> Iterator[_Reloading]:
    """Return the same, with its books proven after the test."""
    yield shared_reloading
    partner.release()
    shared_reloading.server.prove_settled()


@pytest.mark.req("R-03")
def test_cursor_dies_with_its_catalog(reloading: _Reloading) -> None:
    """A cursor dies with the catalog it was made for: 400 that says so, and a new traversal begins."""
    client = reloading.server.client
    cursor = client.get("/v2/models?limit=1").json()["next_cursor"]
    assert client.get("/v2/models", params={"cursor": cursor}).status_code == 200
    reloading.catalog.add_model("later/cursor")
    reloading.load("later/cursor")
    expired = client.get("/v2/models", params={"cursor": cursor})
    assert (expired.status_code, expired.json()["error_type"]) == (400, "invalid_input")
    assert expired.json()["detail"] == "The cursor has expired: the catalog changed. Start again without one."


@pytest.mark.req("R-02")
def test_requests_go_on_while_the_catalog_changes(reloading: _Reloading) -> None:
    """Runs and reads go on through a reload; none is refused and each is charged."""
    statuses: list[int] = []
    done = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=reloading.server.url, headers={"X-API-Key": reloading.server.key}) as client:
            while not done.is_set():
                statuses.append(client.post("/v2/models/first/a", json={}).status_code)
                statuses.append(client.get("/v2/models/first/a").status_code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for name in ("one", "two"):
        reloading.catalog.add_model(f"meanwhile/{name}")
        reloading.load(f"meanwhile/{name}")
    done.set()
    for thread in threads:
        thread.join()
    assert len(statuses) > 20
    assert set(statuses) == {200}


@pytest.mark.req("R-08")
def test_changed_schema_is_served_and_enforced_together(reloading: _Reloading) -> None:
    """A schema takes effect whole: document, tag and validation change together."""
    client = reloading.server.client
    reloading.catalog.add_model("later/schema", schema=NESTED)
    reloading.load("later/schema")
    path = "/v2/models/later/schema"
    before = client.get(f"{path}/openapi.json").headers["etag"]
    assert client.post(path, json={"prompt": "a", "more": 1}).status_code == 422
    reloading.catalog.add_model("later/schema", schema={**NESTED, "additionalProperties": True})
    wait_until(lambda: client.get(f"{path}/openapi.json").headers["etag"] != before, "another document")
    assert client.post(path, json={"prompt": "a", "more": 1}).status_code == 200


def test_invalid_file_leaves_the_catalog_as_it_was(reloading: _Reloading) -> None:
    """A file that cannot be used changes nothing; its mistake is logged with file and line, and counted."""
    server = reloading.server
    path = reloading.catalog.write("models/bad.toml", 'id = "Bad"\ntitle = "x"\nsurprise = 1\n')
    wait_until(lambda: server.metric("fairlead_events_total", kind="CatalogRefused") > 0, "the file is refused")
    reloading.catalog.add_model("later/good")
    assert server.client.post("/v2/models/first/a", json={}).status_code == 200
    errors = wait_until(lambda: server.logged_events("CatalogRefused"), "the mistake is logged")
    assert errors[-1]["error"] == f"{path}:3: surprise: Object contains unknown field `surprise`"
    assert "later/good" not in reloading.ids()
    path.unlink()
    reloading.load("later/good")


def test_hangup_reads_the_files_again(reloading: _Reloading) -> None:
    """SIGHUP reads the files again, also when they look unchanged."""
    server = reloading.server
    loads = len(server.logged_events("CatalogLoaded"))
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(server.logged_events("CatalogLoaded")) > loads, "a load after SIGHUP")
    assert server.client.get("/healthz").status_code == 200


def test_removed_model_is_gone(reloading: _Reloading) -> None:
    """A model whose file is gone is gone."""
    path = reloading.catalog.add_model("later/gone")
    reloading.load("later/gone")
    path.unlink()
    wait_until(lambda: "later/gone" not in reloading.ids(), "the model is gone")
    assert reloading.server.client.post("/v2/models/later/gone", json={}).status_code == 404


def _bad_rates(catalog: CatalogFolder) -> Path:
    return catalog.add_model("bad/model", price="cheap")


def _bad_provider(catalog: CatalogFolder) -> Path:
    return catalog.write("providers/bad.toml", 'provider = "bad"\nnonsense = 1\n')


def _unknown_provider(catalog: CatalogFolder) -> Path:
    return catalog.add_model("bad/model", provider="nobody")


def _unknown_call(catalog: CatalogFolder) -> Path:
    return catalog.add_model("bad/model", "dance")


def _bad_schema(catalog: CatalogFolder) -> Path:
    catalog.add_model("bad/model", schema={"type": "object", "properties": {"a": {"type": "strnig"}}})
    return catalog.path / "models/bad--model.input.json"


@pytest.mark.parametrize("spoil", [_bad_rates, _bad_provider, _unknown_provider, _unknown_call, _bad_schema])
def test_server_does_not_start_on_an_invalid_file(tmp_path: Path, partner: FakePartner, spoil: Any) -> None:
    """A bad file at the start is one line with file, line and reason, and exit status 1."""
    catalog = catalog_of(tmp_path, partner.url)
    path = spoil(catalog)
    with pytest.raises(ServerFailedError) as failed:
        Server(tmp_path / "data", catalog=catalog.path, arguments=_PLAIN)
    text = str(failed.value)
    assert text.startswith("exit status 1: ")
    assert "Traceback" not in text
    line = text.strip().splitlines()[-1].removeprefix("exit status 1: ")
    assert line.startswith("fairlead: ")
    assert f"{path.name}:" in line
