"""The installation over the administration API: models with prices, providers with their health, settings."""

import asyncio
import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeAlias, TypedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, reach_of
from fairlead.api.admin.bodies import PAGE, FieldError, after_of, answer, limit_of, number_after, page_of, text_of
from fairlead.api.admin.documents import Page
from fairlead.api.admin.runs import WORKSPACE
from fairlead.api.http.route import Access, Answer, Parameter, Route
from fairlead.api.http.schemas import Day, MaybeObject, Time, as_time
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rights import Right
from fairlead.domain.catalog.models import Model, Selection, page_after
from fairlead.domain.faults import FaultError, RequestNotFound
from fairlead.domain.ledger.estimates import Caution, cautions_of, price_lines
from fairlead.domain.ledger.rates import card_in_force
from fairlead.operations.accounts.audit_log import Act, record_act
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.catalog import CatalogKeeper, PriceRow, price_rows
from fairlead.operations.model_trials import Verification, list_verifications
from fairlead.operations.outages import AnsweringDatabase
from fairlead.operations.partners import Partners, PartnerState

_MODELS: Final = "models"
_PRICES: Final = "prices"
_Verified: TypeAlias = Mapping[tuple[str, str], Verification]
"""Verifications by model and provider."""


class VerificationShown(TypedDict):
    """When a model was last tried at a provider's API and did what its files say, and by which version of Fairlead."""

    at: Time
    version: str
    address: str


class LegShown(TypedDict):
    """What a model costs at a provider today; `verified` says when it was tried there, null where it never was.

    `cautions` say of the prices that nothing is estimated by them any more (`stale`), that they were to be checked
    before today (`overdue`), or that they were worked out from a reseller's (`derived`).
    """

    prices: Sequence[str]
    cautions: Sequence[Caution]
    verified: VerificationShown | None


class ServingShown(LegShown):
    """A provider that serves a model: whether it can be called, and what it costs there today."""

    provider: str
    is_native: bool
    is_configured: bool


class ModelShown(LegShown):
    """A model in a list, with its prices and its verification at its maker; `retires_on` is null for one that stays."""

    id: str
    title: str
    modality: str | None
    provider: str
    is_configured: bool
    retires_on: Day | None


class ModelInFull(ModelShown):
    """A model with all that serve it, and the schema of its input as an OpenAPI document; null where it has none."""

    providers: Sequence[ServingShown]
    operations: Sequence[str]
    schema: MaybeObject


class CoolingShown(TypedDict):
    """A workspace for which a credential cools down by its own runs, and how the last of them failed.

    With `until` null the next run of the workspace tries it.
    """

    workspace: str
    until: Time | None
    reason: str


class CredentialShown(TypedDict):
    """A credential of ours at a provider, by its label: its state for all, and the `workspaces` it cools down for."""

    label: str
    state: str
    cooldown_until: Time | None
    workspaces: Sequence[CoolingShown]


class ProviderShown(TypedDict):
    """A provider: whether it can be called, which settings are missing, and its health as observed here."""

    name: str
    title: str
    is_configured: bool
    missing_settings: Sequence[str]
    state: str
    cooldown_until: Time | None
    credentials: Sequence[CredentialShown]
    models: int


class CatalogShown(TypedDict):
    """The catalog in force on the server that answers; `mistake` says why newer files are not in force."""

    build: str
    models: int
    loaded_at: Time
    mistake: str | None


class PriceShown(TypedDict):
    """The prices of a model at a provider from a day on: the vendor's list prices, and the markup in percent on top.

    `checked` is when somebody compared them with their source; null where that is not known. Prices
    that are in force have `cautions`: past `stale_after` (`stale`), past `check_by` (`overdue`), or worked out from a
    reseller's (`derived`).
    """

    model: str
    provider: str
    prices: Sequence[str]
    effective: Day
    markup: str
    source: str | None
    checked: Day | None
    check_by: Day | None
    stale_after: Day | None
    cautions: Sequence[Caution]


class SettingShown(TypedDict):
    """A setting; the value of one that may be a secret is null, and `is_set` says whether there is one."""

    name: str
    value: str | None
    default: str | None
    is_set: bool
    is_secret: bool
    sentence: str


class InstallationHandlers(msgspec.Struct, frozen=True):
    """Answers what is asked about the installation."""

    catalog: CatalogKeeper
    partners: Partners
    authenticator: Authenticator
    settings: Sequence[SettingShown]
    database: AnsweringDatabase
    clock: Clock

    async def show_catalog(self, _request: Request) -> Response:
        """`GET /catalog`: which files are in force."""
        return answer(self._catalog())

    async def reload_catalog(self, request: Request) -> Response:
        """`POST /catalog/reload`: read the files again; a mistake in them is reported, and changes nothing.

        The catalog in force is in the memory of a server, so the audit log has it before it is replaced.
        """
        read = await asyncio.to_thread(self.catalog.read)
        if read is None:
            raise FieldError(None, self.catalog.mistake or "")
        act = Act("catalog.reloaded", None, read.catalog.build, {"models": len(read.catalog.models)})
        await record_act(self.database, actor_of(request), act, self.clock)
        self.catalog.put_in_force(read)
        return answer(self._catalog())

    async def list_prices(self, request: Request) -> Response:
        """`GET /prices`: all rate cards, by model; later ones come into force on their day."""
        limit, after = limit_of(request), number_after(request, _PRICES) or 0
        rows = price_rows(self.catalog.current, self.catalog.today())
        page = rows[after : after + limit]
        more = str(after + limit) if len(rows) > after + limit else None
        return answer(page_of([_price(row) for row in page], _PRICES, more))

    async def end_cooldowns(self, request: Request) -> Response:
        """`POST /providers/{provider}/end-cooldowns`: call it again at once, on the server that answers."""
        return answer(_provider(await self.partners.end_cooldowns(request.path_params["provider"], actor_of(request))))

    async def list_models(self, request: Request) -> Response:
        """`GET /models`: those of a workspace, or all of them, by id."""
        limit, modality, provider = limit_of(request), text_of(request, "modality"), text_of(request, "provider")
        words = tuple((text_of(request, "q") or "").lower().split())
        wanted, catalog = Selection(words, modality, provider), self.catalog.current
        caller = await self._caller(request)
        ids = catalog.selected_ids(caller, self.catalog.today(), wanted)
        found, has_more = page_after(ids, after_of(request, _MODELS), limit)
        verified = _by_leg(await list_verifications(self.database))
        shown = [self._show(catalog.models[id_], verified, caller.markup) for id_ in found]
        return answer(page_of(shown, _MODELS, found[-1] if has_more else None))

    async def show_model(self, request: Request) -> Response:
        """`GET /models/{provider}/{model}`: who serves it, at which prices, and what it takes."""
        id_ = f"{request.path_params['provider']}/{request.path_params['model']}"
        model, caller = self.catalog.current.models.get(id_), await self._caller(request)
        if model is None or not caller.may_run(id_):
            raise FaultError(RequestNotFound(detail="There is no such model."))
        verified = _by_leg(await list_verifications(self.database, id_))
        served: list[ServingShown] = [
            {
                "provider": leg.provider,
                "is_native": leg is model.native,
                "is_configured": leg.provider in self.partners.exchange.configured,
                **self._leg(model, leg.provider, verified, caller.markup),
            }
            for leg in model.legs
        ]
        told: ModelInFull = {
            **self._show(model, verified, caller.markup),
            "providers": served,
            "operations": [one.name for one in model.operations],
            "schema": None if model.input_schema is None else msgspec.Raw(model.openapi.content),
        }
        return answer(told)

    async def list_providers(self, _request: Request) -> Response:
        """`GET /providers`: every provider, by name, with the health that this server has observed."""
        return answer(page_of([_provider(one) for one in await self.partners.states()], "providers", None))

    async def list_settings(self, _request: Request) -> Response:
        """`GET /settings`: every setting of this server, without secrets."""
        return answer(page_of(self.settings, "settings", None))

    async def _caller(self, request: Request) -> Caller:
        """A caller of the workspace that is named; where none is named, a caller who may see everything."""
        reach = reach_of(request)
        if reach.workspace_ids is None:
            return Caller("", "")
        if not reach.workspace_ids:
            raise FaultError(RequestNotFound(detail="There is no workspace of yours."))
        return await self.authenticator.caller_of_workspace(reach.workspace_ids[0], "administration")

    def _catalog(self) -> CatalogShown:
        current = self.catalog.current
        return {
            "build": current.build,
            "models": len(current.models),
            "loaded_at": as_time(self.catalog.loaded_at),
            "mistake": self.catalog.mistake,
        }

    def _show(self, model: Model, verified: _Verified, own: Decimal | None) -> ModelShown:
        retirement = model.retirement
        return {
            "id": model.id,
            "title": model.title,
            "modality": model.modality,
            "provider": model.native.provider,
            "is_configured": any(leg.provider in self.partners.exchange.configured for leg in model.legs),
            **self._leg(model, model.native.provider, verified, own),
            "retires_on": None if retirement is None else retirement.date.isoformat(),
        }

    def _leg(self, model: Model, provider: str, verified: _Verified, own: Decimal | None) -> LegShown:
        leg, today = model.leg(provider), self.catalog.today()
        card = None if leg is None else card_in_force(leg.rate_cards, today, own)
        found = verified.get((model.id, provider))
        return {
            "prices": () if card is None else tuple(price_lines(card, card.markup)),
            "cautions": () if card is None else cautions_of(card, today),
            "verified": None if found is None else _verification(found),
        }


def _price(row: PriceRow) -> PriceShown:
    return {
        "model": row.model,
        "provider": row.provider,
        "prices": row.price,
        "effective": row.effective.isoformat(),
        "markup": row.markup,
        "source": row.source,
        "checked": _day(row.checked),
        "check_by": _day(row.check_by),
        "stale_after": _day(row.stale_after),
        "cautions": row.cautions,
    }


def _by_leg(found: Sequence[Verification]) -> _Verified:
    return {(one.model_id, one.provider): one for one in found}


def _verification(one: Verification) -> VerificationShown:
    return {"at": as_time(one.verified_at), "version": one.version, "address": one.address}


def _day(day: datetime.date | None) -> Day | None:
    return None if day is None else day.isoformat()


def _provider(one: PartnerState) -> ProviderShown:
    return {
        "name": one.name,
        "title": one.title,
        "is_configured": one.is_configured,
        "missing_settings": one.missing_settings,
        "state": one.state,
        "cooldown_until": None if one.cooldown_until is None else as_time(one.cooldown_until),
        "credentials": [
            {
                "label": each.label,
                "state": each.state,
                "cooldown_until": None if each.cooldown_until is None else as_time(each.cooldown_until),
                "workspaces": [
                    {
                        "workspace": cooling.workspace,
                        "until": None if cooling.until is None else as_time(cooling.until),
                        "reason": cooling.reason,
                    }
                    for cooling in each.workspaces
                ],
            }
            for each in one.credentials
        ],
        "models": one.models,
    }


ROUTES: Final = (
    Route(
        "GET",
        "/models",
        InstallationHandlers.list_models,
        "List models with their prices",
        {200: Answer("A page, by id.", Page[ModelShown])},
        (400, 404, 422),
        (
            WORKSPACE,
            Parameter("q", "Only those in whose id or title all these words are."),
            Parameter("modality", "Only those that make this, such as `image`."),
            Parameter("provider", "Only those of this provider."),
            *PAGE,
        ),
        access=Access.MEMBER,
        right=Right.SEE,
    ),
    Route(
        "GET",
        "/models/{provider}/{model}",
        InstallationHandlers.show_model,
        "Show a model with its schema, providers and prices",
        {200: Answer("The model.", ModelInFull)},
        (404,),
        (WORKSPACE,),
        access=Access.MEMBER,
        right=Right.SEE,
    ),
    Route(
        "GET",
        "/providers",
        InstallationHandlers.list_providers,
        "List providers with their health",
        {200: Answer("The providers.", Page[ProviderShown])},
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/providers/{provider}/end-cooldowns",
        InstallationHandlers.end_cooldowns,
        "Call a provider again at once whose credentials cool down",
        {200: Answer("The provider, as the server that answers finds it now.", ProviderShown)},
        (404,),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "GET",
        "/prices",
        InstallationHandlers.list_prices,
        "List what every model costs where, with sources",
        {200: Answer("A page, by model.", Page[PriceShown])},
        (400, 422),
        PAGE,
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "GET",
        "/catalog",
        InstallationHandlers.show_catalog,
        "Show which catalog is in force",
        {200: Answer("The catalog.", CatalogShown)},
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/catalog/reload",
        InstallationHandlers.reload_catalog,
        "Read the files of the catalog again",
        {200: Answer("The catalog that is in force now.", CatalogShown)},
        (422,),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "GET",
        "/settings",
        InstallationHandlers.list_settings,
        "List the settings of this server",
        {200: Answer("The settings.", Page[SettingShown])},
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
)
