"""Forms with files (multipart/form-data, RFC 7578), read as they come: no file is ever gathered in memory.

The names, the fields and the number of the parts have bounds; the receiver of a file bounds its bytes.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Protocol

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from fairlead.api.http.asgi import CallerLeftError
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.jobs.faults import BadFile, FileTooLarge, JobFaultError

PARTS_MAX: Final = 32
FIELD_BYTES_MAX: Final = 64 * 1024
_NAME_BYTES_MAX: Final = 2_000
_AROUND_BYTES_MAX: Final = 2**20
"""What a body may have around the bytes of its file: boundaries, headers, fields, a file that is not expected."""
_PIECE_SECONDS: Final = 60.0
_STEP_SECONDS: Final = 1.0
"""The steps in which the time limit of a piece moves on: a timer for every piece would be 5 % of an upload's cost."""
_BODY_SECONDS: Final = 3600.0


class Sink(Protocol):
    """Takes the bytes of a file."""

    async def write(self, chunk: bytes) -> None:
        """Take more of them; what it raises ends the reading."""
        ...


class Form(msgspec.Struct):
    """A form that was read: its fields, and the name of its file, None where there was none."""

    fields: dict[str, str] = msgspec.field(default_factory=dict)
    filename: str | None = None


async def read_form(request: Request, file: str, sink: Sink, limit: int) -> Form:
    """Read a form to its end, with the bytes of the field `file`, at most `limit`, going to `sink`.

    Of a field that comes twice the first counts; files in other fields are skipped. JobFaultError for a body
    that is not such a form, ends early, is too slow or too large; CallerLeftError when the caller has left.
    """
    reading = _Reading(file, sink)
    left = limit + _AROUND_BYTES_MAX
    try:
        async with asyncio.timeout(_PIECE_SECONDS) as bound:
            parser = MultipartParser(_boundary(request), reading.callbacks())
            async for chunk in _pieces(request, bound):
                left -= len(chunk)
                if left < 0:
                    raise JobFaultError(FileTooLarge(limit))
                parser.write(chunk)
                await reading.go_on()
    except FormParserError as error:
        raise JobFaultError(BadFile("The body is not well-formed multipart/form-data.")) from error
    except ClientDisconnect as error:
        raise CallerLeftError from error
    except TimeoutError as error:
        raise JobFaultError(BadFile("The body came too slowly.")) from error
    if not reading.is_whole:
        raise JobFaultError(BadFile("The body ends before its last boundary."))
    return reading.form


async def read_body(request: Request, sink: Sink) -> None:
    """Read a body that is a file, whose bytes go to `sink`, which bounds them; FaultError, CallerLeftError."""
    try:
        async with asyncio.timeout(_PIECE_SECONDS) as bound:
            async for chunk in _pieces(request, bound):
                if chunk:
                    await sink.write(chunk)
    except ClientDisconnect as error:
        raise CallerLeftError from error
    except TimeoutError as error:
        raise FaultError(InvalidInput("The body came too slowly.")) from error


def _boundary(request: Request) -> bytes:
    type_, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary", b"")
    if type_ != b"multipart/form-data" or not boundary:
        raise JobFaultError(BadFile("Send the file as multipart/form-data, with a boundary."))
    return boundary


async def _pieces(request: Request, bound: asyncio.Timeout) -> AsyncIterator[bytes]:
    """The body in pieces, each of which extends the time limit of the next one, up to that of the whole body."""
    loop = asyncio.get_running_loop()
    last = loop.time() + _BODY_SECONDS
    due = 0.0
    async for piece in request.stream():
        if (now := loop.time()) + _PIECE_SECONDS - _STEP_SECONDS > due:
            due = min(last, now + _PIECE_SECONDS)
            bound.reschedule(due)
        yield piece


class _Reading:
    """One form that is being read. The parser calls back at once; `go_on` gives the sink what it has found.

    That is never more than the piece of the body that the parser was given.
    """

    def __init__(self, file: str, sink: Sink) -> None:
        self.form = Form()
        self.is_whole = False
        """Whether the last boundary has come."""
        self._file = file
        self._sink = sink
        self._come: list[bytes] = []
        self._parts = 0
        self._header = (b"", b"")
        self._disposition: bytes | None = None
        self._name: str | None = None
        self._is_file = False
        self._value = b""

    def callbacks(self) -> Any:
        """What the parser calls."""
        return {
            "on_part_begin": self._on_part_begin,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    async def go_on(self) -> None:
        """Give the sink its bytes."""
        come, self._come = self._come, []
        if come:
            await self._sink.write(come[0] if len(come) == 1 else b"".join(come))

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise JobFaultError(BadFile(f"The form has more than {PARTS_MAX} parts."))
        self._disposition, self._name, self._is_file, self._value = None, None, False, b""

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        name, value = self._header
        self._header = (name + data[start:end], value)

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        name, value = self._header
        self._header = (name, value + data[start:end])

    def _on_header_end(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = value
        self._header = (b"", b"")

    def _on_headers_finished(self) -> None:
        type_, options = parse_options_header(self._disposition)
        if type_ != b"form-data" or b"name" not in options:
            raise JobFaultError(BadFile("A part of the form has no name."))
        name = _text(options[b"name"])
        if b"filename" not in options:
            self._name = name
            return
        if name != self._file:
            return  # an unexpected file: its bytes are only counted
        if self.form.filename is not None:
            raise JobFaultError(BadFile(f"Send one file in the field {self._file}, not several."))
        self._is_file = True
        self.form.filename = _text(options[b"filename"])

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._come.append(data[start:end])
        elif self._name is not None:
            self._value += data[start:end]
            if len(self._value) > FIELD_BYTES_MAX:
                raise JobFaultError(BadFile(f"The field {self._name[:40]!r} has more than {FIELD_BYTES_MAX} bytes."))

    def _on_part_end(self) -> None:
        if not self._is_file and self._name is not None:
            self.form.fields.setdefault(self._name, _text(self._value, FIELD_BYTES_MAX))

    def _on_end(self) -> None:
        self.is_whole = True


def _text(value: bytes, most: int = _NAME_BYTES_MAX) -> str:
    problem = "A name or a field of the form is too long, or is not UTF-8."
    if len(value) > most:
        raise JobFaultError(BadFile(problem))
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise JobFaultError(BadFile(problem)) from error


def flag(fields: Mapping[str, str], name: str) -> bool:
    """Whether a field has the value by which editors mean yes."""
    return fields.get(name, "").strip().lower() in ("true", "1")
