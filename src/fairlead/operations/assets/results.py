"""Result assets: copied from partners, served by signed links, and deleted once they expire (R-36)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.assets.links import exchange_links, links_in
from fairlead.domain.assets.media_types import HEAD_BYTES, extension, is_shown, media_type
from fairlead.domain.catalog.models import Assets
from fairlead.domain.faults import FaultError, Forbidden, RequestNotFound, ServiceUnavailable
from fairlead.domain.pointers import Pointer
from fairlead.http_client.transport import TransportError
from fairlead.identity.links import LinkParts, LinkRefusedError, Links
from fairlead.observing.blobs import AssetsSwept, BlobTrouble
from fairlead.observing.observations import (
    AssetCopied,
    AssetCopyFailed,
    DatabaseTrouble,
    Observer,
    UnexpectedError,
)
from fairlead.operations.assets.measuring import measure_file
from fairlead.operations.assets.shared_store import damaged_fault, lost_fault, unreadable_fault
from fairlead.storage.assets.results import Asset, delete_expired, find_asset, insert_assets, named_blobs
from fairlead.storage.blobs.store import (
    FAN_OUT,
    BlobDamagedError,
    BlobMissingError,
    Blobs,
    BlobsUnavailableError,
    BlobTooLargeError,
    StoredBlob,
    Writer,
)
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work

COPIES_MAX: Final = 64
"""How many links of one run are copied; further ones stay the partner's."""
_AT_ONCE: Final = 4
_SECONDS: Final = 240.0
_OK: Final = 200
_MODEL_CHARACTERS: Final = 64
_SHOWN_CHARACTERS: Final = 200
_LARGE_BYTES: Final = 256 * 1024
_EXPIRED_AT_ONCE: Final = 500
GRACE_MS: Final = 24 * 3600 * 1000
"""The age at which an unnamed blob is removed: one that was just written is about to be named."""
_SPOOL_SECONDS: Final = 24 * 3600.0


class Fetched(Protocol):
    """The answer to a download."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer."""
        ...


class Fetch(Protocol):
    """Downloads a link within `seconds` and `limit` bytes, a piece at a time into `sink`; TransportError.

    It must go to no private address, and take no redirect there.
    """

    async def __call__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        seconds: float,
        limit: int,
        sink: Callable[[bytes], Awaitable[None]],
    ) -> Fetched:
        """Download."""
        ...


class CopyOrder(msgspec.Struct, frozen=True):
    """The owner of a result that is to be copied, the rules for it, and the base URL of our links."""

    run_id: str
    workspace_id: str
    provider: str
    model_id: str
    rules: Assets
    base_url: str


class CopiedResult(msgspec.Struct, frozen=True):
    """A result with our links in place of those that could be copied.

    `copied` has a row for each copy; `left` counts the listed links that are still the partner's, on which it depends
    how long the result may be replayed.
    """

    content: bytes
    copied: Sequence[Asset]
    left: int


class _Copy(msgspec.Struct, frozen=True):
    """A finished download: its number in the result, its blob, and its media type."""

    number: int
    blob: str
    size: int
    content_type: str


class _NotCopiedError(Exception):
    """The answer to a download is not an asset; the reason is a label for metrics."""


class _Intake:
    """The sink of one download: passes bytes on, and keeps their number and their beginning."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.head = b""
        self.size = 0

    async def write(self, chunk: bytes) -> None:
        if len(self.head) < HEAD_BYTES:
            self.head = (self.head + bytes(chunk[:HEAD_BYTES]))[:HEAD_BYTES]
        self.size += len(chunk)
        await self._writer.write(chunk)


class AssetCopier:
    """Copies the listed assets of a run's result; one that fails does not affect the others.

    `limit` is in bytes for each asset, `lifetime` in seconds for the links of models without one, `seconds` for all
    copies of a run. `may_follow` says whether a link in a provider's answer may be followed; `stored` returns the
    address and headers for reading what a provider has written to the operator's own storage.
    """

    def __init__(
        self,
        fetch: Fetch,
        may_follow: Callable[[str, str], bool],
        blobs: Blobs,
        database: Database,
        links: Links,
        clock: Clock,
        observe: Observer,
        *,
        limit: int,
        lifetime: int,
        seconds: float = _SECONDS,
        stored: Callable[[str, str], tuple[str, Mapping[str, str]] | None] = lambda _provider, _place: None,
    ) -> None:
        self._stored = stored
        self._fetch = fetch
        self._may_follow = may_follow
        self._blobs = blobs
        self._database = database
        self._links = links
        self._clock = clock
        self._observe = observe
        self._limit = limit
        self._lifetime = lifetime
        self._seconds = seconds

    async def copy(self, order: CopyOrder, answer: object, content: bytes) -> CopiedResult:
        """Copy what the rules list and put our links in place of the partner's. Raises nothing but cancellation.

        `answer` is what `content` says, as JSON.
        """
        listed = links_in(order.rules, answer)
        named = dict.fromkeys(listed.values())
        found = {url: stored for url in named if (stored := self._stored(order.provider, url)) is not None}
        urls = [url for url in named if url in found or _is_web_link(url)]
        if not urls:
            return CopiedResult(content, (), len(listed))
        for url in [url for url in urls if url not in found and not self._may_follow(order.provider, url)]:
            urls.remove(url)
            self._observe_failure(order, url, "foreign_host")
        for url in urls[COPIES_MAX:]:
            self._observe_failure(order, url, "too_many")
        sources = {url: found.get(url, (url, {})) for url in urls[:COPIES_MAX]}
        copies = await self._record(order, await self._copies(order, sources))
        ours = {
            pointer: order.base_url.rstrip("/") + self._link(copies[url])
            for pointer, url in listed.items()
            if url in copies
        }
        try:
            exchanged = await _exchange(content, answer, ours)
        except Exception as error:  # noqa: BLE001 -- a bug here must not cost a result that was paid for
            self._observe(UnexpectedError(f"exchange links of {order.run_id}", error))
            return CopiedResult(content, (), len(listed))
        return CopiedResult(exchanged, tuple(copies.values()), len(listed) - len(ours))

    async def measure(self, asset: Asset) -> Mapping[str, str]:
        """The properties of a copy that prices may be made of."""
        return await measure_file(self._blobs, asset)

    async def _copies(self, order: CopyOrder, sources: Mapping[str, tuple[str, Mapping[str, str]]]) -> dict[str, _Copy]:
        give_up_at = asyncio.get_running_loop().time() + self._seconds
        turns = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            tasks = {
                url: group.create_task(self._copy_one(order, source, number, turns, give_up_at))
                for number, (url, source) in enumerate(sources.items(), 1)
            }
        return {url: copy for url, task in tasks.items() if (copy := task.result()) is not None}

    async def _copy_one(
        self,
        order: CopyOrder,
        source: tuple[str, Mapping[str, str]],
        number: int,
        turns: asyncio.Semaphore,
        give_up_at: float,
    ) -> _Copy | None:
        """Copy one link; None when that failed, whatever the reason."""
        url = source[0]
        try:
            async with asyncio.timeout_at(give_up_at), turns:
                return await self._download(source, number, give_up_at - asyncio.get_running_loop().time())
        except _NotCopiedError as error:
            self._observe_failure(order, url, str(error))
        except (TransportError, TimeoutError, BlobTooLargeError, BlobsUnavailableError) as error:
            self._observe_failure(order, url, _reason(error))
        except Exception as error:  # noqa: BLE001 -- whatever it is, the run has succeeded and keeps the partner's link
            self._observe(UnexpectedError(f"copy an asset of {order.run_id}", error))
            self._observe_failure(order, url, "internal_error")
        return None

    async def _download(self, source: tuple[str, Mapping[str, str]], number: int, seconds: float) -> _Copy:
        url, headers = source
        writer = self._blobs.writer(self._limit)
        try:
            intake = _Intake(writer)
            answered = await self._fetch(url, headers, seconds=seconds, limit=self._limit, sink=intake.write)
            if answered.status != _OK:
                raise _NotCopiedError(f"status_{answered.status}")
            if intake.size == 0:
                raise _NotCopiedError("empty")
            blob = await writer.commit()
        finally:
            await writer.abort()
        return _Copy(number, blob, intake.size, media_type(_content_type(answered.headers), intake.head))

    async def _record(self, order: CopyOrder, copies: Mapping[str, _Copy]) -> dict[str, Asset]:
        """The copies as assets whose rows are durable: all of them, or none. Their lifetime begins now."""
        now = self._clock.now_ms()
        found = {url: self._asset(order, copy, now) for url, copy in copies.items()}
        if not found:
            return {}
        try:
            await self._database.write(lambda c: insert_assets(c, found.values()))
        except Exception as error:  # noqa: BLE001 -- the result is complete without our links
            known = isinstance(error, DatabaseUnavailableError)
            doing = "record assets"
            self._observe(DatabaseTrouble(doing, str(error)) if known else UnexpectedError(doing, error))
            for url in found:
                self._observe_failure(order, url, "not_recorded")
            return {}
        for asset in found.values():
            self._observe(AssetCopied(order.run_id, order.provider, asset.content_type, asset.size))
        return found

    def _asset(self, order: CopyOrder, copy: _Copy, now: int) -> Asset:
        model = order.model_id.rpartition("/")[2][:_MODEL_CHARACTERS]
        lifetime = order.rules.lifetime or self._lifetime
        return Asset(
            id=new_id(),
            workspace_id=order.workspace_id,
            run_id=order.run_id,
            blob=copy.blob,
            size=copy.size,
            content_type=copy.content_type,
            name=f"{model}-{order.run_id[-8:]}-{copy.number}{extension(copy.content_type)}",
            created_at=now,
            expires_at=(now // 1000 + lifetime) * 1000,
        )

    def _link(self, asset: Asset) -> str:
        disposition = "inline" if is_shown(asset.content_type) else "attachment"
        return self._links.sign(asset.id, asset.expires_at // 1000, asset.name, disposition)

    def _observe_failure(self, order: CopyOrder, url: str, reason: str) -> None:
        self._observe(AssetCopyFailed(order.run_id, order.provider, shown_address(url), reason))


class Kept(Protocol):
    """The target of a signed link: bytes, their media type, and their expiry, in ms, if they have one."""

    @property
    def blob(self) -> str:
        """The blob."""
        ...

    @property
    def size(self) -> int:
        """How many bytes it had when it was kept."""
        ...

    @property
    def content_type(self) -> str:
        """What it is served as."""
        ...

    @property
    def expires_at(self) -> int | None:
        """When it expires."""
        ...


class ServedAsset(msgspec.Struct, frozen=True):
    """An asset that may be served: its blob and size, its name and disposition, and how many seconds are left."""

    blob: str
    size: int
    content_type: str
    name: str
    disposition: str
    seconds_left: int


StoreLinks: TypeAlias = Callable[[str, int, str, str], str]
"""Makes a link straight to a blob in its store: for how many seconds, with which media type and disposition."""


class AssetReader:
    """Finds the target of a signed link. `look_up` reads the target of an id; without it, an asset.

    With `store_links` the bytes are fetched from the store itself.
    """

    def __init__(
        self,
        links: Links,
        blobs: Blobs,
        database: Database,
        clock: Clock,
        look_up: Callable[[str], Work[Kept | None]] | None = None,
        store_links: StoreLinks | None = None,
    ) -> None:
        self._store_links = store_links
        self._links = links
        self._blobs = blobs
        self._database = database
        self._clock = clock
        self._look_up = look_up or _asset_of

    async def find(self, id_: str, expires: str, disposition: str, name: str, signature: str) -> ServedAsset:
        """Return the asset of a valid link; FaultError for a bad link, or an asset that no longer exists."""
        now = self._clock.now_ms()
        try:
            expires_at = self._links.verify(LinkParts(id_, expires, disposition, name, signature), now / 1000)
        except LinkRefusedError as error:
            raise FaultError(Forbidden(f"This link is not good: {error}.")) from error
        try:
            asset = await self._database.read(self._look_up(id_))
        except DatabaseUnavailableError as error:
            raise FaultError(_away()) from error
        if asset is None or (asset.expires_at is not None and asset.expires_at <= now):
            raise FaultError(RequestNotFound(expired=asset is not None))
        with _translate_errors():  # what cannot be sent whole is refused before the first byte is sent
            await self._blobs.check(asset.blob, asset.size)
        return ServedAsset(
            blob=asset.blob,
            size=asset.size,
            content_type=asset.content_type,
            name=name,
            disposition=disposition if is_shown(asset.content_type) else "attachment",
            seconds_left=max(0, _sooner(expires_at, asset.expires_at) - now // 1000),
        )

    def store_link(self, asset: ServedAsset, content_type: str, disposition: str) -> str | None:
        """The address at which the store itself serves an asset, as long as a link is valid; None where it does not."""
        if self._store_links is None:
            return None
        return self._store_links(asset.blob, asset.seconds_left, content_type, disposition)

    async def read(self, asset: ServedAsset, start: int, end: int) -> AsyncIterator[bytes]:
        """Stream the bytes from `start` up to `end`, not included; FaultError where they cannot be sent."""
        with _translate_errors():
            return await self._blobs.read(asset.blob, start, end)

    async def verify(self, asset: ServedAsset) -> None:
        """Check whether the bytes could be sent; FaultError as `read`."""
        with _translate_errors():
            await self._blobs.verify(asset.blob, asset.size)


class AssetSweeper:
    """Deletes expired assets and unnamed blobs, a bounded part at every call.

    A call covers one of the 256 folders of the store, so that 256 calls cover everything. Blobs are found by walking
    the store and not by the rows that expire, so that what a crash left behind is found as well.
    """

    def __init__(self, database: Database, blobs: Blobs, clock: Clock, observe: Observer) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._observe = observe
        self._turn = 0

    async def sweep(self) -> None:
        """Sweep one part; the next call takes the next. A database or store that is away is observed."""
        try:
            await self._sweep()
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("sweep assets", str(error)))
        except BlobsUnavailableError as error:
            self._observe(BlobTrouble("sweep assets", str(error)))

    async def _sweep(self) -> None:
        folder = FAN_OUT[self._turn % len(FAN_OUT)]
        self._turn += 1
        now = self._clock.now_ms()
        expired = await self._database.write(lambda c: delete_expired(c, now, _EXPIRED_AT_ONCE))
        removed = 0
        async for page in self._blobs.walk(folder):
            removed += await self._remove_unnamed(page, now)
        abandoned = await self._blobs.sweep(_SPOOL_SECONDS)
        if expired or removed or abandoned:
            self._observe(AssetsSwept(expired, removed, abandoned))

    async def _remove_unnamed(self, page: Sequence[StoredBlob], now: int) -> int:
        old = [blob.name for blob in page if blob.written_at < now - GRACE_MS]
        if not old:
            return 0
        named = await self._database.read(lambda c: named_blobs(c, old, now))
        unnamed = [name for name in old if name not in named]
        for name in unnamed:
            await self._blobs.delete(name)
        return len(unnamed)


async def _exchange(content: bytes, answer: object, links: Mapping[Pointer, str]) -> bytes:
    """Replace links; a large answer is searched in a thread, so that other calls go on meanwhile."""
    if not links:
        return content
    if len(content) < _LARGE_BYTES:
        return exchange_links(content, answer, links)
    return await asyncio.to_thread(exchange_links, content, answer, links)


def _asset_of(id_: str) -> Work[Kept | None]:
    return lambda connection: find_asset(connection, id_)


def _sooner(seconds: int, ms: int | None) -> int:
    """The sooner of two times, in seconds; one in ms may be none."""
    return seconds if ms is None else min(seconds, ms // 1000)


def _is_web_link(url: str) -> bool:
    return url.partition(":")[0].lower() in ("http", "https")


def _reason(error: Exception) -> str:
    """A failure as a word for metrics: the name of its kind, `TooSlowError` as `too_slow`."""
    name = type(error).__name__.removesuffix("Error")
    return "".join("_" + char.lower() if char.isupper() else char for char in name).lstrip("_")


def shown_address(url: str) -> str:
    """A link without what may be secret in it: no query, no fragment, no credentials."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "unreadable"
    return f"{parts.scheme}://{parts.hostname}{parts.path}"[:_SHOWN_CHARACTERS]


def _content_type(headers: Mapping[str, str]) -> str | None:
    return next((value for name, value in headers.items() if name.lower() == "content-type"), None)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except BlobsUnavailableError as error:
        raise FaultError(unreadable_fault(error, "The asset cannot be read right now.")) from error
    except BlobMissingError as error:
        raise FaultError(lost_fault()) from error
    except BlobDamagedError as error:
        raise FaultError(damaged_fault()) from error


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("The asset cannot be read right now.")
