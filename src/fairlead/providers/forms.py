"""Bodies as multipart forms: the JSON a caller sent, for partners that take files."""

import base64
import binascii
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, TypeAlias

import jiter
import msgspec

from fairlead.domain.assets.media_types import HEAD_BYTES, extension, media_type
from fairlead.domain.faults import InvalidInput
from fairlead.domain.pointers import Pointer, as_text, find_all, text_of
from fairlead.domain.runs.outcomes import Failed, Reached
from fairlead.providers.spec import Form

FILES_MAX: Final = 16

Download: TypeAlias = Callable[[str], Awaitable[tuple[str, bytes]]]
"""Fetches a link: its media type and its bytes; UnusableFileError."""


class UnusableFileError(Exception):
    """A file that a body names cannot be fetched; the reason is worded for the caller."""


async def write_form(form: Form, body: bytes, download: Download) -> tuple[str, bytes] | Failed:
    """The content type and the bytes of a form; a failure when a file cannot be fetched."""
    document: dict[str, object] = jiter.from_json(body)
    boundary = secrets.token_hex(16)
    pieces: list[bytes] = []
    taken: set[str] = set()
    for part in form.files:
        for place, value in find_all(document, part.at):
            if not isinstance(value, str):
                continue
            taken.add(place[0])
            if len(pieces) >= FILES_MAX:
                return _unusable(place, f"at most {FILES_MAX} files can be sent")
            try:
                kind, content = await _file(value, download)
            except UnusableFileError as error:
                return _unusable(place, str(error))
            filename = f"file{extension(kind)}"
            head = f'form-data; name="{part.name}"; filename="{filename}"\r\nContent-Type: {kind}'
            pieces.append(_piece(boundary, head, content))
    fields = [_piece(boundary, f'form-data; name="{_safe(name)}"', text) for name, text in _fields(document, taken)]
    content = b"".join([*fields, *pieces, f"--{boundary}--\r\n".encode()])
    return f"multipart/form-data; boundary={boundary}", content


def _fields(document: Mapping[str, object], taken: set[str]) -> Iterator[tuple[str, bytes]]:
    """The fields that are not files: scalars as JSON writes them, containers as JSON."""
    for name, value in document.items():
        if name in taken or value is None:
            continue
        text = text_of(value)
        yield name, msgspec.json.encode(value) if text is None else text.encode("utf-8", "replace")


def _piece(boundary: str, head: str, content: bytes) -> bytes:
    return b"".join((f"--{boundary}\r\nContent-Disposition: {head}\r\n\r\n".encode(), content, b"\r\n"))


def _safe(name: str) -> str:
    """A field's name as forms quote it (WHATWG, multipart/form-data encoding)."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


async def _file(value: str, download: Download) -> tuple[str, bytes]:
    if value[:5].lower() == "data:":
        return _inline(value)
    if value[:8].lower().startswith(("http://", "https://")):
        declared, content = await download(value)
        return media_type(declared, content[:HEAD_BYTES]), content
    raise UnusableFileError("it must be a data: URI or a link")


def _inline(uri: str) -> tuple[str, bytes]:
    head, comma, data = uri[5:].partition(",")
    if not comma or not head.endswith(";base64"):
        raise UnusableFileError("a data: URI must be base64")
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise UnusableFileError("its base64 is broken") from error
    return media_type(head.removesuffix(";base64").partition(";")[0], content[:HEAD_BYTES]), content


def _unusable(place: Pointer, reason: str) -> Failed:
    return Failed(InvalidInput(f"The file at {as_text(place)} cannot be used: {reason}."), None, Reached.NOTHING)
