"""A partner made of sockets: it answers what a test scripts, byte by byte, and remembers every request.

Scripts are per path. A path with several behaviours plays them in order and repeats the last one forever.
"""

import asyncio
import gzip
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

NAME: Final = "fake"
_ALTERNATES: Final = ("fal", "wavespeed", "runware", "higgsfield")
SECRET: Final = "fake-partner-secret"
_HEAD_MAX: Final = 64 * 1024
_REASONS: Final = {200: "OK", 302: "Found", 400: "Bad Request"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived; header names are lower-case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The path, still encoded, without its query."""
        return self.target.partition("?")[0]


class HangUpError(Exception):
    """A behaviour is done with its connection."""


Behaviour: TypeAlias = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


def reply(status: int = 200, body: bytes = b"{}", content_type: str = "application/json", **headers: str) -> Behaviour:
    """Answer whole and at once; underscores in header names stand for hyphens."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        await _send(writer, status, {"Content-Type": content_type, **_hyphenate(headers)}, body, len(body))

    return behave


def reply_json(document: Any, status: int = 200, **headers: str) -> Behaviour:
    """Answer with a JSON document."""
    return reply(status, json.dumps(document).encode(), **headers)


def hang() -> Behaviour:
    """Never answer."""

    async def behave(_: Request, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    return behave


def drop() -> Behaviour:
    """Close the connection without a word."""

    async def behave(_: Request, __: asyncio.StreamWriter) -> None:
        raise HangUpError

    return behave


def half(body: bytes, promised: int) -> Behaviour:
    """Promise more bytes than are sent, then close."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        await _send(writer, 200, {"Content-Type": "application/json"}, body, promised)
        raise HangUpError

    return behave


def cut_chunks(body: bytes) -> Behaviour:
    """Send a chunk, then close where the next one should begin."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        await _begin_chunks(writer)
        writer.write(b"%x\r\n%b\r\n" % (len(body), body))
        await writer.drain()
        raise HangUpError

    return behave


def endless(chunk: bytes = b" " * 65536) -> Behaviour:
    """Stream a body without end."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        await _begin_chunks(writer)
        while True:
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()

    return behave


def trickle(pause: float) -> Behaviour:
    """Stream a body without end, a byte at a time, so that only a bound on the whole can end it."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        await _begin_chunks(writer)
        while True:
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            await asyncio.sleep(pause)

    return behave


def raw(content: bytes) -> Behaviour:
    """Send bytes that need not be HTTP, then close."""

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        raise HangUpError

    return behave


def gzip_reply(body: bytes) -> Behaviour:
    """Answer encoded, whatever was accepted."""
    return reply(200, gzip.compress(body), Content_Encoding="gzip")


def redirect(to: str) -> Behaviour:
    """Answer 302 to another address."""
    return reply(302, b"", Location=to)


def echo() -> Behaviour:
    """Answer the request's own body."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        await _send(writer, 200, {"Content-Type": "application/json"}, request.body, len(request.body))

    return behave


class FakePartner:
    """The partner, on a port of its own and in a thread of its own.

    `url` is where it listens, `accepted` how many connections it was opened, whatever came over them.
    """

    def __init__(self) -> None:
        self.accepted = 0
        self._scripts: dict[str, list[Behaviour]] = {}
        self._rest: Behaviour = reply(404, b'{"error":{"code":"unscripted"}}')
        self._requests: list[Request] = []
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-partner")
        self._thread.start()
        self._server = self._call(self._listen())
        self._gate = self._call(_new_event())
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def script(self, path: str, *behaviours: Behaviour) -> None:
        """Say how a path answers from now on."""
        with self._lock:
            self._scripts[path] = list(behaviours)

    def script_rest(self, behaviour: Behaviour) -> None:
        """Say how every path without a script of its own answers."""
        with self._lock:
            self._rest = behaviour

    def hold(self, behaviour: Behaviour) -> Behaviour:
        """Put off a behaviour until `release` is called."""

        async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
            await self._gate.wait()
            await behaviour(request, writer)

        return behave

    def release(self) -> None:
        """Let everything that is held go on, and whatever is held later."""
        self._loop.call_soon_threadsafe(self._gate.set)

    def requests(self, path: str | None = None, method: str | None = None) -> Sequence[Request]:
        """What arrived so far."""
        with self._lock:
            return [
                request
                for request in self._requests
                if path in (None, request.path) and method in (None, request.method)
            ]

    def reset(self) -> None:
        """Forget scripts and requests, hang up, and hold again what is to be held."""
        with self._lock:
            self._scripts.clear()
            self._requests.clear()
        self._call(self._hang_up())
        self._loop.call_soon_threadsafe(self._gate.clear)

    def stop(self) -> None:
        """Close every connection and end the thread."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=1024, limit=_HEAD_MAX)

    async def _close(self) -> None:
        """In the loop's own thread: a server that is closed in another may be found half-closed."""
        self._server.close()
        await self._hang_up()

    async def _hang_up(self) -> None:
        current = asyncio.current_task()
        tasks = [task for task in self._connections if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await _read(reader)
                await self._behaviour_for(request)(request, writer)
        except (HangUpError, asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the connection is over, and so is this task
        finally:
            writer.close()

    def _behaviour_for(self, request: Request) -> Behaviour:
        with self._lock:
            self._requests.append(request)
            script = self._scripts.get(request.path)
            if not script:
                return self._rest
            return script.pop(0) if len(script) > 1 else script[0]


@contextmanager
def running_partner() -> Iterator[FakePartner]:
    """Start a partner, and end it whatever happens."""
    partner = FakePartner()
    try:
        yield partner
    finally:
        partner.stop()


async def _new_event() -> asyncio.Event:
    return asyncio.Event()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.split("\r\n")
    method, target, _ = line.split(" ")
    pairs = (header.partition(":") for header in lines if header)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return Request(method, target, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _send(
    writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], body: bytes, length: int
) -> None:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'As Told')}", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    await writer.drain()


async def _begin_chunks(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    await writer.drain()


def _hyphenate(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


_PROVIDER: Final = """\
provider = "{name}"
title = "A partner that does as it is told"
base_url = "{url}"
{head}
[auth]
scheme = "bearer"

[headers]
X-Fixed = "always"

[retry]
times = {retries}
first = 0.01
at_most = 1.0

{postpone}
[calls.json]
protocol = "sync-json"
path = "/json"
timeout = 600
answer_limit_mib = {answer_limit_mib}

[calls.picky]
protocol = "sync-json"
path = "/picky"
require = ["/ok"]
assets = ["/url"]

[calls.hasty]
protocol = "sync-json"
path = "/hasty"
timeout = 1.0

[calls.bytes]
protocol = "sync-bytes"
path = "/bytes"
media_types = ["audio/wav", "image/png"]

[calls.task]
protocol = "submit-and-poll"
path = "/tasks"
handle = "/id"

[calls.task.poll]
path = "/tasks/{{handle}}"
every = 0.02
at_most_every = 0.1
give_up_after = {give_up_after}
patience = 2
status = "/state"
pending = ["queued", "running"]
succeeded = ["done"]
failed = ["failed"]

[[signs]]
means = "refused"
when = [{{ at = "/error/code", equals = ["refused"] }}]
subject = "/error/side"
subjects = {{ prompt = "input_text", picture = "output_image" }}

[[signs]]
means = "invalid"
status = [200]
when = [{{ at = "/state", equals = ["rejected"] }}]
reason = "/why"

[[signs]]
means = "timeout"
when = [{{ at = "/error/code", equals = ["late"] }}]

[[signs]]
means = "failed"
when = [{{ at = "/error/code", equals = ["broken"] }}]

[[signs]]
means = "unavailable"
when = [{{ at = "/error/code", equals = ["busy"] }}]

[[signs]]
means = "invalid"
status = [422]
reason = "/error/message"
field = "/error/param"
kind = "/error/kind"

[[signs]]
means = "invalid"
status = [400]
reason = "/error/message"
{tail}"""


def provider_text(
    url: str,
    name: str = NAME,
    *,
    repeats_safely: bool = True,
    give_up_after: float = 3,
    retries: int = 0,
    is_postponed: bool = False,
    alternate: bool = False,
    answer_limit_mib: int = 1,
    head: str = "",
    tail: str = "",
) -> str:
    """The provider file of a fake partner; `head` is more TOML before its tables, `tail` more at the end.

    Queued runs wait for it where it fails if it `is_postponed`, as usual; otherwise they end.
    """
    lines = [head]
    if repeats_safely:
        lines.append('idempotency_header = "Idempotency-Key"')
    if alternate:
        lines.append("alternate = true")
    return _PROVIDER.format(
        name=name,
        url=url,
        head="\n".join(lines),
        give_up_after=give_up_after,
        retries=retries,
        postpone="" if is_postponed else "[postpone]\ntimes = 0\n",
        answer_limit_mib=answer_limit_mib,
        tail=tail,
    )


def leg_text(provider: str = NAME, call: str = "json", *, price: str = "0.01", component: str = "") -> str:
    """A leg of a model file with one card of one component; `component` is more TOML of that one."""
    return (
        f'[[legs]]\nprovider = "{provider}"\ncall = "{call}"\n\n'
        f'[[legs.rate_cards]]\nversion = "{provider}-1"\neffective = 2020-01-01\n\n'
        f'[[legs.rate_cards.components]]\nunit = "run"\nprice = "{price}"\n{component}\n'
        + ('[legs.strict]\nfields = ["/prompt", "/other"]\n\n' if provider in _ALTERNATES else "")
    )


@dataclass
class CatalogFolder:
    """A folder as `--catalog` takes it, with a partner and models that point at it."""

    path: Path
    models: list[str] = field(default_factory=list)

    def add_provider(self, url: str, name: str = NAME, **options: Any) -> None:
        """Write the provider file of a fake partner; the options are those of `provider_text`."""
        self.write(f"providers/{name}.toml", provider_text(url, name, **options))

    def add_model(
        self,
        model_id: str,
        call: str = "json",
        *,
        provider: str = NAME,
        schema: Any = None,
        price: str = "0.01",
        component: str = "",
        head: str = "",
        tail: str = "",
    ) -> Path:
        """Write a model file, and its input schema when it has one.

        `head` is more TOML before the tables; `tail` more at the end: further legs (`leg_text`), or other tables.
        """
        stem = model_id.replace("/", "--")
        named = ""
        if schema is not None:
            self.write(f"models/{stem}.input.json", json.dumps(schema, indent=2))
            named = f'input_schema = "{stem}.input.json"\n'
        text = (
            f'id = "{model_id}"\ntitle = "A fake model"\ncharges_on_policy_rejection = "unknown"\n{named}{head}\n'
            f"{leg_text(provider, call, price=price, component=component)}{tail}"
        )
        self.models.append(model_id)
        return self.write(f"models/{stem}.toml", text)

    def write(self, name: str, text: str) -> Path:
        """Write any file of the folder, whole or not at all, as a careful operator would."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        half_written = path.with_suffix(".new")
        half_written.write_text(text, encoding="utf-8")
        return half_written.replace(path)


def port_of(url: str) -> int:
    """The port of an address with one."""
    port = urlsplit(url).port
    assert port is not None
    return port
