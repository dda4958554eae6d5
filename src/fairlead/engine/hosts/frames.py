"""Records on the way between a server and an engine host: each a frame of four bytes of length and MessagePack."""

from typing import Any, Final, NoReturn

import msgspec

from fairlead.engine.hosts.protocol import FRAME_BYTES_MAX, FromHost, ToHost
from fairlead.engine.hosts.rpc import write_path

HEAD_BYTES: Final = 4
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=write_path)


class BadFrameError(ValueError):
    """What came is no record of the protocol; the words say what it is instead."""


class FrameTooLargeError(ValueError):
    """A record has more bytes than the other side would read."""


def framed(record: Any, bytes_max: int = FRAME_BYTES_MAX) -> bytearray:
    """A record as a frame. FrameTooLargeError, or what the encoder raises for a value that cannot travel."""
    frame = bytearray(HEAD_BYTES)
    _ENCODER.encode_into(record, frame, HEAD_BYTES)
    length = len(frame) - HEAD_BYTES
    if length > bytes_max:
        raise FrameTooLargeError(f"{length} bytes are more than the {bytes_max} that may be sent at once")
    frame[:HEAD_BYTES] = length.to_bytes(HEAD_BYTES, "big")
    return frame


def length_of(head: bytes | bytearray | memoryview, bytes_max: int) -> int:
    """The length that a frame begins with. BadFrameError when it is more than is read."""
    length = int.from_bytes(head, "big")
    if length > bytes_max:
        raise BadFrameError(f"a frame of {length} bytes, where at most {bytes_max} are read")
    return length


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
            end = begin + length_of(self._waiting[at:begin], self.bytes_max)
            if len(self._waiting) < end:
                break
            with memoryview(self._waiting) as waiting:  # a large frame is copied once
                complete.append(bytes(waiting[begin:end]))
            at = end
        del self._waiting[:at]
        return complete


def _refuse(code: int, _data: memoryview) -> NoReturn:
    raise BadFrameError(f"a value of the unknown kind {code}")


_TO_HOST: Final = msgspec.msgpack.Decoder(ToHost)
_FROM_HOST: Final = msgspec.msgpack.Decoder(FromHost, ext_hook=_refuse)


def read_to_host(content: bytes) -> ToHost:
    """A record a server sent."""
    record: ToHost = _TO_HOST.decode(content)
    return record


def read_from_host(content: bytes) -> FromHost:
    """A record a host sent. BadFrameError for anything else."""
    try:
        record: FromHost = _FROM_HOST.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrameError(f"no record of the protocol: {error}") from error
    return record
