"""Reading the catalog's files (docs/catalog-files.md): one TOML file a model, its schemas beside it as JSON.

Everything is checked while it is read: a catalog either loads whole, or says which file and line to mend.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.domain.catalog.identifiers import is_model_id
from fairlead.domain.catalog.models import Catalog, Document, Leg, Model, Retirement
from fairlead.domain.catalog.operations import Operation
from fairlead.domain.catalog.schema import InputSchema, strong_etag
from fairlead.domain.declarations import BadFileError, line_of_json, line_of_toml, read_json, read_toml
from fairlead.domain.pointers import parse_pointer
from fairlead.storage.catalog.files import (
    ModelFile,
    Offer,
    assets_of,
    billed_operations_of,
    check_priced_operations,
    leg_of,
    operations_of,
)
from fairlead.storage.catalog.rates import MistakeError

_FILE_MAX: Final = 4 * 1024 * 1024
_NO_STRICT_FORM: Final = (
    "callers may send bodies in the form of {!r} (strict_mode), so this leg needs [legs.strict]: "
    "in 'fields' the fields of the provider that such a body may have, each of which is priced or costs nothing"
)


def load_catalog(folders: Sequence[Path], offers: Mapping[str, Offer], flag: str) -> Catalog:
    """Read every model file below some folders. `offers` names what each provider offers.

    `flag` is the extension of schema documents that says whether a schema is authored (R-08). BadFileError for the
    first file that cannot be used; also for a successor or a canonical id that is no model.
    """
    digest, models, origins = hashlib.sha256(), {}, {}
    for path in _model_files(folders):
        text = _read(path)
        digest.update(text.encode())
        model = _model(path, text, offers, digest, flag)
        if model.id in models:
            raise BadFileError(str(path), line_of_toml(text, ["id"]), f"{model.id} is declared twice")
        models[model.id], origins[model.id] = model, (path, text)
    for model in models.values():
        path, text = origins[model.id]
        successor = model.retirement.successor if model.retirement else None
        if successor is not None and successor not in models:
            line = line_of_toml(text, ["retirement", "successor"])
            raise BadFileError(str(path), line, f"the successor {successor!r} is not in the catalog")
        if model.canonical_id is not None and model.canonical_id not in models:
            line = line_of_toml(text, ["canonical_id"])
            raise BadFileError(str(path), line, f"the canonical id {model.canonical_id!r} is not in the catalog")
    return Catalog(build=digest.hexdigest()[:16], models=models)


Fingerprint: TypeAlias = tuple[tuple[str, int, int], ...]
"""The path, the time of change (ns) and the size (bytes) of every catalog file below a folder."""


def fingerprint(folder: Path) -> Fingerprint:
    """What changes when a catalog file below a folder is edited, added or removed: about 5 µs a file."""
    return tuple(sorted(_files_below(folder)))


def _files_below(folder: Path | str) -> Iterator[tuple[str, int, int]]:
    """The path, the time and the size of every catalog file; what is taken away meanwhile is seen at the next look."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path)
            elif entry.name.endswith((".toml", ".json")):
                with suppress(FileNotFoundError):
                    found = entry.stat()
                    yield entry.path, found.st_mtime_ns, found.st_size


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


def _model(path: Path, text: str, offers: Mapping[str, Offer], digest: object, flag: str) -> Model:
    read = read_toml(text, str(path), ModelFile)
    if not is_model_id(read.id):
        raise BadFileError(str(path), line_of_toml(text, ["id"]), f"{read.id!r} is not a model id")
    input_document = _schema_file(path, text, "input_schema", read.input_schema, digest)
    output_document = _schema_file(path, text, "output_schema", read.output_schema, digest)
    schema = None if input_document is None else _compile(path, read.input_schema, input_document)
    if output_document is not None:
        _compile(path, read.output_schema, output_document)
    content = msgspec.json.encode(_openapi(read, input_document, output_document, flag))
    try:
        operations = operations_of(read)
        return Model(
            id=read.id,
            legs=_legs(read, operations, offers),
            charges_on_policy_rejection=read.charges_on_policy_rejection,
            openapi=Document(content, strong_etag(content)),
            input_schema=schema,
            retirement=None if read.retirement is None else Retirement(read.retirement.date, read.retirement.successor),
            operations=operations,
            billed_as=billed_operations_of(read),
            draft_of=None if read.draft_of is None else parse_pointer(read.draft_of),
            assets=assets_of(read),
            canonical_id=read.canonical_id,
            title=read.title,
            modality=read.modality,
        )
    except MistakeError as error:
        raise BadFileError(str(path), line_of_toml(text, error.steps), error.reason) from error


def _legs(read: ModelFile, operations: Sequence[Operation], offers: Mapping[str, Offer]) -> tuple[Leg, ...]:
    """The legs of a model, its own provider's first; MistakeError."""
    check_priced_operations(read)
    segment = read.id.partition("/")[2]
    legs = tuple(
        leg_of(leg, ["legs", str(number)], operations, offers, segment) for number, leg in enumerate(read.legs)
    )
    if legs[0].translation is not None:
        raise MistakeError(["legs", "0", "translation"], "the native leg takes the native body: nothing to translate")
    names = [leg.provider for leg in legs]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise MistakeError(["legs", str(number), "provider"], "two legs of one provider")
    if set(legs[0].calls) != {operation.name for operation in operations}:
        raise MistakeError(["legs", "0", "calls"], "the native leg must serve every operation")
    for number, leg in enumerate(legs[1:], start=1):
        if leg.strict is None and offers[leg.provider].is_alternate:
            raise MistakeError(["legs", str(number)], _NO_STRICT_FORM.format(leg.provider))
    return legs


def _schema_file(path: Path, text: str, key: str, name: str | None, digest: Any) -> object:
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


def _openapi(read: ModelFile, input_document: object, output_document: object, flag: str) -> dict[str, object]:
    """The standalone OpenAPI 3.1 document of a model (R-07, R-08)."""
    media_type = read.output_media_type or ("application/json" if output_document is not None else "*/*")
    output = {"schema": output_document} if output_document is not None else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": read.id, "summary": read.title, "version": "1"},
        flag: input_document is not None,
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
