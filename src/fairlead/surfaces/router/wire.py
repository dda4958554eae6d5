"""The router's shapes on the wire, written from domain records (docs/router.md)."""

from typing import Any
from urllib.parse import parse_qs

import msgspec

from fairlead.domain.catalog.models import Model
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.operations.catalog import Page
from fairlead.surfaces.cursors import make_cursor, read_cursor

NATIVE_ALIASES = ("default", "service", "native")
_BOOLEANS = {"true": True, "false": False}
_PARAMETERS_MAX = 32


class ModelListEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model on a catalog page (R-02)."""

    id: str
    provider: str
    model: str
    billing: dict[str, str]


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
    providers: list[dict[str, Any]]
    input_schema_url: str | None = None


def list_response(page: Page, build: str) -> ModelListResponse:
    """A page as it is sent."""
    return ModelListResponse(
        data=[_entry(model) for model in page.models],
        has_more=page.after is not None,
        limit=page.limit,
        next_cursor=None if page.after is None else make_cursor(build, page.after),
    )


def detail_response(model: Model, schema_url: str, *, available: bool) -> ModelDetail:
    """A model as it is sent."""
    return ModelDetail(
        id=model.id,
        provider=model.provider,
        model=model.name,
        billing=_billing(model),
        providers=[{"provider": model.native.provider, "native": True, "model": model.id, "available": available}],
        input_schema_url=schema_url if model.input_schema is not None else None,
    )


def page_query(query: bytes) -> tuple[int | None, str | None, str | None]:
    """`limit` and the cursor's build and position; FaultError(InvalidInput) for values that are none."""
    parameters = read_query(query)
    limit, cursor = parameters.get("limit"), parameters.get("cursor")
    build, after = (None, None) if cursor is None else read_cursor(cursor)
    return (None if limit is None else _integer("limit", limit)), build, after


def check_run_query(query: bytes) -> None:
    """Refuse values the run route does not know (decisions: where parameters travel). FaultError(InvalidInput)."""
    if not query:
        return
    parameters = read_query(query)
    for name in ("strict_mode", "fallback_provider", "reject_unknown_fields"):
        if name in parameters and parameters[name] not in _BOOLEANS:
            raise FaultError(InvalidInput(f"{name} must be true or false, not {parameters[name][:40]!r}."))
    provider = parameters.get("model_provider")
    if provider is not None and provider not in NATIVE_ALIASES:
        raise FaultError(InvalidInput(f"model_provider {provider[:64]!r} does not serve this model."))


def read_query(query: bytes) -> dict[str, str]:
    """The first value of every parameter; unknown names are left alone. FaultError(InvalidInput) for bad encoding."""
    try:
        pairs = parse_qs(query.decode("ascii"), keep_blank_values=True, max_num_fields=_PARAMETERS_MAX, errors="strict")
    except ValueError as error:
        raise FaultError(InvalidInput("The query string is malformed.")) from error
    return {name: values[0] for name, values in pairs.items()}


def _integer(name: str, text: str) -> int:
    """A decimal integer of a sane length: `int()` alone would take underscores, spaces and megabytes of digits."""
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):  # noqa: PLR2004 -- fits 64 bits
        raise FaultError(InvalidInput(f"{name} must be an integer."))
    return int(text)


def _entry(model: Model) -> ModelListEntry:
    return ModelListEntry(model.id, model.provider, model.name, _billing(model))


def _billing(model: Model) -> dict[str, str]:
    return {"charges_on_policy_rejection": model.charges_on_policy_rejection}
