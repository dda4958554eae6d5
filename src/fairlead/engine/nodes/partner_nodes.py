"""Partner nodes in an engine host: classes of nodes that have a partner's model run, and read its answer.

They are made of the document that a server makes of its catalog (C-11). Nothing here knows a key: the server runs the
model, paid by the job's submitter.
"""

import asyncio
import base64
import binascii
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.domain.assets.media_types import HEAD_BYTES, extension, media_type
from fairlead.domain.catalog.partner_bodies import body_of
from fairlead.domain.catalog.partner_declarations import MODEL_INPUT, Found, Kind, NodeInput, PartnerNode, Place
from fairlead.domain.catalog.partner_nodes import read_partner_nodes
from fairlead.domain.pointers import find_all, parse_pointer
from fairlead.engine.nodes.context import Context, ModelReply, NamedFaultError
from fairlead.engine.nodes.node import Blocked, Declared, Definition, Input, Output, Result
from fairlead.engine.nodes.partner_media import (
    UnusableMediaError,
    as_batch,
    encode_media,
    kind_of,
    read_clip,
    read_pictures,
    read_sound,
)

_VALIDATION: Final = "ValidationError"
_PROVIDER: Final = "ProviderError"
_BODY_BYTES_MAX: Final = 30 * 2**20
"""The largest message of a host, less some room."""
_FILE_PREFIX: Final = "model"
_SHOWN_FILES: Final = "3d"
_DATA: Final = "data:"


def partner_nodes(document: bytes) -> Sequence[Definition]:
    """The classes of a document; msgspec.DecodeError for one that cannot be read."""
    return [_definition(node) for node in read_partner_nodes(document)]


def _definition(node: PartnerNode) -> Definition:
    async def run(context: Context, **given: object) -> Result:
        return await _run(node, context, given)

    has_files = any(output.kind is Kind.FILE for output in node.outputs)
    return Definition(
        name=node.name,
        title=node.title,
        category=node.category,
        inputs=tuple(_input(input_) for input_ in node.inputs),
        outputs=tuple(Output(_type(output.kind), output.name) for output in node.outputs),
        run=run,
        is_output=has_files,  # a mesh is saved as a file, even where no other node takes it
        takes_context=True,
        told={"api_node": True, "description": node.description},
    )


def _input(input_: NodeInput) -> Input:
    return Input(input_.name, Declared(input_.type, dict(input_.options)), input_.is_optional)


def _type(kind: Kind) -> str:
    return Kind.STRING.value if kind is Kind.FILE else kind.value


async def _run(node: PartnerNode, context: Context, given: Mapping[str, Any]) -> Result:
    variant = given.get(MODEL_INPUT, next(iter(node.models)))
    if variant not in node.models:
        raise NamedFaultError(_VALIDATION, f"There is no variant {variant!r} of this model.")
    content = await asyncio.to_thread(_content, node, variant, given)
    context.say(f"{variant} is running")
    reply = await context.run_model(node.models[variant], content)
    context.say(f"{variant} has answered")
    return await asyncio.to_thread(lambda: _Answer(node, reply, context).result())


def _content(node: PartnerNode, variant: str, given: Mapping[str, object]) -> bytes:
    """The body of a call as JSON. NamedFaultError for inputs that make none."""
    values = dict(given)
    try:
        for input_ in node.inputs:
            if input_.media is not None and given.get(input_.name) is not None:
                values[input_.name] = encode_media(input_, given[input_.name])
        content = msgspec.json.encode(body_of(node, variant, values))
    except ValueError as error:  # an input is wrong, or cannot be written as a picture or as JSON
        raise NamedFaultError(_VALIDATION, str(error)) from error
    if len(content) > _BODY_BYTES_MAX:
        raise NamedFaultError(_VALIDATION, f"What the model is given is larger than {_BODY_BYTES_MAX} bytes.")
    return content


class _File(msgspec.Struct, frozen=True):
    """A result: its bytes in a file, and their media type."""

    path: Path
    type: str


class _Answer:
    """The answer of a model, read as the outputs of a node."""

    def __init__(self, node: PartnerNode, reply: ModelReply, context: Context) -> None:
        self._node = node
        self._reply = reply
        self._context = context
        self._document: object = None
        self._ui: dict[str, list[object]] = {}

    def result(self) -> Result:
        """The values of all outputs. An output for which the model made nothing blocks its consumers."""
        if self._reply.body:
            try:
                self._document = msgspec.json.decode(self._reply.body)
            except msgspec.DecodeError as error:
                raise NamedFaultError(_PROVIDER, "The provider's answer is not JSON.") from error
        try:
            values = tuple(self._value(output.kind, output.name) for output in self._node.outputs)
        except UnusableMediaError as error:
            raise NamedFaultError(_PROVIDER, str(error)) from error
        if all(isinstance(value, Blocked) for value in values):
            raise NamedFaultError(_PROVIDER, "The provider answered without a result that can be used.")
        return Result(values, self._ui)

    def _value(self, kind: Kind, name: str) -> object:
        places = [place for place in self._node.places if place.kind is kind]
        if kind is Kind.STRING:
            return self._text(places)
        for place in places:
            if found := list(self._read(place)):
                return as_batch(found) if kind is Kind.IMAGE else found[0]
        return Blocked(f"{self._node.title}: the model gave no {name}.")

    def _text(self, places: Sequence[Place]) -> str:
        """The texts of the first place that has some; a node without places gives the whole answer."""
        if not self._node.places:
            return self._reply.body.decode("utf-8", "replace")
        for place in places:
            found = find_all(self._document, parse_pointer(place.at))
            if texts := [value for _, value in found if isinstance(value, str)]:
                return "\n".join(texts)
        return ""

    def _read(self, place: Place) -> Iterator[Any]:
        readers: Mapping[Kind, Callable[[_File], object]] = {
            Kind.IMAGE: lambda file: read_pictures(file.path),
            Kind.AUDIO: lambda file: read_sound(file.path),
            Kind.VIDEO: lambda file: read_clip(file.path),
            Kind.FILE: self._save,
        }
        with tempfile.TemporaryDirectory() as folder:
            for file in self._files(place, Path(folder)):
                if place.kind is Kind.FILE or kind_of(file.type) is place.kind:
                    yield readers[place.kind](file)
                if place.kind is Kind.FILE:
                    return

    def _files(self, place: Place, folder: Path) -> Iterator[_File]:
        """The files of a place: the whole answer, those that links lead to, or those within it."""
        if place.found is Found.WHOLE:
            yield from self._fetch_linked("")
            return
        for number, (_, value) in enumerate(find_all(self._document, parse_pointer(place.at))):
            if not isinstance(value, str) or not value:
                continue
            if place.found is Found.LINK and not value.startswith(_DATA):
                yield from self._fetch_linked(value)
            else:
                yield _write(folder / str(number), value)

    def _fetch_linked(self, link: str) -> Iterator[_File]:
        path = self._reply.files.get(link)
        if path is not None:
            yield _File(path, self._reply.content_types.get(link) or _sniff(path))

    def _save(self, file: _File) -> str:
        """Save a file without a type of its own, such as a mesh, among the outputs; returns its name."""
        path, saved = self._context.new_file(_FILE_PREFIX, extension(file.type).removeprefix("."))
        path.write_bytes(file.path.read_bytes())
        self._ui.setdefault(_SHOWN_FILES, []).append(saved.as_ui())
        return f"{saved.filename} [output]"


def _write(path: Path, text: str) -> _File:
    """A file of base64 or of a data URI. UnusableMediaError."""
    head, comma, encoded = text.partition(",")
    is_uri = bool(comma) and head.startswith(_DATA)
    try:
        content = base64.b64decode(encoded if is_uri else text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnusableMediaError("What the model gave is not base64.") from error
    path.write_bytes(content)
    declared = head.removeprefix(_DATA).partition(";")[0] if is_uri else None
    return _File(path, media_type(declared, content[:HEAD_BYTES]))


def _sniff(path: Path) -> str:
    with path.open("rb") as file:
        return media_type(None, file.read(HEAD_BYTES))
