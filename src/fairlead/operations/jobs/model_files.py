"""The files of partner nodes: pictures that a partner takes as links, and results that links lead to."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.assets.media_types import HEAD_BYTES, extension, is_shown, media_type
from fairlead.domain.catalog.body import read_body
from fairlead.domain.catalog.models import Model
from fairlead.domain.catalog.partner_bodies import LINK_WANTED
from fairlead.domain.catalog.partner_results import links_of, places_of
from fairlead.domain.faults import FaultError, InvalidInput, ServiceUnavailable
from fairlead.domain.runs.outcomes import Completed
from fairlead.engine.hosts.service import DeclinedError, ModelAnswer
from fairlead.http_client.outcomes import Reply
from fairlead.http_client.transport import TransportError
from fairlead.identity.links import ASSET_PATH, Links
from fairlead.operations.assets.results import AssetReader, Fetch, shown_address
from fairlead.operations.jobs.model_faults import PROVIDER
from fairlead.operations.jobs.patience import passes
from fairlead.providers.answers import AnswerDecoder
from fairlead.storage.assets.results import Asset, insert_assets
from fairlead.storage.blobs.store import BlobLostError, BlobsUnavailableError, BlobTooLargeError, FileBlobs
from fairlead.storage.db.database import Database, DatabaseUnavailableError

FILES_MAX: Final = 64
"""How many files a call may give as links, and a result may name."""
_OK: Final = 200
_AT_ONCE: Final = 16
_SECONDS: Final = 240.0
_GIVEN_SECONDS: Final = 48 * 3600
"""How long a link to a picture for a partner is valid: the run may wait for a day."""
_LINK_PARAMETERS: Final = frozenset({"expires", "disposition", "name", "signature"})
_MARK: Final = LINK_WANTED.encode()
_LARGE_BYTES: Final = 256 * 1024
_JSON: Final = "application/json"


class ModelFiles:
    """Replaces files by links and links by files, each within `limit` bytes.

    Links of ours begin with `base_url`. `may_follow` says whether a provider's answer may send us to an address.
    """

    def __init__(
        self,
        reader: AssetReader,
        links: Links,
        blobs: FileBlobs,
        database: Database,
        fetch: Fetch,
        may_follow: Callable[[str, str], bool],
        clock: Clock,
        answers: AnswerDecoder,
        *,
        base_url: str,
        limit: int,
    ) -> None:
        self._reader = reader
        self._links = links
        self._blobs = blobs
        self._database = database
        self._fetch = fetch
        self._may_follow = may_follow
        self._clock = clock
        self._answers = answers
        self.base_url: Final = base_url
        self._limit = limit
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def link_media(self, content: bytes, workspace_id: str, run_id: str) -> bytes:
        """A body in which marked media are replaced by links that are valid for two days; FaultError."""
        if _MARK not in content:
            return content
        body = read_body(content)
        marked = _Marked(body)
        if len(marked.texts) > FILES_MAX:
            raise FaultError(InvalidInput(f"A model is given at most {FILES_MAX} files as links."))
        assets = {text: await self._make_asset(text, workspace_id, run_id) for text in marked.texts}
        try:
            await self._database.write(lambda c: insert_assets(c, assets.values()))
        except DatabaseUnavailableError as error:
            raise FaultError(_away()) from error
        return msgspec.json.encode(marked.exchange({text: self._link(asset) for text, asset in assets.items()}))

    async def answer(self, workspace_id: str, model: Model, outcome: Completed) -> ModelAnswer:
        """A model's answer with the files of its results; DeclinedError for one that cannot be downloaded.

        FaultError(ServiceUnavailable) while files cannot be stored; the call may be repeated.
        """
        if not outcome.content_type.startswith(_JSON):
            given = await self._keep(outcome.content)
            type_ = media_type(outcome.content_type, outcome.content[:HEAD_BYTES])
            return ModelAnswer(b"", {"": await self._path(given)}, {"": type_})
        told = Reply(outcome.upstream_status, {"content-type": outcome.content_type}, outcome.content)
        found = links_of(places_of(model), (await self._answers.read(workspace_id, told)).document)
        if len(found) > FILES_MAX:
            raise DeclinedError(PROVIDER, f"The provider answered with more than {FILES_MAX} files.")
        async with asyncio.TaskGroup() as group:
            tasks = {link: group.create_task(self._attempt(model, link)) for link in found}
        files: dict[str, Path] = {}
        types: dict[str, str] = {}
        for link, task in tasks.items():
            result = task.result()
            if isinstance(result, Exception):
                raise result
            files[link], types[link] = result
        return ModelAnswer(outcome.content, files, types)

    async def _make_asset(self, text: str, workspace_id: str, run_id: str) -> Asset:
        """The asset of a marked data URI, not yet recorded."""
        type_, content = await _in_thread(text, lambda: _decode(text))
        blob = await self._keep(content)
        now = self._clock.now_ms()
        safe = media_type(type_, content[:HEAD_BYTES])
        return Asset(
            id=new_id(),
            workspace_id=workspace_id,
            run_id=run_id,
            blob=blob,
            size=len(content),
            content_type=safe,
            name=f"input{extension(safe)}",
            created_at=now,
            expires_at=(now // 1000 + _GIVEN_SECONDS) * 1000,
        )

    def _link(self, asset: Asset) -> str:
        disposition = "inline" if is_shown(asset.content_type) else "attachment"
        return self.base_url + self._links.sign(asset.id, asset.expires_at // 1000, asset.name, disposition)

    async def _attempt(self, model: Model, link: str) -> tuple[Path, str] | DeclinedError | FaultError:
        """The file of a link and its type, or why there is none."""
        not_fetched = DeclinedError(PROVIDER, f"The result at {shown_address(link)} could not be fetched.")
        try:
            return await self._fetch_file(model, link)
        except DeclinedError as error:
            return error
        except FaultError as error:
            return error if passes(error) else not_fetched
        except (TransportError, TimeoutError, BlobTooLargeError, BlobLostError):
            return not_fetched

    async def _fetch_file(self, model: Model, link: str) -> tuple[Path, str]:
        try:
            if own := await self._own(link):
                return own
            async with self._turns, asyncio.timeout(_SECONDS):
                return await self._download(model, link)
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error

    async def _own(self, link: str) -> tuple[Path, str] | None:
        """The file of a link of ours; None for any other link."""
        if not link.startswith(self.base_url + ASSET_PATH):
            return None
        parts = urlsplit(link)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if query.keys() != _LINK_PARAMETERS:
            return None
        id_ = parts.path.rpartition("/")[2]
        asset = await self._reader.find(id_, query["expires"], query["disposition"], query["name"], query["signature"])
        return await self._blobs.local_path(asset.blob), asset.content_type

    async def _download(self, model: Model, link: str) -> tuple[Path, str]:
        if not self._may_follow(model.native.provider, link):
            raise DeclinedError(PROVIDER, f"The provider's link {shown_address(link)} leads where none of its may.")
        writer = self._blobs.writer(self._limit)
        intake = _Intake(writer.write)
        try:
            answered = await self._fetch(link, {}, seconds=_SECONDS, limit=self._limit, sink=intake.write)
            if answered.status != _OK:
                why = f"was answered with {answered.status}"
                raise DeclinedError(PROVIDER, f"The result at {shown_address(link)} {why}.")
            blob = await writer.commit()
        finally:
            await writer.abort()
        return await self._blobs.local_path(blob), media_type(_content_type(answered.headers), intake.head)

    async def _keep(self, content: bytes) -> str:
        """Bytes as a blob; FaultError where they are too many or the store is away."""
        writer = self._blobs.writer(self._limit)
        try:
            await writer.write(content)
            return await writer.commit()
        except BlobTooLargeError as error:
            raise FaultError(InvalidInput(f"A file has more than {self._limit} bytes.")) from error
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error
        finally:
            await writer.abort()

    async def _path(self, blob: str) -> Path:
        try:
            return await self._blobs.local_path(blob)
        except (BlobLostError, BlobsUnavailableError) as error:
            raise FaultError(_away()) from error


class _Intake(msgspec.Struct):
    """The sink of a download, which keeps its first bytes."""

    sink: Callable[[bytes], Awaitable[None]]
    head: bytes = b""

    async def write(self, chunk: bytes) -> None:
        if len(self.head) < HEAD_BYTES:
            self.head += bytes(chunk[: HEAD_BYTES - len(self.head)])
        await self.sink(chunk)


class _Marked:
    """The marked texts of a body, which can be replaced."""

    def __init__(self, body: dict[str, object]) -> None:
        self._body = body
        self.texts = list(dict.fromkeys(self._find(body)))

    def exchange(self, links: Mapping[str, str]) -> object:
        """The body with links in place of what was marked."""
        return self._with(self._body, links)

    def _find(self, value: object) -> list[str]:
        match value:
            case str() if value.startswith(LINK_WANTED):
                return [value]
            case dict():
                return [text for item in value.values() for text in self._find(item)]
            case list():
                return [text for item in value for text in self._find(item)]
            case _:
                return []

    def _with(self, value: object, links: Mapping[str, str]) -> object:
        match value:
            case str():
                return links.get(value, value)
            case dict():
                return {name: self._with(item, links) for name, item in value.items()}
            case list():
                return [self._with(item, links) for item in value]
            case _:
                return value


def _decode(text: str) -> tuple[str, bytes]:
    """The type and the bytes of a marked data URI; FaultError."""
    head, comma, encoded = text.removeprefix(LINK_WANTED).partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise FaultError(InvalidInput("A file that is to become a link must be a data URI in base64."))
    try:
        return head[5:-7], base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise FaultError(InvalidInput("A file that is to become a link is not base64.")) from error


async def _in_thread(content: bytes | str, work: Callable[[], object]) -> Any:
    """Run a function here for a small document, and in a thread for a large one, so that others go on meanwhile."""
    return work() if len(content) < _LARGE_BYTES else await asyncio.to_thread(work)


def _content_type(headers: Mapping[str, str]) -> str | None:
    return next((value for name, value in headers.items() if name.lower() == "content-type"), None)


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("Files cannot be kept or read right now.")
