"""Reads HTTP/1.1 answers from the bytes of one connection, within bounds; it has no socket.

The parser is llhttp, strict, through httptools. It refuses bare line feeds, folded headers, two lengths, and a length
beside a transfer coding. What the parser lets pass is refused here: other protocols, codings, switching protocols.
"""

from itertools import chain
from typing import Final, NoReturn

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from fairlead.http_client.outcomes import BrokenOffError

_PROTOCOL: Final = b"HTTP/1."
_HEAD_MAX: Final = 32 * 1024
_HEADERS_MOST: Final = 200
_SEGMENT_BYTES: Final = 2**20
"""Pieces of a body are joined to segments of this size: many small ones would take more memory than their content."""
_INTERIM_MOST: Final = 8
_FRAMING_PER_BYTE: Final = 16
_LOWEST_STATUS: Final = 100
_LOWEST_FINAL: Final = 200
_SWITCHING: Final = 101
_BODYLESS: Final = frozenset({204, 304})


class AnswerReader:
    """Reads one answer after another; `expect` begins the next one.

    `status` is 0 until the head is complete. `keeps_alive` says, once it is complete, whether another answer may
    follow on the same connection. Every method that takes bytes raises BrokenOffError for what is not an answer.
    """

    __slots__ = (
        "_chunked",
        "_fields",
        "_first",
        "_full",
        "_interim",
        "_is_bodyless",
        "_limit",
        "_odd",
        "_opening",
        "_parser",
        "_rest",
        "_until_close",
        "_why",
        "_wire",
        "complete",
        "headers",
        "keeps_alive",
        "size",
        "status",
    )  # fmt: skip

    def __init__(self, limit: int, *, is_bodyless: bool) -> None:
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self.expect(limit, is_bodyless=is_bodyless)

    def expect(self, limit: int, *, is_bodyless: bool) -> None:
        """Begin an answer whose body has at most `limit` bytes; `is_bodyless` where HEAD was asked."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.size = 0
        self.complete = False
        self.keeps_alive = False
        self._limit = limit
        self._is_bodyless = is_bodyless
        self._opening: bytes | None = b""
        self._first = b""
        self._rest: bytearray | None = None
        self._full: list[bytes] = []
        self._fields: list[tuple[bytes, bytes]] = []
        self._interim = self._wire = 0
        self._chunked = self._until_close = self._odd = False
        self._why = ""

    @property
    def waiting(self) -> int:
        """How many bytes of the body have been read and not taken."""
        return len(self._first) if self._rest is None else sum(map(len, self._full)) + len(self._rest)

    def take(self) -> bytes:
        """The body as far as it was read and not taken before.

        A large one takes long, and may be taken by a thread: it is joined without the interpreter lock.
        """
        content = self._first if self._rest is None else bytes(self._rest)
        if self._full:
            content = b"".join([*self._full, content])
        self._first, self._rest, self._full = b"", None, []
        return content

    def feed(self, data: bytes) -> None:
        """Read what arrived."""
        if self._parser is None:
            raise BrokenOffError("the connection is closed")
        if self._opening is not None:
            data = self._opening + data
            if not data.startswith(_PROTOCOL[: len(data)]):
                raise BrokenOffError("the answer is not HTTP/1")
            if len(data) < len(_PROTOCOL):
                self._opening = data
                return
            self._opening = None
        self._wire += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.complete:
                raise BrokenOffError(self._why or f"the answer is malformed: {error}") from None
            self.keeps_alive = False  # the answer is complete; what follows belongs to no request
        if not self.complete:
            self._check_framing()

    def end(self) -> None:
        """The other side has closed the connection; BrokenOffError unless the answer is complete with that."""
        if self.complete:
            return
        if not self._until_close:
            raise BrokenOffError("the connection was closed before the answer was complete")
        self.complete = True

    def close(self) -> None:
        """Release the parser, which refers to this object, so that neither waits for the garbage collector."""
        self._parser = None

    def _check_framing(self) -> None:
        """Bound what is not body: a head, or chunk sizes, extensions and trailers, that never end."""
        if self.status == 0:
            if self._wire > _HEAD_MAX:
                raise BrokenOffError(f"the answer's headers pass {_HEAD_MAX} bytes")
        elif self._chunked and self._wire > 2 * _HEAD_MAX + _FRAMING_PER_BYTE * self.size:
            raise BrokenOffError("the answer is all framing and no body")

    def _refuse(self, why: str) -> NoReturn:
        """Stop the parser, and raise the reason once it has stopped."""
        self._why = why
        raise BrokenOffError(why)

    # What follows is called by the parser, which looks for these names.

    def on_message_begin(self) -> None:
        """A first byte arrived: of the answer, of one after a 1xx, or of something unexpected."""
        if self.complete:
            self._refuse("more came than the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header until the head is complete. Trailers are dropped."""
        if not self.status:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Know how the body ends, and refuse one that cannot be read."""
        fields, self._fields = self._fields, []
        if len(fields) > _HEADERS_MOST or (self._wire > _HEAD_MAX and sum(map(len, chain(*fields))) > _HEAD_MAX):
            self._refuse(f"the answer's headers pass {_HEAD_MAX} bytes or {_HEADERS_MOST} in number")
        status = self._parser.get_status_code() if self._parser is not None else 0
        if status < _LOWEST_FINAL:
            self._pass_over(status)
            return
        self.status = status
        # By their names in lower case; a repeated one is joined as HTTP says.
        headers = self.headers
        for name, value in fields:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        length = headers.get("content-length")
        coding = headers.get("transfer-encoding")
        if self._is_bodyless or status in _BODYLESS:
            self._odd = coding is not None or length not in {None, "0"}
            self.complete = self._is_bodyless  # the parser cannot know that there is no body, and would wait for one
            return
        if "content-encoding" in headers and headers["content-encoding"].lower() != "identity":
            self._refuse("the answer is encoded, though that was declined")
        if coding is not None:
            self._begin_chunks(coding)
        elif length is None:
            self._until_close = True
        elif int(length) > self._limit:
            self._refuse(f"the answer passes {self._limit} bytes")

    def on_body(self, piece: bytes) -> None:
        """Keep a piece of the body."""
        if self.complete:
            return
        self.size += len(piece)
        if self.size > self._limit:
            self._refuse(f"the answer passes {self._limit} bytes")
        if self._rest is not None:
            self._rest += piece
            if len(self._rest) >= _SEGMENT_BYTES:
                self._full.append(bytes(self._rest))
                self._rest.clear()
        elif self._first:
            self._rest = bytearray(self._first)
            self._rest += piece
        else:
            self._first = piece

    def on_message_complete(self) -> None:
        """The answer is complete, unless it only announces another one."""
        if self.status == 0 or self.complete:
            return
        self.complete = True
        # A body that is announced where none is allowed may still be sent, and be taken for the next answer.
        self.keeps_alive = not self._odd and self._parser is not None and self._parser.should_keep_alive()

    def _pass_over(self, status: int) -> None:
        """An interim answer is skipped; one that switches protocols, or one too many, is refused."""
        self._interim += 1
        if status < _LOWEST_STATUS or status == _SWITCHING:
            self._refuse(f"the answer's status is {status}")
        if self._interim > _INTERIM_MOST:
            self._refuse("the answer only announces others")

    def _begin_chunks(self, coding: str) -> None:
        if coding.lower() != "chunked" or self._parser is None or self._parser.get_http_version() != "1.1":
            self._refuse("the answer's transfer coding is not plain chunks")
        self._chunked = True
