"""A backup of a running server, restored elsewhere: everything is collected byte for byte, and the books are right."""

import base64
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from click.testing import CliRunner

from databases import Postgres
from end_to_end.workflow_clients import WorkflowClient, node, picture
from fairlead.cli import commands
from fake_partner import SECRET, CatalogFolder, FakePartner, reply, reply_json
from s3_store import S3Server
from servers import Server, serving, wait_until

_ENV: Final = {
    "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
    "FAIRLEAD_ENGINE": "true",
    "FAIRLEAD_ENGINE_HOSTS": "1",
    "FAIRLEAD_SECRET_KEY": base64.b64encode(b"s" * 32).decode(),
}
_PLAIN: Final = ("--no-local-partner",)
_RUN: Final = "/v2/models/fake/json-1"
_LARGE: Final = b'{"made":"' + b"x" * 200_000 + b'"}'
_BYTES: Final = os.urandom(300_000)


def _command(*words: str, env: Mapping[str, str] | None = None) -> Any:
    return CliRunner().invoke(commands, list(words), env={**_ENV, **(env or {})})


def _keep_each_kind(client: WorkflowClient) -> dict[str, bytes]:
    """Have something of each kind that is kept; where it is asked for, and its bytes."""
    request = client.http.post(f"{_RUN}/requests", json={}).json()["request_id"]
    path = f"{_RUN}/requests/{request}"
    wait_until(lambda: client.http.get(f"{path}/status").json()["status"] == "COMPLETED", "the end of a run")
    link = client.http.post("/v2/models/fake/asset-1", json={}).json()["url"]
    graph = {
        "1": node("LoadImage", image=client.upload(picture())),
        "2": node("SaveImage", images=["1", 0], filename_prefix="kept"),
    }
    (made,) = client.files_of(client.run(graph))
    view = f"/api/view?filename={made['filename']}&type={made['type']}"
    seen = {path: _LARGE, link.removeprefix(client.url): _BYTES}
    return {**seen, view: client.http.get(view, follow_redirects=True).content}


@pytest.fixture
def models(catalog: CatalogFolder, partner: FakePartner) -> CatalogFolder:
    """Return a catalog with a model of a large result, and one whose result is a file that is copied."""
    catalog.add_model("fake/asset-1", "picky", head='assets = { at = ["/url"], lifetime_hours = 1 }\n')
    partner.script("/json", reply(200, _LARGE))
    partner.script("/picky", reply_json({"ok": True, "url": f"{partner.url}/made/a.bin"}))
    partner.script("/made/a.bin", reply(200, _BYTES, "image/png"))
    return catalog


@pytest.mark.req("M-06")
def test_backup_of_a_running_server_is_restored_elsewhere(
    tmp_path: Path,
    either_database: str,
    postgres: Postgres,
    models: CatalogFolder,
    s3_server: S3Server,
) -> None:
    """From a folder into a bucket, with SQLite into SQLite and with PostgreSQL into PostgreSQL, under load."""
    place = tmp_path / "backup"
    store = s3_server.settings("restored", tmp_path.name)
    with serving(tmp_path / "data", database=either_database, catalog=models.path, env=_ENV, arguments=_PLAIN) as old:
        client = WorkflowClient(old)
        kept = _keep_each_kind(client)
        is_over = threading.Event()
        calling = threading.Thread(target=_call_until, args=(old, is_over))
        calling.start()
        try:
            words = ("backup", str(place), "--data", str(old.data), "--database", either_database, "--json")
            made = _command(*words, env=old.store)
        finally:
            is_over.set()
            calling.join(60)
        assert made.exit_code == 0, made.output
        client.http.close()
    assert not place.with_name("backup.partial").exists()

    name = postgres.create_bare()
    target = postgres.url(name) if either_database.startswith("postgresql") else f"sqlite:///{tmp_path}/restored.db"
    where = ("--data", str(tmp_path / "elsewhere"), "--database", target)
    restored = _command("restore", str(place), *where, env=store)
    assert restored.exit_code == 0, restored.output
    for command in (["audit"], ["audit", "--blobs"]):
        audited = _command(*command, *where, env=store)
        assert audited.exit_code == 0, audited.output
    again = _command("restore", str(place), *where, env=store)
    assert again.exit_code == 1
    assert "empty" in again.output

    shutil.copy(tmp_path / "data" / "first-key", tmp_path / "elsewhere" / "first-key")
    env = {**_ENV, **store, "FAIRLEAD_SILENT_SERVER_SECONDS": "2"}
    with serving(tmp_path / "elsewhere", database=target, catalog=models.path, env=env, arguments=_PLAIN) as new:
        client = WorkflowClient(new)
        for path, content in kept.items():
            assert client.http.get(path, follow_redirects=True).content == content, path
        assert client.http.post(_RUN, json={}).status_code == 200
        new.wait_until_drained()
        client.http.close()


def _call_until(server: Server, is_over: threading.Event) -> None:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as client:
        while not is_over.is_set():
            client.post(_RUN, json={})


@pytest.mark.single_server("its backup is of an SQLite file and a folder")
def test_damaged_backup_is_not_restored(tmp_path: Path, models: CatalogFolder) -> None:
    """Nor is what is not a backup, nor one into a place that has something; what is restored first is checked first."""
    data, place = tmp_path / "data", tmp_path / "backup"
    with serving(data, catalog=models.path, env={**_ENV, "FAIRLEAD_ENGINE": "false"}, arguments=_PLAIN) as server:
        server.client.post(_RUN, json={})
    assert "exists already" in _command("backup", str(data), "--data", str(data)).output
    made = _command("backup", str(place), "--data", str(data))
    assert made.exit_code == 0, made.output
    assert "secret key is not in it" in made.output
    assert "is not a backup" in _command("restore", str(data), "--data", str(tmp_path / "new")).output
    assert "empty" in _command("restore", str(place), "--data", str(data)).output

    table = place / "tables" / "ledger_entries.jsonl"
    table.write_bytes(table.read_bytes().replace(b'"post"', b'"past"', 1))
    refused = _command("restore", str(place), "--data", str(tmp_path / "new"))
    assert refused.exit_code == 1
    assert "ledger_entries.jsonl is not as it was written" in refused.output
    assert not (tmp_path / "new" / "fairlead.db").exists()
