"""Assets of the jobs API: sent, made from a hash, read, fetched, deleted (J-14)."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.forms import read_form
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.json_bodies import read_small_json
from fairlead.api.http.route import caller_of
from fairlead.api.http.schemas import as_time
from fairlead.api.jobs.addresses import PREFIX, api_base
from fairlead.api.jobs.asset_fields import BODY_MAX, asset_id_of, digest_of, read_from_hash, read_upload
from fairlead.api.jobs.documents import AssetAdded, AssetShown
from fairlead.api.jobs.wire import answer
from fairlead.domain.assets.faults import AssetFaultError, BlobNotFound
from fairlead.domain.assets.records import AddedAsset, Asset
from fairlead.operations.assets.records import Assets

_FIELD: Final = "file"
_UNCACHED: Final = {"Cache-Control": "no-store"}
# The asset may be deleted at any time, and anyone who asks must be who may.
_REDIRECTED: Final = {"Cache-Control": "private, no-cache", "Vary": "X-API-Key, Authorization"}


@dataclass(frozen=True, slots=True)
class AssetHandlers:
    """Answers `/api/v2/assets`. `limit` is how many bytes an asset may have that is sent."""

    assets: Assets
    base_urls: BaseUrls
    limit: int

    async def upload_asset(self, request: Request) -> Response:
        """`POST /assets`: keep a file that is sent; 200 where there was this one already."""
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
        """`POST /assets/from-hash`: an asset of bytes that need not be sent again."""
        caller = caller_of(request)
        digest, new = read_from_hash(await read_small_json(request, BODY_MAX))
        return self._answer_added(request, await self.assets.add_known(caller, digest, new))

    async def seek_hash(self, request: Request) -> Response:
        """`HEAD /assets/by-hash/{hash}`: whether the workspace has such bytes."""
        caller = caller_of(request)
        if not await self.assets.knows(caller, digest_of(request.path_params["hash"], "The hash")):
            raise AssetFaultError(BlobNotFound())
        return Response(headers=_UNCACHED)

    async def show_asset(self, request: Request) -> Response:
        """`GET /assets/{id}`: what is known of an asset."""
        caller = caller_of(request)
        asset = await self.assets.find(caller, asset_id_of(request.path_params))
        return answer(self._document(request, asset))

    async def delete_asset(self, request: Request) -> Response:
        """`DELETE /assets/{id}`: 204, unless a job still needs it."""
        caller = caller_of(request)
        await self.assets.delete(caller, asset_id_of(request.path_params))
        return Response(status_code=204, headers=_UNCACHED)

    async def show_content(self, request: Request) -> Response:
        """`GET /assets/{id}/content`: 302 to a signed link to the bytes, which clients hand to others (K-03)."""
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
