"""Calls between a server and a child process: records, checks and dispatch follow from one definition.

A definition is a Protocol below Definition. Its coroutine methods are calls, each of which is answered once; its plain
methods are notices, which nobody answers. The caller passes the method itself, so the type checker compares arguments
with the signature; the other side implements the Protocol. A last parameter that is a definition does not travel: its
methods may be called by the other side until the call is answered.

A frame is four bytes of length, big-endian, and a record in MessagePack. Paths travel as texts.
"""

import asyncio
import inspect
import socket
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, Protocol, TypeAlias, TypeVar, cast, get_type_hints

import msgspec

HEAD_BYTES: Final = 4
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
T = TypeVar("T")
A = TypeVar("A")


class BadFrameError(ValueError):
    """A frame that the other side may not send; the message says what is wrong with it."""


class FrameTooLargeError(ValueError):
    """A record has more bytes than the other side would read."""


class BadArgumentsError(ValueError):
    """The arguments of a call are not those that its method takes."""


class Definition(Protocol):
    """Methods of one process that another may call."""


# Records.


class Call(msgspec.Struct, Generic[A], frozen=True, tag=True):
    """A call of a method; `about` is the number of the caller's open call that it belongs to, and 0 for none.

    Each side numbers its calls from 1. A notice has the number 0.
    """

    number: int
    about: int
    method: str
    arguments: A


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """A call is cancelled; it is still answered."""

    number: int


class Answer(msgspec.Struct, Generic[A], frozen=True, tag=True):
    """The answer to a call: the result of its method."""

    number: int
    value: A


class Declined(msgspec.Struct, frozen=True, tag=True):
    """A call that was refused: the kind of the error, and why."""

    number: int
    exception_type: str
    message: str


Record: TypeAlias = Call[msgspec.Raw] | Cancel | Answer[msgspec.Raw] | Declined


# Definitions.


class Method:
    """One method of a definition. Bounds and kinds of its arguments are checked as its annotations say."""

    def __init__(self, function: Callable[..., object]) -> None:
        hints = get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        definitions = [one.name for one in parameters if Definition in getattr(hints[one.name], "__mro__", ())]
        sent = [one for one in parameters if one.name not in definitions]
        fields = [(one.name, hints[one.name]) for one in sent]
        self.name: Final = function.__name__
        self.is_answered: Final = inspect.iscoroutinefunction(function)
        self.callbacks: Final = methods_of(hints[definitions[0]]) if definitions else None
        """The definition that the other side may call until this is answered."""
        self._arguments = msgspec.defstruct(self.name, fields, array_like=True, forbid_unknown_fields=True, frozen=True)
        self._positional = sum(one.kind is not one.KEYWORD_ONLY for one in sent)
        self._keywords = [one.name for one in sent[self._positional :]]
        self._read_arguments = msgspec.msgpack.Decoder(self._arguments, dec_hook=_read, ext_hook=_refuse).decode
        self._read_result = msgspec.msgpack.Decoder(hints["return"], dec_hook=_read, ext_hook=_refuse).decode

    def arguments(self, given: tuple[object, ...], named: Mapping[str, object]) -> msgspec.Struct:
        """The record of the arguments that travel."""
        return self._arguments(*given[: self._positional], **named)

    def call(
        self,
        implementation: object,
        arguments: msgspec.Raw,
        *callbacks: object,
        check_path: Callable[[Path], Path] | None = None,
    ) -> Any:
        """Call the method of an implementation. Each path among the arguments is what `check_path` returns for it.

        BadArgumentsError, and what the method or `check_path` raises.
        """
        try:
            values = msgspec.structs.astuple(self._read_arguments(arguments))
        except _UNREADABLE as error:
            raise BadArgumentsError(f"{self.name} does not take this: {error}") from error
        if check_path is not None:
            values = tuple(check_path(value) if isinstance(value, Path) else value for value in values)
        if not self._keywords:
            return getattr(implementation, self.name)(*values, *callbacks)
        named = dict(zip(self._keywords, values[self._positional :], strict=True))
        return getattr(implementation, self.name)(*values[: self._positional], *callbacks, **named)

    def read_result(self, value: msgspec.Raw | bytes) -> Any:
        """The result of the method. BadFrameError where it is not of the declared type."""
        try:
            return self._read_result(value)
        except _UNREADABLE as error:
            raise BadFrameError(f"{self.name} does not return this: {error}") from error


def methods_of(*definitions: type) -> Mapping[str, Method]:
    """The methods that definitions declare, with those that they inherit, by their names."""
    functions = {
        name: function
        for definition in definitions
        for name, function in inspect.getmembers(definition, inspect.isfunction)
        if not name.startswith("_")
    }
    return {name: Method(function) for name, function in functions.items()}


def finish(work: Coroutine[object, object, T]) -> T:
    """The result of a coroutine that never waits, without an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    raise RuntimeError("it waits for something")


def serve(line: socket.socket, methods: Mapping[str, Method], implementation: object, bytes_max: int) -> None:
    """Answer the calls that come over a socket, one after the other, until it is closed."""
    with line.makefile("rb") as reader:
        while isinstance(call := read_frame(reader.read, bytes_max), Call):
            value = finish(methods[call.method].call(implementation, call.arguments))
            line.sendall(encode_frame(Answer(call.number, value), bytes_max))


# Frames.


def encode_frame(record: object, bytes_max: int) -> bytearray:
    """A record as a frame. FrameTooLargeError, or what the encoder raises for a value that cannot travel."""
    frame = bytearray(HEAD_BYTES)
    _ENCODER.encode_into(record, frame, HEAD_BYTES)
    length = len(frame) - HEAD_BYTES
    if length > bytes_max:
        raise FrameTooLargeError(f"{length} bytes are more than the {bytes_max} that may be sent at once")
    frame[:HEAD_BYTES] = length.to_bytes(HEAD_BYTES, "big")
    return frame


def read_frame(read: Callable[[int], bytes], bytes_max: int) -> Record | None:
    """The next record, where `read` waits for as many bytes as it is asked for; None at the end. BadFrameError."""
    head = read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    length = _length_of(head, bytes_max)
    content = read(length)
    return read_record(content) if len(content) == length else None


async def receive(reader: asyncio.StreamReader, bytes_max: int) -> Record:
    """The next record of a stream. BadFrameError; asyncio.IncompleteReadError at its end."""
    length = _length_of(await reader.readexactly(HEAD_BYTES), bytes_max)
    return read_record(await reader.readexactly(length))


class FrameReader:
    """Frames out of bytes that come in any pieces; holds at most one frame and a piece."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._waiting = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """The contents of the frames that this piece completes. BadFrameError when one would be too long."""
        self._waiting += piece
        complete: list[bytes] = []
        at = 0
        while len(self._waiting) >= at + HEAD_BYTES:
            begin = at + HEAD_BYTES
            end = begin + _length_of(self._waiting[at:begin], self.bytes_max)
            if len(self._waiting) < end:
                break
            with memoryview(self._waiting) as waiting:  # a large frame is copied once
                complete.append(bytes(waiting[begin:end]))
            at = end
        del self._waiting[:at]
        return complete


def read_record(content: bytes) -> Record:
    """The record in a frame. BadFrameError for anything else."""
    try:
        record: Record = _DECODER.decode(content)
    except _UNREADABLE as error:
        raise BadFrameError(f"no record of the protocol: {error}") from error
    return record


def _length_of(head: bytes | bytearray, bytes_max: int) -> int:
    length = int.from_bytes(head, "big")
    if length > bytes_max:
        raise BadFrameError(f"a frame of {length} bytes, where at most {bytes_max} are read")
    return length


def _refuse(code: int, _data: memoryview) -> NoReturn:
    raise ValueError(f"a value of the unknown kind {code}")


def _read(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"{kind.__name__} is expected")


def _write_path(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a value of the type {type(value).__name__} cannot be sent")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_write_path)
_DECODER: Final = msgspec.msgpack.Decoder(Record)
