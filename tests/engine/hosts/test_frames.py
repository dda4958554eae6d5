"""Records come out of a socket as they went in, in whatever pieces; nothing else does."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.jobs.events import Executed, Failed, Failure, Place
from fairlead.engine.hosts.frames import (
    BadFrameError,
    FrameReader,
    FrameTooLargeError,
    framed,
    read_from_host,
    read_to_host,
)
from fairlead.engine.hosts.protocol import Check, Ended, Execute, Told

_PLACE = Place("1", "1")
_FAILURE = Failure(_PLACE, "A", "OOMError", "no", ["a"], {"x": [1, None]}, ["0"])
_RECORDS = [Told("j", [Executed(_PLACE, {"a": [1.5, "b", None]})]), Ended("j", Failed(_FAILURE))]


@given(st.lists(st.integers(1, 9), min_size=1))
def test_pieces_of_any_size_give_the_same_records(sizes: list[int]) -> None:
    """Pieces of any sizes give the same records."""
    content = b"".join(framed(record) for record in _RECORDS)
    reader, heard = FrameReader(1_000), []
    while content:
        size = sizes[len(content) % len(sizes)]
        heard += [read_from_host(frame) for frame in reader.feed(content[:size])]
        content = content[size:]
    assert heard == _RECORDS


@given(st.binary())
def test_any_bytes_are_a_record_or_an_error(content: bytes) -> None:
    """Any bytes are a record or a BadFrameError."""
    with suppress(BadFrameError):
        read_from_host(content)


def test_extension_of_the_format_is_refused() -> None:
    """MessagePack can carry values that nobody asked for."""
    content = msgspec.msgpack.encode({"type": "Told", "job": "j", "events": [
        {"type": "Executed", "place": {"node": "1", "display": "1"}, "ui": {"a": msgspec.msgpack.Ext(5, b"x")}}
    ]})  # fmt: skip
    with pytest.raises(BadFrameError):
        read_from_host(content)


def test_frame_that_is_too_long_is_refused_by_its_length() -> None:
    """It is refused by its length, before it has come; and none is written that would be."""
    with pytest.raises(BadFrameError):
        FrameReader(10).feed(b"\0\0\0\x0b")
    with pytest.raises(FrameTooLargeError):
        framed(Check("j", b"x" * 100), 100)


def test_order_of_a_server_is_read_as_it_was_sent() -> None:
    """What a server says is read as it was said."""
    order = Execute("j", b"{}", ["1"], b"{}")
    assert read_to_host(bytes(framed(order))[4:]) == order
