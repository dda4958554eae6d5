"""Reading answers: the same whatever pieces they arrive in, and nothing that is doubtful."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from fairlead.http_client.answers import AnswerReader
from fairlead.http_client.outcomes import BrokenOffError

_LIMIT = 1000
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"


def _read(pieces: Sequence[bytes], *, ends: bool = False, is_bodyless: bool = False) -> AnswerReader:
    reader = AnswerReader(_LIMIT, is_bodyless=is_bodyless)
    for piece in pieces:
        reader.feed(piece)
    if ends:
        reader.end()
    return reader


_TOKENS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12).map(lambda name: f"x-{name}")
_VALUES = st.text([chr(code) for code in range(0x21, 0x7F)], max_size=30)
_BODIES = st.binary(max_size=200)


@st.composite
def _answers(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """An answer, its body, and whether only its end says where the body ends."""
    body = draw(_BODIES)
    headers = draw(st.dictionaries(_TOKENS, _VALUES, max_size=5))
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * draw(st.integers(0, 2))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    framing = draw(st.sampled_from(["length", "chunks", "end"]))
    if framing == "length":
        return interim + _OK + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body, body, False
    if framing == "end":
        return interim + _OK + lines + b"\r\n" + body, body, True
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=4)))
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if a < b]
    extension, trailer = draw(st.sampled_from([(b"", b""), (b";a=b", b""), (b';q="x y"', b"X-Sum: 1\r\n")]))
    wire = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    return (
        interim + _OK + lines + b"Transfer-Encoding: chunked\r\n\r\n" + wire + b"0\r\n" + trailer + b"\r\n",
        body,
        False,
    )


@given(answer=_answers(), data=st.data())
def test_answer_does_not_depend_on_how_it_is_cut(answer: tuple[bytes, bytes, bool], data: st.DataObject) -> None:
    """Any division into segments reads as the whole does, byte by byte included."""
    wire, body, ends = answer
    cuts = sorted(data.draw(st.sets(st.integers(1, len(wire) - 1), max_size=8)))
    pieces = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    whole = _read([wire], ends=ends)
    assert whole.complete
    assert whole.keeps_alive is not ends
    expected = (whole.status, whole.headers, body, whole.keeps_alive)
    assert whole.take() == body
    for split in (pieces, [wire[at : at + 1] for at in range(len(wire))]):
        reader = _read(split, ends=ends)
        assert (reader.status, reader.headers, reader.take(), reader.keeps_alive) == expected


@given(wire=st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_broken_off(wire: bytes) -> None:
    """Whatever arrives is an answer or BrokenOffError, never another error."""
    for start in (b"", _OK, _CHUNKED):
        reader = AnswerReader(_LIMIT, is_bodyless=False)
        try:
            reader.feed(start + wire)
            reader.end()
        except BrokenOffError:
            continue
        assert len(reader.take()) <= _LIMIT


@for_each(
    "wire",
    [
        pytest.param(_OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", id="a length and chunks"),
        pytest.param(_OK + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n", id="chunks and a length"),
        pytest.param(_OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n", id="two lengths"),
        pytest.param(_OK + b"Content-Length: 2, 2\r\n\r\n", id="a list of lengths"),
        pytest.param(_OK + b"Content-Length: +2\r\n\r\n", id="a signed length"),
        pytest.param(_OK + b"Content-Length: 99999999999999999999\r\n\r\n", id="a length past all bounds"),
        pytest.param(_OK + b"Content-Length: 1001\r\n\r\n", id="a length past the limit"),
        pytest.param(_OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", id="a coding before chunks"),
        pytest.param(_OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n", id="a coding after chunks"),
        pytest.param(_OK + b"Transfer-Encoding: identity\r\n\r\n", id="a coding without chunks"),
        pytest.param(_OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", id="chunks twice"),
        pytest.param(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", id="chunks in HTTP/1.0"),
        pytest.param(_OK + b"Content-Encoding: br\r\n\r\n", id="an encoding"),
        pytest.param(_OK + b"X: a\r\n b\r\n\r\n", id="a folded header"),
        pytest.param(_OK + b"X : a\r\n\r\n", id="a space before the colon"),
        pytest.param(_OK + b"X: a\nY: b\r\n\r\n", id="a bare line feed"),
        pytest.param(_OK + b"X: a\rb\r\n\r\n", id="a bare carriage return"),
        pytest.param(_OK + b"X: a\0b\r\n\r\n", id="a NUL"),
        pytest.param(_OK + b"X: y\r\n" * 201 + b"\r\n", id="too many headers"),
        pytest.param(_OK + b"X: " + b"y" * 40_000 + b"\r\n\r\n", id="a long header"),
        pytest.param(b"HTTP/1.1 200 " + b"y" * 40_000, id="a reason without end"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 9, id="announcements without end"),
        pytest.param(b"HTTP/1.1 101 Switch\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 101 Switch\r\n\r\n", id="a switch without a protocol"),
        pytest.param(b"HTTP/1.1 000 OK\r\n\r\n", id="status 0"),
        pytest.param(b"HTTP/2.0 200 OK\r\n\r\n", id="HTTP/2 in letters"),
        pytest.param(b"RTSP/1.0 200 OK\r\n\r\n", id="RTSP"),
        pytest.param(b"ICY 200 OK\r\n\r\n", id="ICY"),
        pytest.param(b"\r\nHTTP/1.1 200 OK\r\n\r\n", id="an empty line first"),
        pytest.param(_CHUNKED + b"fffffffffffffffff\r\n", id="a chunk past all bounds"),
        pytest.param(_CHUNKED + b"2\r\nabX\r\n", id="a chunk longer than it says"),
        pytest.param(_CHUNKED + b"2\nab\r\n", id="a chunk after a bare line feed"),
        pytest.param(_CHUNKED + b"-2\r\nab\r\n", id="a negative chunk"),
        pytest.param(_CHUNKED + b"3e9\r\n" + b"x" * 1001, id="chunks past the limit"),
        pytest.param(_CHUNKED + b"1;" + b"e" * 70_000, id="an extension without end"),
        pytest.param(_CHUNKED + b"0\r\n" + b"X: y\r\n" * 20_000, id="trailers without end"),
    ],
)
def test_ambiguous_answer_is_refused(wire: bytes) -> None:
    """What two readers might read differently is not an answer."""
    with pytest.raises(BrokenOffError):
        _read([wire])
    with pytest.raises(BrokenOffError):
        _read([wire[at : at + 1000] for at in range(0, len(wire), 1000)])


@pytest.mark.parametrize(
    ("wire", "keeps_alive"),
    [
        (b"HTTP/1.1 204 No\r\n\r\n", True),
        (b"HTTP/1.1 304 No\r\nETag: a\r\nContent-Encoding: br\r\n\r\n", True),
        (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", False),
        (b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", False),
        (b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", False),
        (b"HTTP/1.1 204 No\r\nConnection: close\r\n\r\n", False),
    ],
)
def test_answer_without_a_body_ends_with_its_head(wire: bytes, *, keeps_alive: bool) -> None:
    """204 and 304 end with their head; where they announce a body all the same, nothing may follow them."""
    reader = _read([wire])
    assert (reader.complete, reader.take(), reader.keeps_alive) == (True, b"", keeps_alive)


def test_answer_to_head_has_no_body() -> None:
    """It announces a body that does not come."""
    reader = _read([_OK + b"Content-Length: 100000\r\nContent-Encoding: br\r\n\r\n"], is_bodyless=True)
    assert (reader.complete, reader.take(), reader.keeps_alive) == (True, b"", False)


@pytest.mark.parametrize(
    "wire",
    [
        _OK + b"Content-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        _OK + b"Content-Length: 2\r\n\r\nabc",
        _OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nabc",
    ],
)
def test_bytes_after_an_answer_end_its_connection(wire: bytes) -> None:
    """The answer stands; its connection does not."""
    reader = _read([wire])
    assert (reader.complete, reader.take(), reader.keeps_alive) == (True, b"ab", False)


def test_answers_never_leak_into_the_next() -> None:
    """A reader that is told to expect another answer remembers nothing of the one before."""
    reader = _read([_OK + b"X-A: 1\r\nx-a: 2\r\nContent-Length: 2\r\n\r\nab"])
    assert reader.headers == {"x-a": "1, 2", "content-length": "2"}
    reader.expect(_LIMIT, is_bodyless=False)
    assert (reader.status, reader.headers, reader.take(), reader.complete) == (0, {}, b"", False)
    reader.feed(b"HTTP/1.1 201 Made\r\nContent-Length: 1\r\n\r\nc")
    assert (reader.status, reader.take(), reader.keeps_alive) == (201, b"c", True)


@pytest.mark.parametrize("wire", [b"", b"HTTP", _OK, _OK + b"Content-Length: 3\r\n\r\nab", _CHUNKED + b"2\r\nab\r\n"])
def test_cut_answer_is_broken_off(wire: bytes) -> None:
    """An end in the middle is no end."""
    with pytest.raises(BrokenOffError, match="closed before"):
        _read([wire], ends=True)
