"""Files of several servers: one store for all of them, one that is away, and one that is not theirs (M-05)."""

import base64
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from end_to_end.workflow_clients import WorkflowClient, node, picture
from fake_partner import SECRET, CatalogFolder, FakePartner, reply, reply_json
from s3_store import S3Server
from servers import PLAIN, Server, serving, wait_until

pytestmark = pytest.mark.single_server("it makes an installation of its own")

_SHARED: Final = {
    "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
    "FAIRLEAD_SECRET_KEY": base64.b64encode(b"s" * 32).decode(),
    "FAIRLEAD_ENGINE_HOSTS": "1",
}
_PLAIN: Final = ("--no-local-partner",)
_RUN: Final = "/v2/models/fake/json-1"
_ASSET: Final = "/v2/models/fake/asset-1"
_LARGE: Final = b'{"made":"' + b"x" * 200_000 + b'"}'
_BYTES: Final = os.urandom(300_000)


@pytest.fixture
def models(catalog: CatalogFolder, partner: FakePartner) -> CatalogFolder:
    """Return a catalog with a model of a large result, and one whose result is a file that is copied."""
    catalog.add_model("fake/asset-1", "picky", head='assets = { at = ["/url"], lifetime_hours = 1 }\n')
    partner.script("/json", reply(200, _LARGE))
    partner.script("/picky", reply_json({"ok": True, "url": f"{partner.url}/made/a.bin"}))
    partner.script("/made/a.bin", reply(200, _BYTES, "image/png"))
    return catalog


@contextmanager
def _servers(
    folder: Path, database: str, catalog: CatalogFolder, *envs: Mapping[str, str], key: str | None = None
) -> Iterator[list[Server]]:
    """Servers of one database, each with a data directory of its own, as on machines of their own.

    `key` is the installation's first one, where it has been made before.
    """
    with ExitStack() as stack:
        servers: list[Server] = []
        for number, env in enumerate(envs):
            data = folder / f"data-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            if key is not None:
                data.mkdir(mode=0o700, exist_ok=True)
                (data / "first-key").write_text(key, encoding="ascii")
            given = {**_SHARED, "FAIRLEAD_ENGINE": "false", **env}
            servers.append(
                stack.enter_context(serving(data, database=database, catalog=catalog.path, env=given, arguments=_PLAIN))
            )
            key = servers[0].key
        yield servers


def _client(server: Server, key: str) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"X-API-Key": key}, timeout=60, verify=PLAIN)


def _queue(client: httpx.Client) -> str:
    """Submit a run that is queued; where it is asked about."""
    answer = client.post(f"{_RUN}/requests", json={})
    assert answer.status_code == 201, answer.text
    return f"{_RUN}/requests/{answer.json()['request_id']}"


def _wait_for(client: httpx.Client, request: str) -> None:
    wait_until(lambda: client.get(f"{request}/status").json()["status"] == "COMPLETED", "the end of a run")


@pytest.mark.req("M-05")
def test_files_of_one_server_are_those_of_all(
    tmp_path: Path, postgresql_url: str, models: CatalogFolder, s3_server: S3Server
) -> None:
    """What is uploaded at one server is loaded by a job of another, and seen at the first; parts of results as well.

    Where links are direct, the store itself serves the same bytes to callers without a key.
    """
    store = {**s3_server.settings("shared", tmp_path.name), "FAIRLEAD_ENGINE": "true"}
    direct = {**store, "FAIRLEAD_BLOBS_LINKS": "direct"}
    with _servers(tmp_path, postgresql_url, models, store, direct) as (first, second):
        here = WorkflowClient(first)
        there = WorkflowClient(second, first.key)
        graph = {
            "1": node("LoadImage", image=here.upload(picture())),
            "2": node(
                "ImageScale", image=["1", 0], upscale_method="nearest-exact", width=80, height=60, crop="disabled"
            ),
            "3": node("SaveImage", images=["2", 0], filename_prefix="scaled"),
        }
        (made,) = there.files_of(there.run(graph))
        content = here.download(made)
        assert content.startswith(b"\x89PNG")
        wanted = {name: made[name] for name in ("filename", "subfolder", "type")}
        assert here.http.get("/api/view", params={**wanted, "preview": "webp;90"}).status_code == 200

        location = there.http.get("/api/view", params=wanted).headers["location"]
        assert location.startswith(f"{s3_server.endpoint}/shared/{tmp_path.name}/")
        served = httpx.get(location)
        assert (served.status_code, served.content) == (200, content)
        assert served.headers["content-type"] == "image/png"
        assert served.headers["content-disposition"] == f'inline; filename="{made["filename"]}"'
        assert int(parse_qs(urlsplit(location).query)["X-Amz-Expires"][0]) <= 3600
        assert httpx.get(location[:-1] + ("0" if location[-1] != "0" else "1")).status_code == 403

        link = here.http.post(_ASSET, json={}).json()["url"]
        part = httpx.get(link, headers={"Range": "bytes=100-299"})
        assert (part.status_code, part.content) == (206, _BYTES[100:300])
        elsewhere = link.replace(first.url, second.url)
        redirected = httpx.get(elsewhere)
        assert (redirected.status_code, redirected.headers["cache-control"]) == (302, "private, no-store")
        part = httpx.get(elsewhere, headers={"Range": "bytes=100-299"}, follow_redirects=True)
        assert (part.status_code, part.content) == (206, _BYTES[100:300])
        assert httpx.head(elsewhere).headers["content-length"] == str(len(_BYTES))
        here.http.close()
        there.http.close()
        assert first.cli("audit", "--json")["clean"]


@pytest.mark.req("M-05")
def test_store_that_is_away_loses_nothing(
    tmp_path: Path, postgresql_url: str, models: CatalogFolder, s3_server: S3Server
) -> None:
    """Meanwhile each API says so in its own form, results are kept in the database, and all is there afterwards."""
    store = {**s3_server.settings("away", tmp_path.name), "FAIRLEAD_ENGINE": "true"}
    with _servers(tmp_path, postgresql_url, models, store) as (server,):
        client = WorkflowClient(server)
        before = _queue(client.http)
        _wait_for(client.http, before)
        name = client.upload(picture())
        s3_server.stop()
        try:
            refused = client.http.post(
                "/api/upload/image", files={"image": ("b.png", picture())}, data={"type": "input"}
            )
            assert refused.status_code == 503, refused.text
            unread = client.http.get(before)
            assert (unread.status_code, unread.json()["error_type"]) == (503, "service_unavailable")
            assert client.http.get("/healthz").status_code == 200
            wait_until(lambda: client.http.get("/readyz").json()["status"] == "degraded", "the server to say so")
            assert client.http.get("/readyz").json()["problems"][0] in {
                "files cannot be written to their store",
                "the store for files does not answer",
            }
            meanwhile = _queue(client.http)
            _wait_for(client.http, meanwhile)
        finally:
            s3_server.start()
        wait_until(lambda: client.http.get("/readyz").json()["status"] == "ready", "the server to be ready again")
        assert [client.http.get(request).content for request in (before, meanwhile)] == [_LARGE, _LARGE]
        assert client.http.get("/api/view", params={"filename": name, "type": "input"}).status_code == 302
        client.http.close()


@pytest.mark.req("M-05")
def test_server_with_another_folder_says_so_and_keeps_nothing_there(
    tmp_path: Path, postgresql_url: str, models: CatalogFolder
) -> None:
    """A result that another server has kept is not called gone by one that cannot see it, which takes no queued work.

    It says so at its start, in its metrics, to `fairlead doctor` and to load balancers; its own results are found by
    all.
    """
    with _servers(tmp_path, postgresql_url, models, {}) as (first,):
        request = _queue(first.client)
        _wait_for(first.client, request)
        with _servers(tmp_path / "elsewhere", postgresql_url, models, {}, key=first.key) as (second,):
            (line,) = second.logged_events("BlobStoreUnproven")
            assert (line["level"], line["state"]) == ("warning", "unmarked")
            assert second.metric("fairlead_blob_store_proven") == 0
            assert first.metric("fairlead_blob_store_proven") == 1
            ready = httpx.get(f"{second.url}/readyz")
            assert (ready.status_code, ready.json()["status"]) == (503, "unready")
            assert "not known to be the installation's" in ready.json()["problems"][0]
            checks = {one["check"]: one for one in second.cli("doctor", "--json")}
            assert checks["store for files"]["result"] == "problem"

            with _client(second, first.key) as other:
                unseen = other.get(request)
                assert (unseen.status_code, unseen.json()["error_type"]) == (503, "service_unavailable")
                assert "another server may have them" in unseen.json()["detail"]
                later = _queue(other)
                _wait_for(other, later)
                assert other.get(later).status_code == 503
                assert first.client.get(later).content == _LARGE
                assert first.client.get(request).content == _LARGE
            assert list((tmp_path / "elsewhere" / "data-0" / "blobs").glob("??")) == []


@pytest.mark.req("M-05")
def test_store_is_adopted_by_a_command(
    tmp_path: Path, postgresql_url: str, models: CatalogFolder, s3_server: S3Server
) -> None:
    """A bucket in place of a lost folder is recorded by `fairlead blobs adopt`; not one of another installation."""
    store = s3_server.settings("adopted", tmp_path.name)
    with _servers(tmp_path, postgresql_url, models, {}) as (first,):
        assert first.cli("blobs", "show", "--json")["state"] == "ours"
    with _servers(tmp_path, postgresql_url, models, store) as (server,):
        assert httpx.get(f"{server.url}/readyz").status_code == 503
        shown = server.cli("blobs", "adopt", "--json")
        assert shown == {"place": f"s3://adopted/{tmp_path.name} at {s3_server.endpoint}", "state": "ours"}
        wait_until(lambda: httpx.get(f"{server.url}/readyz").status_code == 200, "the server to see it")
        seen = [True, False]  # by the server before, which logs there too and found a new store, and by this one
        wait_until(
            lambda: [one["was_marked"] for one in server.logged_events("BlobStoreProven")] == seen, "it to be logged"
        )
    with _servers(tmp_path / "other", f"sqlite:///{tmp_path}/other.db", models, store) as (foreign,):
        (line,) = foreign.logged_events("BlobStoreUnproven")
        assert line["state"] == "foreign"
