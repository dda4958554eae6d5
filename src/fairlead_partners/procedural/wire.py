"""HTTP as this vendor speaks it: answers, problems, and reading a JSON body strictly and within bounds."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, object]], Awaitable[None]]

BODY_BYTES_MAX = 24 * 1024 * 1024
BODY_SECONDS_MAX = 60.0


class Answer(msgspec.Struct, frozen=True):
    """A whole response held in memory; header names are lower case."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()

    def with_header(self, name: str, value: str) -> "Answer":
        """Return the same answer with one more header."""
        return Answer(self.status, self.body, (*self.headers, (name, value)))


class Problem(Exception):  # noqa: N818 -- a refusal is not an error of this program
    """A refusal the caller can act on: it becomes the vendor's error envelope."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        param: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Keep the HTTP status, the stable code, the human text and the field at fault, if any."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = headers

    def answer(self) -> Answer:
        """Render the error envelope."""
        error = {"code": self.code, "message": self.message, "param": self.param}
        return json_answer(self.status, {"error": error}, self.headers)


def json_answer(status: int, value: object, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """Render a JSON response."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return Answer(status, body, (("content-type", "application/json"), *headers))


def header(scope: Scope, name: str) -> str | None:
    """Return the first value of a request header (lower-case name), or None."""
    wanted = name.encode("ascii")
    for key, value in scope["headers"]:
        if key == wanted:
            return str(value, "latin-1")
    return None


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """Read a request body of at most BODY_BYTES_MAX bytes within BODY_SECONDS_MAX seconds.

    Raises Problem 413 when it is larger and 408 when it comes too slowly or is cut off.
    """
    declared = header(scope, "content-length")
    if declared is not None and declared.isdigit() and int(declared) > BODY_BYTES_MAX:
        raise _too_large()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            return await _collect(receive)
    except TimeoutError:
        raise Problem(408, "body_timeout", "The request body did not arrive in time.") from None


async def _collect(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Problem(408, "body_timeout", "The connection closed before the body was complete.")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise _too_large()
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _too_large() -> Problem:
    mebibytes = BODY_BYTES_MAX // 2**20
    return Problem(413, "body_too_large", f"The request body is larger than {mebibytes} MiB.")


def require_json(scope: Scope) -> None:
    """Refuse a body that says it is something other than JSON (Problem 415); saying nothing is fine."""
    declared = header(scope, "content-type")
    if declared is None:
        return
    kind = declared.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "unsupported_media_type", "Send the body as application/json.")


def parse_object(body: bytes) -> Mapping[str, object]:
    """Parse a JSON object, refusing NaN, duplicate names and bad UTF-8 (Problem 400 invalid_json)."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        message = f"The body is not valid JSON: {str(error)[:200]}."
        raise Problem(400, "invalid_json", message) from None
    if not isinstance(value, dict):
        raise Problem(400, "invalid_json", "The body must be a JSON object.")
    return value


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice in one object")
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


async def send_answer(send: Send, answer: Answer) -> None:
    """Write a whole answer to the connection."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
