"""The routes of a workspace's own provider keys (R-17). A key comes in by PUT, and never goes out."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.asgi import header, read_small_json
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.route import caller_of
from fairlead.api.http.schemas import as_time
from fairlead.api.router.documents import ProviderKeyList, ProviderKeyShown
from fairlead.api.router.runs import check_content_type
from fairlead.domain.accounts.callers import ROUTER_GATE, Caller, refuse_gate, refuse_provider
from fairlead.domain.accounts.provider_keys import StoredKey, refuse_managing
from fairlead.domain.catalog.body import read_body
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.operations.accounts.provider_keys import ProviderKeys

_BODY_MAX: Final = 64 * 1024
_BAD_BODY: Final = 'The body must be a JSON object with one field, `key`, which is a text: {"key": "…"}.'
_UNCACHED: Final = {"Cache-Control": "no-store"}
_encode: Final = msgspec.json.Encoder().encode


class ProviderKeyHandlers(msgspec.Struct, frozen=True):
    """Answers the provider key routes, for the workspace of the caller alone."""

    keys: ProviderKeys
    base_urls: BaseUrls

    async def list_provider_keys(self, request: Request) -> Response:
        """`GET /provider-keys`: what may be shown of every key; there is at most one for each provider."""
        caller = self._manager(request)
        stored = await self.keys.list_all(caller.workspace_id)
        return _answer(ProviderKeyList(data=[_describe(key) for key in stored]))

    async def show_provider_key(self, request: Request) -> Response:
        """`GET /provider-keys/{provider}`: what may be shown of one key."""
        caller = self._manager(request)
        return _answer(_describe(await self.keys.find(caller.workspace_id, request.path_params["provider"])))

    async def put_provider_key(self, request: Request) -> Response:
        """`PUT /provider-keys/{provider}`: store a key, 201; or replace the one before, 200."""
        caller = self._manager(request)
        provider = request.path_params["provider"]
        self.keys.check_provider(provider)
        if fault := refuse_provider(caller, provider):
            raise FaultError(fault)
        check_content_type(header(request.scope, b"content-type"))
        text = _key_of(await read_small_json(request, _BODY_MAX))
        stored, is_new = await self.keys.put(
            caller.workspace_id, provider, text, self.base_urls.actor_of(request.scope, caller)
        )
        return _answer(_describe(stored), 201 if is_new else 200)

    async def delete_provider_key(self, request: Request) -> Response:
        """`DELETE /provider-keys/{provider}`: forget a key, 204. No policy stands in the way of that."""
        caller = self._manager(request)
        by = self.base_urls.actor_of(request.scope, caller)
        await self.keys.delete(caller.workspace_id, request.path_params["provider"], by)
        return Response(status_code=204)

    def _manager(self, request: Request) -> Caller:
        """The caller, if the router is open to it and its credential is not limited to some models; FaultError."""
        caller = caller_of(request)
        if fault := refuse_gate(caller, ROUTER_GATE, "The model router") or refuse_managing(caller):
            raise FaultError(fault)
        return caller


def _key_of(content: bytes) -> str:
    """The key in a body; FaultError(InvalidInput), which never repeats any of the body."""
    try:
        body = read_body(content)
    except FaultError:
        raise FaultError(InvalidInput(_BAD_BODY)) from None
    if set(body) != {"key"} or not isinstance(body["key"], str):
        raise FaultError(InvalidInput(_BAD_BODY))
    return str(body["key"])


def _describe(key: StoredKey) -> ProviderKeyShown:
    return {"provider": key.provider, "hint": key.hint, "created_at": as_time(key.created_at)}


def _answer(document: object, status: int = 200) -> Response:
    return Response(_encode(document), status, _UNCACHED, "application/json")
