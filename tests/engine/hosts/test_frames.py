"""Records come out of a socket as they went in, in whatever pieces; nothing else does."""

import asyncio
import inspect
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.jobs.events import Event, Executed, Failed, Failure, Place
from fairlead.engine.hosts.host import Host
from fairlead.engine.hosts.process import EngineProcess
from fairlead.engine.hosts.service import (
    FRAME_BYTES_MAX,
    HOST_SERVICE,
    JOB_CALLS,
    Ended,
    HostService,
    ProcessNotices,
    TemplateService,
)
from fairlead.engine.hosts.template import Template
from fairlead.processes.rpc import (
    Answer,
    BadArgumentsError,
    BadFrameError,
    Call,
    FrameReader,
    FrameTooLargeError,
    encode_frame,
    methods_of,
    read_record,
)

_PLACE = Place("1", "1")
_FAILURE = Failure(_PLACE, "A", "OOMError", "no", ["a"], {"x": [1, None]}, ["0"])
_EVENTS = [Executed(_PLACE, {"a": [1.5, "b", None]})]
_RECORDS = [Call(0, 3, "tell", [_EVENTS]), Answer(3, Ended(Failed(_FAILURE)))]


@given(st.lists(st.integers(1, 9), min_size=1))
def test_pieces_of_any_size_give_the_same_records(sizes: list[int]) -> None:
    """Pieces of any sizes give the same records."""
    content = b"".join(encode_frame(record, FRAME_BYTES_MAX) for record in _RECORDS)
    reader, heard = FrameReader(1_000), []
    while content:
        size = sizes[len(content) % len(sizes)]
        heard += [read_record(frame) for frame in reader.feed(content[:size])]
        content = content[size:]
    told, ended = heard
    assert isinstance(told, Call)
    assert (told.number, told.about, told.method) == (0, 3, "tell")
    assert msgspec.msgpack.decode(told.arguments, type=tuple[list[Event]]) == (_EVENTS,)
    assert isinstance(ended, Answer)
    assert HOST_SERVICE["execute"].read_result(ended.value) == Ended(Failed(_FAILURE))


@given(st.binary())
def test_any_bytes_are_a_record_or_an_error(content: bytes) -> None:
    """Any bytes are a record or a BadFrameError."""
    with suppress(BadFrameError):
        read_record(content)
    for method in HOST_SERVICE.values():
        with suppress(BadFrameError):
            method.read_result(content)


def _ending(inputs: object) -> bytes:
    failure = {**msgspec.to_builtins(_FAILURE), "current_inputs": inputs}
    return msgspec.msgpack.encode({"ending": {"type": "Failed", "failure": failure}})


def test_extension_of_the_format_is_refused() -> None:
    """MessagePack can carry values that nobody asked for."""
    extension = msgspec.msgpack.Ext(5, b"x")
    with pytest.raises(BadFrameError):
        HOST_SERVICE["execute"].read_result(_ending({"a": [extension]}))
    executed = {"type": "Executed", "place": {"node": "1", "display": "1"}, "ui": {"a": extension}}
    with pytest.raises(BadArgumentsError):
        JOB_CALLS["tell"].call(None, msgspec.Raw(msgspec.msgpack.encode([[executed]])))


def test_ending_that_json_does_not_have_is_refused() -> None:
    """MessagePack has keys that JSON has not."""
    with pytest.raises(BadFrameError):
        HOST_SERVICE["execute"].read_result(_ending({"a": [{(1, 2): 3}]}))


def test_frame_that_is_too_long_is_refused_by_its_length() -> None:
    """It is refused by its length, before it has come; and none is written that would be."""
    with pytest.raises(BadFrameError):
        FrameReader(10).feed(b"\0\0\0\x0b")
    with pytest.raises(FrameTooLargeError):
        encode_frame(Call(1, 0, "check", [b"x" * 100]), 100)


def test_order_of_a_server_is_read_as_it_was_sent() -> None:
    """What a server calls is called with the arguments that were given."""

    class Host:
        async def execute(self, *given: object) -> object:
            return given

    execute = HOST_SERVICE["execute"]
    given = b"{}", ["1"], b"{}"
    order = read_record(bytes(encode_frame(Call(1, 0, "execute", execute.arguments((*given, None), {})), 100))[4:])
    assert isinstance(order, Call)
    assert asyncio.run(execute.call(Host(), order.arguments, "callbacks")) == (*given, "callbacks")


@pytest.mark.parametrize(
    ("definition", "implementation"),
    [(TemplateService, Template), (HostService, Host), (ProcessNotices, EngineProcess)],
)
def test_definition_is_implemented_with_its_parameters(definition: type, implementation: type) -> None:
    """Each method has the parameters that its definition gives it, by number, and waits where that does."""
    for name in methods_of(definition):
        declared, made = getattr(definition, name), getattr(implementation, name)
        assert len(inspect.signature(made).parameters) == len(inspect.signature(declared).parameters), name
        assert inspect.iscoroutinefunction(made) == inspect.iscoroutinefunction(declared), name
