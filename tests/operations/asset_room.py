"""Assets of one workspace over a real database and real blobs, wired as a server does."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.assets.records import Asset, NewAsset
from fairlead.fair_shares import FairShares
from fairlead.http_client.transport import Transport
from fairlead.identity.links import FILE_PATH, Links
from fairlead.observing.observations import Observation
from fairlead.operations.assets.downloads import Downloads
from fairlead.operations.assets.files import FileLinks, WorkflowFiles
from fairlead.operations.assets.moderation import Judge, Moderation
from fairlead.operations.assets.records import Assets
from fairlead.operations.assets.results import AssetSweeper
from fairlead.storage.blobs.opening import local_blobs
from fairlead.storage.db.database import Database
from storage.bookings import LAB, NOW

ME: Final = Caller(LAB, "lab")
DAY_MS: Final = 24 * 3_600_000


class Room:
    """Assets of one workspace, and what they are made of."""

    def __init__(
        self, database: Database, folder: Path, blocked: Collection[str] = (), judge: Judge | None = None
    ) -> None:
        """Wire them as the server does."""
        self.seen: list[Observation] = []
        self.now_ms = NOW
        self.folder = folder
        self.blobs = local_blobs(folder)
        self.clock = Clock(lambda: self.now_ms * 1_000_000)
        downloads = Downloads(Transport().fetch, self.blobs, limit=1_000)
        files = WorkflowFiles(
            database, self.blobs, downloads, self.clock, self.seen.append,
            Moderation(self.seen.append, blocked=blocked, judge=judge), FairShares(10, 0),
            upload_bytes=1_000, kept_ms=DAY_MS,
        )  # fmt: skip
        self.files = files
        self.sweeper = AssetSweeper(database, self.blobs, self.clock, self.seen.append)
        links = FileLinks(Links(bytes(32), FILE_PATH), self.clock)
        self.assets = Assets(files, self.blobs, links, database, self.clock, self.seen.append)

    async def send(self, content: bytes, name: str = "a.png", **said: Any) -> Asset:
        """Send an asset."""
        intake = self.assets.receive(ME)
        try:
            await intake.write(content)
            return (await self.assets.add(ME, intake, name, NewAsset(name, **said), None)).asset
        finally:
            await intake.abort()

    def lying(self) -> list[Path]:
        """List every file of the store."""
        return [path for path in self.folder.rglob("*") if path.is_file()]
