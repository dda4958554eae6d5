"""Assets of the jobs API: sent, made from a hash, read, fetched, deleted (J-14)."""

import re
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.asgi import read_small_json
from fairlead.api.http.forms import Form, read_form
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.route import caller_of
from fairlead.api.http.schemas import as_time
from fairlead.api.jobs.addresses import PREFIX, api_base
from fairlead.api.jobs.documents import PATH_MAX, AssetAdded, AssetFromHash, AssetShown
from fairlead.api.jobs.wire import answer
from fairlead.domain.assets.faults import AssetFaultError, AssetNotFound, BlobNotFound
from fairlead.domain.assets.records import AddedAsset, Asset, BadAssetError, NewAsset, is_asset_id, read_hash
from fairlead.domain.jobs.faults import BadFile, JobFaultError
from fairlead.operations.assets.records import Assets

BODY_MAX: Final = 64 * 1024
_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}( *;[\x20-\x7e]{0,200})?")


_bodies: Final = msgspec.json.Decoder(AssetFromHash)
_FIELD: Final = "file"
_UNCACHED: Final = {"Cache-Control": "no-store"}
# The asset may be deleted at any time, and each call must show a credential that may read it.
_REDIRECTED: Final = {"Cache-Control": "private, no-cache", "Vary": "X-API-Key, Authorization"}


def read_upload(form: Form) -> tuple[str, NewAsset, str | None]:
    """The file name of an uploaded asset, its fields, and the digest it must have; JobFaultError."""
    if form.filename is None:
        raise _bad("Send the bytes as a file in the field file.")
    path = form.fields.get("file_path") or None
    name = path or form.filename
    if not name:
        raise _bad("The asset needs a file_path, or a file with a name.")
    type_ = form.fields.get("content_type") or None
    if type_ is not None and _TYPE.fullmatch(type_) is None:
        raise _bad("content_type must be a media type such as image/png.")
    expected = form.fields.get("expected_hash")
    new = _new(name, type_, _tags(form.fields.get("tags")), _seconds(form.fields.get("expires_in")))
    return name, new, None if expected is None else digest_of(expected, "expected_hash")


def read_from_hash(content: bytes) -> tuple[str, NewAsset]:
    """The digest an asset is made from, and its fields; JobFaultError."""
    try:
        content.decode()
        body = _bodies.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad('The body must be JSON such as {"hash": "blake3:…", "file_path": "photo.png"}.') from error
    return digest_of(body.hash, "hash"), _new(body.file_path, None, body.tags, body.expires_in)


def digest_of(text: str, name: str) -> str:
    """The digest of a hash; JobFaultError if it is not one."""
    if (digest := read_hash(text)) is None:
        raise _bad(f"{name} must be blake3: and 64 digits of lower-case hexadecimal.")
    return digest


def asset_id_of(parameters: Any) -> str:
    """The id in a path; AssetFaultError(AssetNotFound) for a malformed one."""
    asset_id: str = parameters["asset_id"]
    if not is_asset_id(asset_id):
        raise AssetFaultError(AssetNotFound())
    return asset_id


def _new(path: str | None, type_: str | None, tags: list[str], expires_in: int | None) -> NewAsset:
    if path is not None and (len(path) > PATH_MAX or "\0" in path):
        raise _bad(f"file_path may have {PATH_MAX} characters, none of them NUL.")
    try:
        return NewAsset(path, type_, tags, expires_in)
    except BadAssetError as error:
        raise _bad(str(error)) from error


def _tags(text: str | None) -> list[str]:
    """Tags of a form: a JSON array, or separated by commas."""
    if not text:
        return []
    if not text.startswith("["):
        return [tag.strip() for tag in text.split(",")]
    try:
        return msgspec.json.decode(text, type=list[str])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _bad("tags must be a JSON array of texts, or texts with commas between them.") from error


def _seconds(text: str | None) -> int | None:
    if not text:
        return None
    if _SECONDS.fullmatch(text) is None:
        raise _bad("expires_in must be a whole number of seconds.")
    return int(text)


def _bad(message: str) -> JobFaultError:
    return JobFaultError(BadFile(message))


class AssetHandlers(msgspec.Struct, frozen=True):
    """Answers `/api/v2/assets`. `limit` is the size of an upload, in bytes."""

    assets: Assets
    base_urls: BaseUrls
    limit: int

    async def upload_asset(self, request: Request) -> Response:
        """`POST /assets`: keep an uploaded file; 200 where the workspace has this one already."""
        caller = caller_of(request)
        intake = self.assets.receive(caller)
        try:
            async with self.assets.receiving(caller):
                form = await read_form(request, _FIELD, intake, self.limit)
            name, new, expected = read_upload(form)
            return self._answer_added(request, await self.assets.add(caller, intake, name, new, expected))
        finally:
            await intake.abort()

    async def make_asset(self, request: Request) -> Response:
        """`POST /assets/from-hash`: an asset of bytes that are stored already."""
        caller = caller_of(request)
        digest, new = read_from_hash(await read_small_json(request, BODY_MAX))
        return self._answer_added(request, await self.assets.add_known(caller, digest, new))

    async def seek_hash(self, request: Request) -> Response:
        """`HEAD /assets/by-hash/{hash}`: whether the workspace has such bytes; nobody has any of a malformed hash."""
        caller, digest = caller_of(request), read_hash(request.path_params["hash"])
        if digest is None or not await self.assets.knows(caller, digest):
            raise AssetFaultError(BlobNotFound())
        return Response(headers=_UNCACHED)

    async def show_asset(self, request: Request) -> Response:
        """`GET /assets/{id}`: the record of an asset."""
        caller = caller_of(request)
        asset = await self.assets.find(caller, asset_id_of(request.path_params))
        return answer(self._document(request, asset))

    async def delete_asset(self, request: Request) -> Response:
        """`DELETE /assets/{id}`: 204, unless a job still needs it."""
        caller = caller_of(request)
        await self.assets.delete(caller, asset_id_of(request.path_params))
        return Response(status_code=204, headers=_UNCACHED)

    async def show_content(self, request: Request) -> Response:
        """`GET /assets/{id}/content`: 302 to a signed link to the bytes, which clients pass on (K-03)."""
        caller = caller_of(request)
        asset = await self.assets.find_whole(caller, asset_id_of(request.path_params))
        location = self.base_urls.of(request.scope) + asset.link
        return Response(status_code=302, headers={"Location": location, **_REDIRECTED})

    def _answer_added(self, request: Request, added: AddedAsset) -> Response:
        document: AssetAdded = {**self._document(request, added.asset), "created_new": not added.is_known}
        return answer(document, 201 if added.is_new else 200)

    def _document(self, request: Request, asset: Asset) -> AssetShown:
        """An asset. Its link begins with the server's address, others with that of the API."""
        return _document(asset, self.base_urls.of(request.scope), api_base(self.base_urls, request.scope))


def _document(asset: Asset, base: str, api: str) -> AssetShown:
    url = f"{api}{PREFIX}/assets/{asset.id}"
    document: AssetShown = {
        "id": asset.id,
        "hash": f"blake3:{asset.blob}",
        "name": asset.name,
        "file_path": asset.path,
        "content_type": asset.content_type,
        "size_bytes": asset.size,
        "tags": asset.tags,
        "created_at": as_time(asset.created_at),
        "expires_at": None if asset.expires_at is None else as_time(asset.expires_at),
        "url": base + asset.link,
        "url_expires_at": as_time(asset.link_expires_at),
        "urls": {"self": url, "content": f"{url}/content"},
    }
    if asset.job_id is not None:
        document["job_id"] = asset.job_id
    return document
