"""Reading the catalog's files (docs/catalog-files.md): one TOML file a model, its schemas beside it as JSON.

Everything is checked while it is read: a catalog either loads completely, or its error names the file and line to fix.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    check_priced_operations,
    fill_in_components,
    leg_of,
    operations_of,
    read_billed_operations,
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
    first file that cannot be used; also for a successor or a canonical id that is not a model.
    """
    digest, models, origins = hashlib.sha256(), dict[str, Model](), dict[str, Path]()
    schemas = _SchemaFiles(digest.update)
    for path in _model_files(folders):
        text = _read(path)
        digest.update(text.encode())
        model = _model(path, text, offers, flag, schemas)
        if model.id in models:
            raise BadFileError(str(path), line_of_toml(text, ["id"]), f"{model.id} is declared twice")
        models[model.id], origins[model.id] = model, path
    for model in models.values():
        path = origins[model.id]
        successor = model.retirement.successor if model.retirement else None
        if successor is not None and successor not in models:
            line = line_of_toml(_read(path), ["retirement", "successor"])
            raise BadFileError(str(path), line, f"the successor {successor!r} is not in the catalog")
        if model.canonical_id is not None and model.canonical_id not in models:
            line = line_of_toml(_read(path), ["canonical_id"])
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


class _SchemaFile(msgspec.Struct, frozen=True):
    """A schema as it was read: the file's bytes, and what calls are validated by."""

    content: bytes
    schema: InputSchema

    @property
    def document(self) -> msgspec.Raw | None:
        """The schema as a part of other documents; None for one that says nothing."""
        return None if self.schema.text == b"{}" else msgspec.Raw(self.schema.text)


class _SchemaFiles:
    """The schemas of one loading: each file is read and compiled once, however many models name it.

    `note` is called with the text of each schema that a model names, in order.
    """

    def __init__(self, note: Callable[[bytes], None]) -> None:
        self._note = note
        self._files: dict[Path, _SchemaFile] = {}

    def find(self, path: Path, text: str, key: str, name: str | None) -> _SchemaFile | None:
        """The schema that the model file at `path` names at `key`; its name may not lead out of the folder."""
        if name is None:
            return None
        if Path(name).name != name:
            raise BadFileError(str(path), line_of_toml(text, [key]), f"{name!r} must be a file beside the model file")
        file = path.parent / name
        if file not in self._files:
            if not file.is_file():
                raise BadFileError(str(path), line_of_toml(text, [key]), f"there is no file {name!r} beside it")
            self._files[file] = _read_schema(file)
        self._note(self._files[file].content)
        return self._files[file]


def _read_schema(file: Path) -> _SchemaFile:
    text = _read(file)
    document: Any = read_json(text, str(file))
    try:
        return _SchemaFile(text.encode(), InputSchema(document))
    except Exception as error:
        line = line_of_json(text, list(getattr(error, "instance_path", [])))
        reason = str(error).partition("\n")[0]
        raise BadFileError(str(file), line, f"not a usable JSON Schema: {reason}") from error


def _model(path: Path, text: str, offers: Mapping[str, Offer], flag: str, schemas: _SchemaFiles) -> Model:
    read = read_toml(text, str(path), ModelFile, fill_in_components)
    if not is_model_id(read.id):
        raise BadFileError(str(path), line_of_toml(text, ["id"]), f"{read.id!r} is not a model id")
    input_file = schemas.find(path, text, "input_schema", read.input_schema)
    output_file = schemas.find(path, text, "output_schema", read.output_schema)
    content = msgspec.json.encode(_openapi(read, input_file, output_file, flag))
    try:
        operations = operations_of(read)
        return Model(
            id=read.id,
            legs=_legs(read, operations, offers),
            charges_on_policy_rejection=read.charges_on_policy_rejection,
            openapi=Document(content, strong_etag(content)),
            input_schema=None if input_file is None else input_file.schema,
            retirement=None if read.retirement is None else Retirement(read.retirement.date, read.retirement.successor),
            operations=operations,
            billed_as=read_billed_operations(read),
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


def _openapi(
    read: ModelFile, input_file: _SchemaFile | None, output_file: _SchemaFile | None, flag: str
) -> dict[str, object]:
    """The standalone OpenAPI 3.1 document of a model (R-07, R-08)."""
    media_type = read.output_media_type or ("application/json" if output_file is not None else "*/*")
    body = None if input_file is None else input_file.document
    output: dict[str, object] = {} if output_file is None else {"schema": output_file.document or {}}
    return {
        "openapi": "3.1.0",
        "info": {"title": read.id, "summary": read.title, "version": "1"},
        flag: input_file is not None,
        "paths": {
            f"/v2/models/{read.id}": {
                "post": {
                    "operationId": "run",
                    "summary": read.title,
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": body or {"type": "object"}}},
                    },
                    "responses": {
                        "200": {"description": "The model's native output.", "content": {media_type: output}}
                    },
                }
            }
        },
    }
