"""The router's answers, made from domain records (docs/router.md)."""

import datetime
import itertools
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Final
from urllib.parse import parse_qs

import msgspec

from fairlead.api.http.cursors import make_cursor, read_cursor
from fairlead.api.http.schemas import as_time
from fairlead.api.router.documents import ServingProvider
from fairlead.domain.catalog.models import MODALITIES, Model, Selection
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.ledger.estimates import Source, price_lines
from fairlead.domain.ledger.money import UNITS_PER_DOLLAR, as_credits, as_dollars
from fairlead.domain.ledger.rates import card_in_force
from fairlead.domain.runs.selection import RouteOptions
from fairlead.operations.catalog import Page
from fairlead.operations.runs.collect import RequestStatus
from fairlead.operations.runs.estimate import Quoted

_SWITCHES: Final = ("strict_mode", "reject_unknown_fields")
_BOOLEANS: Final = {"true": True, "false": False}
_PARAMETERS_MAX: Final = 32
_SEARCH_MAX: Final = 200
_DIGITS_MAX: Final = 18
_DROPPED_MAX: Final = 64
_DROPPED_ENTRY_BYTES: Final = 300
_DROPPED_BYTES: Final = 4096
_LINK_QUERY: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31}://[^\s?#]*)[?#]\S*")


class ModelListEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model on a catalog page (R-02).

    `modality` is what it makes; `price` are the prices that the workspace pays at its own provider, in dollars and in
    words, absent where they were not asked for or no rate card is in force.
    """

    id: str
    provider: str
    model: str
    billing: dict[str, str]
    title: str
    modality: str | None = None
    price: list[str] = []


class ModelListResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A catalog page (R-02); `next_cursor` is absent on the last one."""

    data: list[ModelListEntry]
    has_more: bool
    limit: int
    next_cursor: str | None = None


class ModelDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    """One model (R-05); `input_schema_url` is absent when no schema is authored."""

    id: str
    provider: str
    model: str
    billing: dict[str, str]
    providers: list[ServingProvider]
    title: str
    input_schema_url: str | None = None
    canonical_id: str | None = None
    modality: str | None = None
    price: list[str] = []


class PricesAsked(msgspec.Struct, frozen=True):
    """That prices were asked for: those of a day, with the workspace's own markup in percent if it has one."""

    day: datetime.date
    markup: Decimal | None


def list_response(page: Page, build: str, priced: PricesAsked | None) -> ModelListResponse:
    """A page as it is sent, with prices where they were asked for."""
    return ModelListResponse(
        data=[_entry(model, priced) for model in page.models],
        has_more=page.after is not None,
        limit=page.limit,
        next_cursor=None if page.after is None else make_cursor(build, page.after),
    )


def detail_response(
    model: Model, schema_url: str, is_available: Callable[[str], bool], priced: PricesAsked | None
) -> ModelDetail:
    """A model as it is sent, its native provider first, then the alternates; with prices where asked for."""
    return ModelDetail(
        id=model.id,
        provider=model.provider,
        model=model.name,
        billing=_billing(model),
        providers=[
            {
                "provider": leg.provider,
                "native": leg is model.native,
                "model": next(iter(leg.names.values())),
                "available": is_available(leg.provider),
            }
            for leg in model.legs
        ],
        title=model.title,
        input_schema_url=schema_url if model.input_schema is not None else None,
        canonical_id=model.canonical_id,
        modality=model.modality,
        price=_price(model, priced),
    )


class CostEstimate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run will cost (R-31): amounts in dollars as text, in cents and credits as numbers.

    `typical_amount` is what it usually costs, where the rate card knows that and the body does not say it.
    """

    source: str
    currency: str
    provider: str
    model: str
    pricing_as_of: str
    amount: str | None = None
    min_amount: str | None = None
    max_amount: str | None = None
    amount_cents: float | None = None
    min_amount_cents: float | None = None
    max_amount_cents: float | None = None
    credits: float | None = None
    reason: str | None = None
    markup_percent: float | None = None
    typical_amount: str | None = None


def estimate_response(quoted: Quoted) -> CostEstimate:
    """An estimate as it is sent, with exactly the fields of its source, and the markup where there is one."""
    found = quoted.estimate
    made = partial(
        CostEstimate,
        found.source.value,
        "USD",
        quoted.provider,
        quoted.model_id,
        as_time(quoted.as_of),
        markup_percent=float(quoted.markup) if quoted.markup and found.source is not Source.UNKNOWN else None,
    )
    match found.source:
        case Source.EXACT:
            return made(
                amount=as_dollars(found.most), amount_cents=_cents(found.most), credits=float(as_credits(found.most))
            )
        case Source.ESTIMATED:
            return made(
                min_amount=as_dollars(found.least),
                max_amount=as_dollars(found.most),
                min_amount_cents=_cents(found.least),
                max_amount_cents=_cents(found.most),
                typical_amount=None if found.typical is None else as_dollars(found.typical),
            )
        case Source.UNKNOWN:
            return made(reason=None if found.reason is None else found.reason.value)


def _cents(amount: int) -> float:
    """An amount in US cents, unrounded: the nearest number there is."""
    return amount / (UNITS_PER_DOLLAR // 100)


class QueueStatusResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status of a queued run (R-33): `queue_position` is 0 outside the queue, `error_type` only where it failed.

    `detail`, which is ours, says why a run waits that its provider could not take yet, and of one under way that it was
    asked to stop (docs/queue.md). `logs` is what clients of another service read, and always null: providers' logs are
    not kept.
    """

    request_id: str
    status: str
    status_url: str
    response_url: str
    cancel_url: str
    queue_position: int
    logs: None
    error_type: str | None = None
    detail: str | None = None


class QueueSubmitResponse(QueueStatusResponse, frozen=True, omit_defaults=True):
    """A run that was taken into the queue (R-32), with the addresses of its status and its result."""

    estimate: CostEstimate | None = None


class QueueCancelResponse(msgspec.Struct, frozen=True):
    """The outcome of a request to cancel (R-35)."""

    request_id: str
    status: str


def submit_response(found: RequestStatus, base: str, quoted: Quoted | None) -> QueueSubmitResponse:
    """A submitted run as it is sent; `base` is how the caller reached us."""
    said = status_response(found, base)
    return QueueSubmitResponse(
        **msgspec.structs.asdict(said), estimate=None if quoted is None else estimate_response(quoted)
    )


def status_response(found: RequestStatus, base: str) -> QueueStatusResponse:
    """The status of a queued run as it is sent."""
    url = f"{base}/v2/models/{found.model_id}/requests/{found.request_id}"
    return QueueStatusResponse(
        request_id=found.request_id,
        status=found.status.value,
        status_url=f"{url}/status",
        response_url=url,
        cancel_url=f"{url}/cancel",
        queue_position=found.position or 0,
        logs=None,
        error_type=found.error_type,
        detail=_detail(found),
    )


def _detail(found: RequestStatus) -> str | None:
    """Why a run waits, or goes on although it was cancelled."""
    if found.is_cancelling:
        return "It was asked to stop. It ends when its provider stops or completes it, and what completes is charged."
    return None if found.tried_again_at is None else _waiting(found.waits_for, found.tried_again_at)


def _waiting(provider: str | None, until: int) -> str:
    return f"The provider {provider} could not take it yet; it is tried again after {as_time(until)}."


def cancel_response(request_id: str, *, is_requested: bool) -> QueueCancelResponse:
    """The outcome of a request to cancel, as it is sent."""
    return QueueCancelResponse(request_id, "CANCELLATION_REQUESTED" if is_requested else "ALREADY_COMPLETED")


def queue_query(query: bytes, native_aliases: Collection[str]) -> RouteOptions:
    """What a submit's query asks for; FaultError(InvalidInput) for odd values (R-32).

    A queued run never falls back. Undeclared fields are not rejected where the body is in a provider's own form.
    """
    parameters = read_query(query)
    if "fallback_provider" in parameters:
        raise FaultError(InvalidInput("A queued run does not fall back: leave out fallback_provider."))
    options = read_route_options(query, native_aliases)
    has_own_form = options.is_strict and options.provider is not None
    reject = options.rejects_unknown and not has_own_form
    return RouteOptions(options.provider, options.is_strict, may_fall_back=False, rejects_unknown=reject)


def webhook_of(query: bytes) -> str | None:
    """The webhook that a submit's query names."""
    return read_query(query).get("webhook_url")


def estimate_query(query: bytes, native_aliases: Collection[str]) -> RouteOptions:
    """Which provider an estimate is asked of; FaultError for what belongs to runs (R-30)."""
    parameters = read_query(query)
    if strange := next((name for name in (*_SWITCHES, "fallback_provider") if name in parameters), None):
        raise FaultError(InvalidInput(f"An estimate does not take {strange}."))
    provider = parameters.get("model_provider")
    return RouteOptions(None if provider is None or provider in native_aliases else provider)


class PageQuery(msgspec.Struct, frozen=True):
    """A query of the catalog: how many models, after which position of which build, which search, if with prices."""

    limit: int | None
    build: str | None
    after: str | None
    wanted: Selection
    has_prices: bool


def page_query(query: bytes) -> PageQuery:
    """Read a query of the catalog; FaultError(InvalidInput) for bad values."""
    parameters = read_query(query)
    limit, cursor = parameters.get("limit"), parameters.get("cursor")
    build, after = (None, None) if cursor is None else read_cursor(cursor)
    size = None if limit is None else _integer("limit", limit)
    return PageQuery(size, build, after, _selection(parameters), asks_for_prices(parameters))


def asks_for_prices(parameters: Mapping[str, str]) -> bool:
    """Whether documents of models are to have prices, which the specification leaves out."""
    return "prices" in parameters and _boolean("prices", parameters["prices"])


def _selection(parameters: Mapping[str, str]) -> Selection:
    """The search in a query: empty values search for nothing."""
    text, modality = parameters.get("q", ""), parameters.get("modality") or None
    if len(text) > _SEARCH_MAX:
        raise FaultError(InvalidInput(f"q must have at most {_SEARCH_MAX} characters."))
    if modality is not None and modality not in MODALITIES:
        raise FaultError(InvalidInput(f"modality must be one of {', '.join(MODALITIES)}, not {modality[:40]!r}."))
    return Selection(tuple(text.lower().split()), modality, parameters.get("provider") or None)


def read_route_options(query: bytes, native_aliases: Collection[str]) -> RouteOptions:
    """What a run's query asks for (decisions: where parameters travel); FaultError(InvalidInput) for odd values.

    Fallback is the exception: by the specification any value other than `false` leaves it on.
    """
    if not query:
        return RouteOptions()
    parameters = read_query(query)
    said = {name: _boolean(name, parameters[name]) for name in _SWITCHES if name in parameters}
    provider = parameters.get("model_provider")
    return RouteOptions(
        provider=None if provider is None or provider in native_aliases else provider,
        is_strict=said.get("strict_mode", False),
        may_fall_back=parameters.get("fallback_provider") != "false",
        rejects_unknown=said.get("reject_unknown_fields", False),
    )


def _boolean(name: str, text: str) -> bool:
    if text not in _BOOLEANS:
        raise FaultError(InvalidInput(f"{name} must be true or false, not {text[:40]!r}."))
    return _BOOLEANS[text]


def dropped_text(dropped: Sequence[str]) -> bytes:
    """What a translation left out as the header has it (R-12): a JSON array of strings in ASCII, encoded once.

    Bounded (decisions): 64 entries, 300 bytes each, 4,096 in all; the last then counts the rest.
    """
    kept: list[str] = []
    for number, entry in enumerate(dropped):
        left = len(dropped) - number
        longer = [*kept, _cut_entry(_LINK_QUERY.sub(r"\1", entry))]  # the query of a link may hold a secret
        rest = [*longer, f"and {left - 1} more"] if left > 1 else longer
        if len(longer) > _DROPPED_MAX - (left > 1) or len(_array_text(rest)) > _DROPPED_BYTES:
            kept.append(f"and {left} more")
            break
        kept = longer
    return _array_text(kept)


def _array_text(entries: Sequence[str]) -> bytes:
    """A JSON array in the ASCII that headers take, with escapes for anything else."""
    return json.dumps(list(entries)).encode("ascii")


def _cut_entry(entry: str) -> str:
    """The part of an entry that fits into its share of the header."""
    sizes = itertools.accumulate(len(json.dumps(char)) - 2 for char in entry[:_DROPPED_ENTRY_BYTES])
    return entry[: sum(size <= _DROPPED_ENTRY_BYTES for size in sizes)]


def read_query(query: bytes) -> dict[str, str]:
    """The first value of every parameter; unknown names are ignored. FaultError(InvalidInput) for bad encoding."""
    try:
        pairs = parse_qs(query.decode("ascii"), keep_blank_values=True, max_num_fields=_PARAMETERS_MAX, errors="strict")
    except ValueError as error:
        raise FaultError(InvalidInput("The query string is malformed.")) from error
    return {name: values[0] for name, values in pairs.items()}


def _integer(name: str, text: str) -> int:
    """A decimal integer; one beyond any bound is cut to a few digits. `int()` would also accept spaces."""
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise FaultError(InvalidInput(f"{name} must be an integer."))
    size = int(digits.lstrip("0")[:_DIGITS_MAX] or "0")
    return -size if text[0] == "-" else size


def _entry(model: Model, priced: PricesAsked | None) -> ModelListEntry:
    return ModelListEntry(
        model.id,
        model.provider,
        model.name,
        _billing(model),
        title=model.title,
        modality=model.modality,
        price=_price(model, priced),
    )


def _price(model: Model, priced: PricesAsked | None) -> list[str]:
    """What the native provider costs, with the operator's markup; nothing where it was not asked for."""
    card = None if priced is None else card_in_force(model.native.rate_cards, priced.day, priced.markup)
    return [] if card is None else list(price_lines(card, card.markup))


def _billing(model: Model) -> dict[str, str]:
    return {"charges_on_policy_rejection": model.charges_on_policy_rejection}
