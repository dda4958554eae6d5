"""One vendor as an ASGI application: a call is read, let in, met with its faults, handled and answered."""

import asyncio
import logging
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.convertors import Convertor
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from .calls import Calls
from .faults import Orders, in_words, seconds, settle, status
from .memory import Memory
from .prompts import asked
from .vendor import Call, Problem, ProblemKind, Reply, Route, Vendor

BODY_BYTES_MAX = 64 * 1024 * 1024
BODY_SECONDS_MAX = 60.0
HELD_BYTES_MAX = 512 * 1024 * 1024
HANG_SECONDS = 3600.0

_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")
_HTML = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
_JSON = (("content-type", "application/json"),)

log = logging.getLogger("simulator")


class Site:
    """Answers the calls of one vendor."""

    def __init__(self, vendor: Vendor, memory: Memory, orders: Orders, calls: Calls) -> None:
        """Compile the vendor's addresses."""
        self._vendor = vendor
        self._memory = memory
        self._orders = orders
        self._calls = calls
        self._routes = [(route, *compile_path(route.path)) for route in vendor.routes]

    async def answer(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """Answer one call; `path` is what follows the vendor's name."""
        headers = _headers(scope)
        try:
            body = await self._read(headers, receive)
        except Problem as problem:
            problem.path = path
            await _send(send, self._vendor.problem(problem))
            return
        self._memory.held_bytes += len(body)
        try:
            await self._exchange(scope, receive, send, path, headers, body)
        finally:
            self._memory.held_bytes -= len(body)

    async def _read(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        body = await _read_body(headers, receive)
        if self._memory.held_bytes + len(body) > HELD_BYTES_MAX:
            raise Problem("rate_limited", "Too many large requests are waiting.", retry_after="1")
        return body

    async def _exchange(
        self, scope: Scope, receive: Receive, send: Send, path: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        route, parameters = self._find(scope["method"], path, headers)
        creates = route is not None and route.is_creating
        call = self._call(scope, path, headers, body, parameters, creates=creates)
        entry = self._calls.note(call.vendor, call.method, path, call.query, headers, body, call.faults)
        entry["made"] = call.made
        reply = await self._reply(route, call, receive)
        if reply is None:
            return
        entry["status"] = reply.status
        await _send(send, reply, half="half-body" in call.faults)

    def _find(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[Route | None, Mapping[str, str]]:
        for route, pattern, _format, convertors in self._routes:
            match = pattern.match(path) if route.method == method else None
            if match is not None and route.headers.items() <= headers.items():
                return route, _convert(match.groupdict(), convertors)
        return None, {}

    def _call(
        self,
        scope: Scope,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        parameters: Mapping[str, str],
        *,
        creates: bool,
    ) -> Call:
        name = self._vendor.name
        found = self._orders.take(name, path, creates=creates)
        if creates:
            found = {**found, **in_words(body)}
        return Call(
            vendor=name,
            method=scope["method"],
            path=path,
            origin=_origin(scope, headers),
            parameters=parameters,
            query=dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
            headers=headers,
            body=body,
            faults=settle(found, self._vendor.supports),
            memory=self._memory,
        )

    async def _reply(self, route: Route | None, call: Call, receive: Receive) -> Reply | None:
        """Make the answer, or None when there is to be none."""
        if "latency" in call.faults:
            await asyncio.sleep(seconds(call.faults["latency"], 1.0))
        if "hang" in call.faults:
            await _wait_for_end(receive)
            return None
        if "html" in call.faults:
            return Reply(200, _HTML, (("content-type", "text/html; charset=utf-8"),))
        if "malformed" in call.faults:
            return Reply(200, b'{"id": "simulated", "status": ', _JSON)
        try:
            return self._handle(route, call)
        except Problem as problem:
            problem.path = call.path
            return self._vendor.problem(problem)
        except Exception:
            log.exception("%s %s of %s failed", call.method, call.path, call.vendor)
            return self._vendor.problem(Problem("server_error", "The simulator itself failed; see its log."))

    def _handle(self, route: Route | None, call: Call) -> Reply:
        _raise_exchange_fault(call)
        complaint = self._vendor.authorize(call)
        if complaint is not None:
            raise Problem("unauthorized", complaint)
        if route is None:
            raise Problem("not_found", f"Unknown address: {call.method} {call.path[:200]}", code="unknown_url")
        if "invalid" in call.faults and "invalid" not in self._vendor.supports:
            raise Problem("invalid", call.faults["invalid"] or "Invalid value for parameter 'prompt'.", field="prompt")
        if route.is_creating:
            for name in ("refused", "refused-output", "failed"):
                if name in call.faults and name in self._vendor.raises:
                    raise Problem(_WORK_KINDS[name])
        asked.set(call.body)
        return route.handler(call)


_WORK_KINDS: Mapping[str, ProblemKind] = {
    "refused": "refused",
    "refused-output": "refused_output",
    "failed": "failed",
}


def _raise_exchange_fault(call: Call) -> None:
    faults = call.faults
    if "unauthorized" in faults:
        raise Problem("unauthorized", "Incorrect API key provided.")
    if "rate-limited" in faults:
        raise Problem("rate_limited", "Rate limit reached.", retry_after=faults["rate-limited"] or "1")
    if "server-error" in faults:
        raise Problem("server_error", "Internal server error.", status=status(faults["server-error"], 500))


async def _wait_for_end(receive: Receive) -> None:
    """Wait until the caller leaves, an hour at most."""
    try:
        async with asyncio.timeout(HANG_SECONDS):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        log.info("a hanging call was given up after an hour")


def _headers(scope: Scope) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        headers.setdefault(str(name, "latin-1").lower(), str(value, "latin-1"))
    return headers


def _origin(scope: Scope, headers: Mapping[str, str]) -> str:
    """Return this server's address as the caller sees it, from the Host header when that is sane."""
    host = headers.get("host", "")
    if _HOST.fullmatch(host) is None:
        address, port = scope.get("server") or ("127.0.0.1", 80)
        host = f"{address}:{port}"
    return f"{scope.get('scheme', 'http')}://{host}"


def _convert(groups: Mapping[str, str], convertors: Mapping[str, Convertor[object]]) -> dict[str, str]:
    return {name: str(convertors[name].convert(value)) for name, value in groups.items()}


async def _read_body(headers: Mapping[str, str], receive: Receive) -> bytes:
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > BODY_BYTES_MAX:
        raise _too_large()
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            more = True
            while more:
                message = await receive()
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > BODY_BYTES_MAX:
                    raise _too_large()
                more = message.get("more_body", False)
    except TimeoutError:
        raise Problem("invalid", "The request body did not arrive in time.", status=408) from None
    return b"".join(chunks)


def _too_large() -> Problem:
    return Problem("invalid", f"The request body is larger than {BODY_BYTES_MAX // 2**20} MiB.", status=413)


async def _send(send: Send, reply: Reply, *, half: bool = False) -> None:
    """Write an answer; half of it, when the connection is to break off in the middle."""
    body = reply.body[: len(reply.body) // 2] if half else reply.body
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
    headers.append((b"content-length", str(len(reply.body) + half).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    # Returning with more to come makes the server close the connection.
    await send({"type": "http.response.body", "body": body, "more_body": half})
