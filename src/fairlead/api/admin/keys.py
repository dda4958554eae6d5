"""A workspace's API keys, its own keys at providers and its webhook secret, over HTTP, for its owners."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, workspace_of
from fairlead.api.admin.bodies import PAGE, FieldError, after_of, answer, limit_of, page_of, read_body
from fairlead.api.admin.documents import Page, Rotation
from fairlead.api.admin.workspace_documents import (
    ApiKeyChange,
    IssuedApiKey,
    KeyShown,
    NewApiKey,
    ProviderKeyBody,
    ProviderKeyShown,
    WebhookSecretShown,
)
from fairlead.api.admin.workspaces import amount_of, organization_of
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import as_time, optional_time
from fairlead.clock import Clock
from fairlead.domain.accounts.key_terms import KeyTerms, end_of, read_networks, stored_networks
from fairlead.domain.accounts.provider_keys import StoredKey
from fairlead.domain.accounts.rights import Right
from fairlead.domain.ledger.budgets import Budget, NoBudgetError, changed_budget, is_team
from fairlead.domain.ledger.money import as_dollars
from fairlead.operations.accounts import keys as operations
from fairlead.operations.accounts.keys import KeyChanges, KeyRecord, UnknownKeyError
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.accounts.webhook_secrets import WebhookSecrets, WorkspaceSecret
from fairlead.operations.catalog import CatalogKeeper, check_models
from fairlead.operations.outages import AnsweringDatabase

_CREATED: Final = 201
_DELETED: Final = 204


class KeyHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of a workspace's secrets; `changed` is called with the id of each changed workspace."""

    database: AnsweringDatabase
    catalog: CatalogKeeper
    provider_keys: ProviderKeys
    webhook_secrets: WebhookSecrets
    key_prefix: str
    changed: Callable[[str], None]
    clock: Clock

    async def list_keys(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/keys`: its API keys, revoked ones too, the newest first."""
        workspace, limit = workspace_of(request), limit_of(request)
        which = f"keys of {workspace.id}"
        after = after_of(request, which)
        found = await operations.list_records(self.database, workspace.id, self.clock, after, limit + 1)
        last = found[limit - 1].id if len(found) > limit else None
        return answer(page_of([_show(one) for one in found[:limit]], which, last))

    async def create_key(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/keys`: an API key, whose secret is shown this once."""
        body, workspace = await read_body(request, NewApiKey), workspace_of(request)
        if body.budget is None and body.budget_period is not None:
            raise FieldError("budget_period", "A period needs a budget.")
        limit = None if body.budget is None else amount_of("budget", body.budget, least=0)
        budget = None if limit is None else changed_budget(None, limit, body.budget_period)
        await self._check_models(workspace.id, body.models or [])
        issued = await operations.issue_key(
            self.database,
            workspace.id,
            body.label,
            None if body.models is None else tuple(body.models),
            self.key_prefix,
            self.clock,
            budget,
            team=_team(body.team),
            organization_id=organization_of(body.organization),
            sso_required=body.sso_required,
            terms=KeyTerms(end_of(body.expires_in_days, self.clock.now_ms()), read_networks(body.networks)),
            by=actor_of(request),
        )
        record = await operations.find_record(self.database, workspace.id, issued.id, self.clock)
        told: IssuedApiKey = {"key": _show(record), "secret": issued.text}
        return answer(told, _CREATED)

    async def show_key(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/keys/{key_id}`: one of them."""
        return answer(_show(await self._key(request)))

    async def change_key(self, request: Request) -> Response:
        """`PATCH /workspaces/{workspace}/keys/{key_id}`: another label, team, budget, end, other models or networks."""
        body, record, by = await read_body(request, ApiKeyChange), await self._key(request), actor_of(request)
        fields = _changed_fields(body, self.clock.now_ms())
        if isinstance(body.models, list):  # one that a key has already may have left the catalog
            await self._check_models(workspace_of(request).id, set(body.models).difference(record.models or []))
        team = msgspec.UNSET if body.team is msgspec.UNSET else _team(body.team)
        changes = KeyChanges(fields, team, _budget_change(body))
        if changes != KeyChanges():
            await operations.change_key(self.database, record.id, changes, self.clock, by)
        self.changed(workspace_of(request).id)
        return answer(_show(await self._key(request)))

    async def _check_models(self, workspace_id: str, names: Iterable[str]) -> None:
        catalog = self.catalog
        await check_models(self.database, catalog.current, workspace_id, "models", names, catalog.today())

    async def rotate_key(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/keys/{key_id}/rotate`: another secret; the old one is good for the overlap."""
        body, record, by = await read_body(request, Rotation), await self._key(request), actor_of(request)
        issued = await operations.rotate_key(
            self.database, record.id, self.key_prefix, body.overlap_hours, self.clock, by
        )
        self.changed(workspace_of(request).id)
        told: IssuedApiKey = {"key": _show(await self._key(request)), "secret": issued.text}
        return answer(told)

    async def revoke_key(self, request: Request) -> Response:
        """`DELETE /workspaces/{workspace}/keys/{key_id}`: no run is admitted with it any more."""
        record = await self._key(request)
        if not await operations.revoke_key(self.database, record.id, self.clock, actor_of(request)):
            raise UnknownKeyError(record.id)
        self.changed(workspace_of(request).id)
        return Response(status_code=_DELETED)

    async def list_provider_keys(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/provider-keys`: its own keys at providers, by provider."""
        found = await self.provider_keys.list_all(workspace_of(request).id)
        return answer(page_of([_shown_provider_key(one) for one in found], "provider keys", None))

    async def put_provider_key(self, request: Request) -> Response:
        """`PUT /workspaces/{workspace}/provider-keys/{provider}`: store a key in place of the one before."""
        body, workspace = await read_body(request, ProviderKeyBody), workspace_of(request)
        provider = request.path_params["provider"]
        told, is_new = await self.provider_keys.put(workspace.id, provider, body.key, actor_of(request))
        return answer(_shown_provider_key(told), _CREATED if is_new else 200)

    async def delete_provider_key(self, request: Request) -> Response:
        """`DELETE /workspaces/{workspace}/provider-keys/{provider}`: forget it."""
        provider = request.path_params["provider"]
        await self.provider_keys.delete(workspace_of(request).id, provider, actor_of(request))
        return Response(status_code=_DELETED)

    async def show_webhook_secret(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/webhook-secret`: the secret with which receivers verify its webhooks."""
        return answer(_shown_secret(await self.webhook_secrets.show(workspace_of(request).id)))

    async def rotate_webhook_secret(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/webhook-secret/rotate`: make a new secret; the old one also signs for a day."""
        secret = await self.webhook_secrets.rotate(workspace_of(request).id, actor_of(request))
        return answer(_shown_secret(secret))

    async def _key(self, request: Request) -> KeyRecord:
        """The key that a path names, of the workspace that it names; UnknownKeyError."""
        key_id = request.path_params["key_id"]
        return await operations.find_record(self.database, workspace_of(request).id, key_id, self.clock)


def _changed_fields(body: ApiKeyChange, now: int) -> dict[str, object]:
    """What a body changes of a key's own row; FieldError, BadTermsError."""
    fields: dict[str, object] = {}
    for name in ("label", "sso_required"):
        if (value := getattr(body, name)) is not msgspec.UNSET:
            fields[name] = value
    if body.models is not msgspec.UNSET:
        fields["models"] = None if body.models is None else tuple(body.models)
    if body.organization is not msgspec.UNSET:
        fields["organization_id"] = organization_of(body.organization)
    if body.expires_in_days is not msgspec.UNSET:
        fields["expires_at"] = end_of(body.expires_in_days, now)
    if body.networks is not msgspec.UNSET:
        fields["networks"] = read_networks(body.networks)
    return fields


def _budget_change(body: ApiKeyChange) -> Callable[[Budget | None], Budget | None] | None:
    """The change of a budget in a body; None where there is none. FieldError."""
    if body.budget is None:
        return lambda _: None
    if body.budget is msgspec.UNSET and body.budget_period is msgspec.UNSET:
        return None
    limit = None if body.budget is msgspec.UNSET else amount_of("budget", body.budget, least=0)
    period = None if body.budget_period is msgspec.UNSET else body.budget_period

    def change(before: Budget | None) -> Budget:
        try:
            return changed_budget(before, limit, period)
        except NoBudgetError as error:
            raise FieldError("budget_period", "A period needs a budget.") from error

    return change


def _team(text: str | None) -> str | None:
    if text is not None and not is_team(text):
        raise FieldError("team", "A team has 1 to 64 printable characters, without spaces at either end.")
    return text


def _show(one: KeyRecord) -> KeyShown:
    return {
        "id": one.id,
        "label": one.label,
        "team": one.team,
        "hint": one.hint,
        "models": one.models,
        "budget": None if one.budget is None else as_dollars(one.budget),
        "budget_period": one.budget_period,
        "spent": None if one.spent is None else as_dollars(one.spent),
        "held": as_dollars(one.held),
        "organization": one.organization_id,
        "sso_required": one.sso_required,
        "networks": list(map(str, stored_networks(one.networks))),
        "created_at": as_time(one.created_at),
        "used_at": optional_time(one.used_at),
        "expires_at": optional_time(one.expires_at),
        "previous_until": optional_time(one.previous_until),
        "revoked_at": optional_time(one.revoked_at),
    }


def _shown_provider_key(key: StoredKey) -> ProviderKeyShown:
    return {"provider": key.provider, "hint": key.hint, "created_at": as_time(key.created_at)}


def _shown_secret(secret: WorkspaceSecret) -> WebhookSecretShown:
    return {
        "secret": secret.text,
        "rotated_at": None if secret.rotated_at is None else as_time(secret.rotated_at),
    }


_KEYS: Final = "/workspaces/{workspace}/keys"
_PROVIDER_KEYS: Final = "/workspaces/{workspace}/provider-keys"
_SECRET: Final = "/workspaces/{workspace}/webhook-secret"  # noqa: S105 -- a path
ROUTES: Final = (
    Route(
        "GET",
        _KEYS,
        KeyHandlers.list_keys,
        "List the API keys of a workspace",
        {200: Answer("A page, the newest first.", Page[KeyShown])},
        (400, 404, 422),
        PAGE,
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "POST",
        _KEYS,
        KeyHandlers.create_key,
        "Create an API key",
        {201: Answer("The key, whose secret is shown this once.", IssuedApiKey)},
        (400, 404, 413, 422),
        body=Body(NewApiKey),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "GET",
        f"{_KEYS}/{{key_id}}",
        KeyHandlers.show_key,
        "Show an API key",
        {200: Answer("What may be told of it.", KeyShown)},
        (404,),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "PATCH",
        f"{_KEYS}/{{key_id}}",
        KeyHandlers.change_key,
        "Change an API key",
        {200: Answer("What may be told of it.", KeyShown)},
        (400, 404, 413, 422),
        body=Body(ApiKeyChange),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "POST",
        f"{_KEYS}/{{key_id}}/rotate",
        KeyHandlers.rotate_key,
        "Give an API key another secret",
        {200: Answer("The key, whose new secret is shown this once.", IssuedApiKey)},
        (400, 404, 413, 422),
        body=Body(Rotation),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "DELETE",
        f"{_KEYS}/{{key_id}}",
        KeyHandlers.revoke_key,
        "Revoke an API key for good",
        {204: Answer("It is revoked.")},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "GET",
        _PROVIDER_KEYS,
        KeyHandlers.list_provider_keys,
        "List a workspace's own keys at providers",
        {200: Answer("What may be told of each.", Page[ProviderKeyShown])},
        (404,),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "PUT",
        f"{_PROVIDER_KEYS}/{{provider}}",
        KeyHandlers.put_provider_key,
        "Store a workspace's own key at a provider",
        {
            200: Answer("It was stored in place of another.", ProviderKeyShown),
            201: Answer("It was stored.", ProviderKeyShown),
        },
        (400, 404, 413, 422),
        body=Body(ProviderKeyBody),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "DELETE",
        f"{_PROVIDER_KEYS}/{{provider}}",
        KeyHandlers.delete_provider_key,
        "Forget a workspace's own key at a provider",
        {204: Answer("It is forgotten.")},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "GET",
        _SECRET,
        KeyHandlers.show_webhook_secret,
        "Show what a workspace's webhooks are signed with",
        {200: Answer("The newest secret.", WebhookSecretShown)},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "POST",
        f"{_SECRET}/rotate",
        KeyHandlers.rotate_webhook_secret,
        "Sign a workspace's webhooks with a new secret",
        {200: Answer("The new secret; the one before signs along for a day.", WebhookSecretShown)},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
)
