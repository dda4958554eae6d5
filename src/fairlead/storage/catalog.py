"""Reading the catalog's files (docs/catalog-files.md): one TOML file a model, its schemas beside it as JSON.

Everything is checked while it is read: a catalog either loads whole, or says which file and line to mend.
"""

import datetime
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from fairlead.domain.billing.rates import Component, Measured, RateCard, Requested
from fairlead.domain.catalog.models import Catalog, Document, Leg, Model, Retirement
from fairlead.domain.catalog.schema import InputSchema, strong_etag
from fairlead.domain.declarations import BadFileError, line_of_json, line_of_toml, read_json, read_toml
from fairlead.domain.identifiers import is_model_id
from fairlead.domain.money import UNITS_PER_DOLLAR, NotAnAmountError, from_dollars
from fairlead.domain.pointers import parse_pointer

AUTHORED_FLAG: Final = "x-service-input-schema-authored"
_CHARGE_MAX: Final = 1_000_000 * UNITS_PER_DOLLAR
"""What one run may cost at the most: a price with a slip of the decimal point is refused when it is loaded."""
_FILE_MAX: Final = 4 * 1024 * 1024

_PointerText = Annotated[str, msgspec.Meta(pattern=r"^/.+$", max_length=256)]
_PriceText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,8})?$")]
_NumberText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?$")]


class _RequestedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    product: Annotated[list[_PointerText], msgspec.Meta(min_length=1)]
    scale: _NumberText = "1"
    unless: _PointerText | None = None


class _MeasuredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer: _PointerText | None = None
    header: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9-]+$")] | None = None
    scale: _NumberText = "1"


class _ComponentFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unit: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    price: _PriceText
    at_most: _NumberText = "1"
    requested: _RequestedFile | None = None
    measured: _MeasuredFile | None = None


class _RateCardFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    effective: datetime.date
    components: Annotated[list[_ComponentFile], msgspec.Meta(min_length=1, max_length=32)]


class _LegFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    provider: str
    call: str
    rate_cards: Annotated[list[_RateCardFile], msgspec.Meta(min_length=1)]


class _RetirementFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    date: datetime.date
    successor: str | None = None


class _ModelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    charges_on_policy_rejection: Literal["yes", "no", "unknown"]
    leg: _LegFile
    input_schema: str | None = None
    output_schema: str | None = None
    output_media_type: str | None = None
    retirement: _RetirementFile | None = None


def load_catalog(folders: Sequence[Path], calls: Mapping[str, frozenset[str]]) -> Catalog:
    """Read every model file below some folders. `calls` names what each provider offers.

    BadFileError for the first file that cannot be used; also for a successor that is no model.
    """
    digest, models, origins = hashlib.sha256(), {}, {}
    for path in _model_files(folders):
        text = _read(path)
        digest.update(text.encode())
        model = _model(path, text, calls, digest)
        if model.id in models:
            raise BadFileError(str(path), line_of_toml(text, ["id"]), f"{model.id} is declared twice")
        models[model.id], origins[model.id] = model, (path, text)
    for model in models.values():
        successor = model.retirement.successor if model.retirement else None
        if successor is not None and successor not in models:
            path, text = origins[model.id]
            line = line_of_toml(text, ["retirement", "successor"])
            raise BadFileError(str(path), line, f"the successor {successor!r} is not in the catalog")
    return Catalog(build=digest.hexdigest()[:16], models=models)


def fingerprint(folders: Sequence[Path]) -> tuple[tuple[str, int, int], ...]:
    """What changes when a catalog file is edited, added or removed: cheap enough to look at every second."""
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in (".toml", ".json"))
    return tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)


def _model_files(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(folder.rglob("*.toml"))


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _FILE_MAX:
            raise BadFileError(str(path), 1, f"the file passes {_FILE_MAX} bytes")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(str(path), 1, f"cannot be read: {error}") from error


def _model(path: Path, text: str, calls: Mapping[str, frozenset[str]], digest: Any) -> Model:
    read = read_toml(text, str(path), _ModelFile)
    if not is_model_id(read.id):
        raise BadFileError(str(path), line_of_toml(text, ["id"]), f"{read.id!r} is not a model id")
    input_document = _schema_file(path, text, "input_schema", read.input_schema, digest)
    output_document = _schema_file(path, text, "output_schema", read.output_schema, digest)
    schema = None if input_document is None else _compile(path, read.input_schema, input_document)
    if output_document is not None:
        _compile(path, read.output_schema, output_document)
    content = msgspec.json.encode(_openapi(read, input_document, output_document))
    return Model(
        id=read.id,
        native=_leg(path, text, read.leg, calls),
        charges_on_policy_rejection=read.charges_on_policy_rejection,
        openapi=Document(content, strong_etag(content)),
        input_schema=schema,
        retirement=None if read.retirement is None else Retirement(read.retirement.date, read.retirement.successor),
    )


def _schema_file(path: Path, text: str, key: str, name: str | None, digest: Any) -> Any:
    """Read a schema beside its model file; its name may not lead out of the folder."""
    if name is None:
        return None
    if Path(name).name != name:
        raise BadFileError(str(path), line_of_toml(text, [key]), f"{name!r} must be a file beside the model file")
    schema = path.parent / name
    if not schema.is_file():
        raise BadFileError(str(path), line_of_toml(text, [key]), f"there is no file {name!r} beside it")
    content = _read(schema)
    digest.update(content.encode())
    return read_json(content, str(schema))


def _compile(path: Path, name: str | None, document: Any) -> InputSchema:
    schema_path = path.parent / str(name)
    try:
        return InputSchema(document)
    except Exception as error:
        steps = list(getattr(error, "instance_path", []))
        line = line_of_json(_read(schema_path), steps)
        reason = str(error).partition("\n")[0]
        raise BadFileError(str(schema_path), line, f"not a usable JSON Schema: {reason}") from error


def _leg(path: Path, text: str, read: _LegFile, calls: Mapping[str, frozenset[str]]) -> Leg:
    if read.provider not in calls:
        raise BadFileError(str(path), line_of_toml(text, ["leg", "provider"]), f"unknown provider {read.provider!r}")
    if read.call not in calls[read.provider]:
        known = ", ".join(sorted(calls[read.provider]))
        reason = f"the provider {read.provider!r} has no call {read.call!r}; it has {known}"
        raise BadFileError(str(path), line_of_toml(text, ["leg", "call"]), reason)
    try:
        return Leg(read.provider, read.call, tuple(_rate_card(card) for card in read.rate_cards))
    except (NotAnAmountError, InvalidOperation) as error:
        raise BadFileError(str(path), line_of_toml(text, ["leg", "rate_cards"]), str(error)) from error


def _rate_card(read: _RateCardFile) -> RateCard:
    components = tuple(_component(component) for component in read.components)
    if sum(component.price * component.at_most for component in components) > _CHARGE_MAX:
        raise NotAnAmountError(
            f"the card {read.version!r} could charge more than {_CHARGE_MAX // UNITS_PER_DOLLAR} dollars"
        )
    return RateCard(read.version, read.effective, components)


def _component(read: _ComponentFile) -> Component:
    return Component(
        unit=read.unit,
        price=from_dollars(read.price),
        at_most=Decimal(read.at_most),
        requested=None if read.requested is None else _requested(read.requested),
        measured=None if read.measured is None else _measured(read.measured),
    )


def _requested(read: _RequestedFile) -> Requested:
    return Requested(
        product=tuple(parse_pointer(text) for text in read.product),
        scale=Decimal(read.scale),
        unless=None if read.unless is None else parse_pointer(read.unless),
    )


def _measured(read: _MeasuredFile) -> Measured:
    return Measured(
        answer=None if read.answer is None else parse_pointer(read.answer),
        header=None if read.header is None else read.header.lower(),
        scale=Decimal(read.scale),
    )


def _openapi(read: _ModelFile, input_document: Any, output_document: Any) -> dict[str, Any]:
    """The standalone OpenAPI 3.1 document of a model (R-07, R-08)."""
    media_type = read.output_media_type or ("application/json" if output_document is not None else "*/*")
    output = {"schema": output_document} if output_document is not None else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": read.id, "summary": read.title, "version": "1"},
        AUTHORED_FLAG: input_document is not None,
        "paths": {
            f"/v2/models/{read.id}": {
                "post": {
                    "operationId": "run",
                    "summary": read.title,
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": input_document or {"type": "object"}}},
                    },
                    "responses": {
                        "200": {"description": "The model's native output.", "content": {media_type: output}}
                    },
                }
            }
        },
    }
