"""A server of files alone: uploads, views and signed links over real sockets, with two workspaces."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import httpx
import uvicorn
from PIL import Image

from fairlead.api.cloud.credentials import CloudCallers
from fairlead.api.cloud.errors import refusal
from fairlead.api.cloud.routes import ROUTES
from fairlead.api.cloud.uploads import UploadHandlers
from fairlead.api.cloud.views import ViewHandlers
from fairlead.api.http.api import HttpApi, routes_of
from fairlead.api.http.asgi import Receive, Scope, Send
from fairlead.api.http.credentials import CredentialReader
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.route import bind_handlers
from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.callers import Billing
from fairlead.domain.accounts.rate_windows import Quotas
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.engine.hosts.rendering import render
from fairlead.engine.hosts.service import Render, Rendered
from fairlead.fair_shares import FairShares
from fairlead.http_client.transport import Transport
from fairlead.identity.links import FILE_PATH, Links
from fairlead.observing.observations import Observation, UnexpectedError
from fairlead.operations.accounts.authenticate import ApiKey, Authenticator
from fairlead.operations.accounts.keys import issue_key
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.accounts.workspaces import NewWorkspace, create_workspace
from fairlead.operations.assets.downloads import Downloads
from fairlead.operations.assets.files import FileLinks, WorkflowFiles
from fairlead.operations.assets.moderation import Moderation
from fairlead.operations.assets.results import AssetReader
from fairlead.operations.assets.views import FileViews
from fairlead.storage.assets.files import find_file_of_id
from fairlead.storage.blobs.opening import local_blobs
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import open_database
from servers import PLAIN, wait_until

LIMIT: Final = 2_000_000
UPLOADS: Final = 50
UPLOADS_SHARE: Final = 40
"""The uploads a site receives at a time, and the most of them of one workspace; nobody waits for a place."""
DAY_MS: Final = 24 * 3_600_000


class Site:
    """The server, and callers of its two workspaces; `client` and `stranger` send their keys, `anybody` none."""

    def __init__(self, folder: Path, url: str) -> None:
        """Wire it; nothing runs before `serve`."""
        self.folder = folder
        self.now_ms = int(time.time()) * 1000
        self.seen: list[Observation] = []
        self.links = Links(os.urandom(32), FILE_PATH)
        self.clock = Clock(lambda: self.now_ms * 1_000_000)
        self.files: WorkflowFiles
        self.loop: asyncio.AbstractEventLoop
        self.renders = 0
        self.uploads = FairShares(UPLOADS, 0, UPLOADS_SHARE)
        self._url = url
        self._api: HttpApi
        self._server = uvicorn.Server(
            uvicorn.Config(self._app, port=0, log_level="warning", lifespan="off", interface="asgi3")
        )
        self._keys: list[str] = []
        self.workspaces: list[str] = []

    async def serve(self) -> None:
        """Serve until told to stop."""
        self.loop = asyncio.get_running_loop()
        database = open_database(self._url)
        transport = Transport()
        blobs = local_blobs(self.folder)
        downloads = Downloads(transport.fetch, blobs, limit=LIMIT)
        self.files = WorkflowFiles(
            database, blobs, downloads, self.clock, self.seen.append, Moderation(self.seen.append),
            self.uploads, upload_bytes=LIMIT, kept_ms=7 * DAY_MS,
        )  # fmt: skip
        links = FileLinks(self.links, self.clock)
        views = FileViews(self.files, blobs, links, self._render, self.clock, self.folder / "spool")
        reader = AssetReader(self.links, blobs, database, self.clock, lambda id_: lambda c: find_file_of_id(c, id_))
        authenticator = Authenticator(database, None)
        callers = CloudCallers(
            authenticator, RateWindows(database, Quotas(), self.clock, self.seen.append), CredentialReader("flk_")
        )
        uploads = UploadHandlers(self.files, views, limit=LIMIT)
        shown = ViewHandlers(views, reader, BaseUrls())
        served = [route for route in ROUTES if route.name in ("upload_image", "upload_mask", "view", "show_file")]
        routes = routes_of(served, bind_handlers((uploads, shown)), callers.caller)
        self._api = HttpApi(routes, refusal, b"x-service-request-id", self.seen.append)
        for name in ("lab", "other"):
            await self._open(database, name, authenticator)
        await self._server.serve()
        await transport.close()
        await database.close()

    @property
    def is_ready(self) -> bool:
        """Whether it serves."""
        return self._server.started

    def stop(self) -> None:
        """End serving."""
        self._server.should_exit = True

    @property
    def port(self) -> int:
        """Where it serves."""
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    @property
    def base_url(self) -> str:
        """What its links begin with."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        """The key of the first workspace."""
        return self._keys[0]

    def client(self, who: int | None = 0) -> httpx.Client:
        """Make a client that sends the key of a workspace, or none."""
        headers = {} if who is None else {"X-API-Key": self._keys[who]}
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=60, verify=PLAIN)

    def do(self, work: Any) -> Any:
        """Wait for work in the server's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def make(self, content: bytes, name: str, kind: str = "output") -> None:
        """Make a file as a job of the first workspace does."""
        path = self.folder.parent / new_id()
        path.write_bytes(content)
        adopted = self.do(self.files.adopt(path, name, kind))
        self.do(self.files.keep(self.workspaces[0], "job", adopted, name, kind, self.now_ms + DAY_MS))

    def left_files(self) -> list[str]:
        """Name every file of the store."""
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())

    async def _open(self, database: Database, name: str, authenticator: Authenticator) -> None:
        command = NewWorkspace(name=name, billing=Billing.PREPAID, in_flight_limit=UNLIMITED)
        await create_workspace(database, command, self.clock)
        key = await issue_key(database, name, "", None, "flk_", self.clock)
        self._keys.append(key.text)
        self.workspaces.append((await authenticator.authenticate(ApiKey(key.text))).workspace_id)

    async def _render(self, _workspace_id: str, order: Render) -> Rendered:
        """Render as an engine host does, in a thread."""
        self.renders += 1
        return await asyncio.to_thread(render, order)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._api(scope, receive, send, new_id())


@contextmanager
def running_site(folder: Path, url: str) -> Iterator[Site]:
    """Run a server of files over a migrated database; afterwards nothing unexpected may have happened."""
    site = Site(folder, url)
    thread = threading.Thread(target=lambda: asyncio.run(site.serve()))
    thread.start()
    try:
        wait_until(lambda: site.is_ready, "the server of files")
        yield site
    finally:
        site.stop()
        thread.join()
    assert [seen for seen in site.seen if isinstance(seen, UnexpectedError)] == []


def png(color: tuple[int, ...] = (255, 0, 0), size: tuple[int, int] = (8, 4), mode: str = "RGB", **how: Any) -> bytes:
    """Return a picture of one colour."""
    out = BytesIO()
    Image.new(mode, size, color).save(out, "PNG", **how)
    return out.getvalue()


def open_picture(content: bytes) -> Image.Image:
    """Open a picture."""
    return Image.open(BytesIO(content))
