"""The connection to NATS, which is made again whenever it is lost, and its bounded queue.

Only messages wait for the connection, and those for two seconds at most: by then the other servers have read the
changes from the database.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from fairlead.messaging.nats.credentials import BadCredentialsError, address_of, identity_of
from fairlead.messaging.nats.wire import MalformedMessageError

Take: TypeAlias = Callable[[str, bytes], None]
"""Handles a message, given its subject and content; MalformedMessageError."""

_WAITING_MAX: Final = 10_000
_WAITING_BYTES_MAX: Final = 16 * 2**20
_STALE_SECONDS: Final = 2.0
_HEARD_MAX: Final = 10_000
_HEARD_BYTES_MAX: Final = 16 * 2**20
"""How much of one subscription may wait for the event loop; further messages are dropped."""
_CONNECT_SECONDS: Final = 2
_PING_SECONDS: Final = 5
"""How often NATS is pinged; after two pings without an answer the connection is lost."""
_FLUSH_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.0)
"""The pauses before each attempt to reconnect; the last one repeats."""
_CLOSE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.02
_PASSING: Final = (nats.errors.Error, BadCredentialsError, OSError, TimeoutError)


class LinkState(msgspec.Struct, frozen=True):
    """Whether there is a connection. `detail` is the server's address, or why there is none; nothing secret."""

    is_connected: bool
    detail: str


class LinkCounts(msgspec.Struct):
    """How many messages had which outcome since the start.

    Dropped messages are `late` (they waited too long, or the queue was full), `large` (NATS does not accept them),
    `flooding` (they arrived faster than they were handled), or `malformed`.
    """

    sent: int = 0
    heard: int = 0
    late: int = 0
    large: int = 0
    flooding: int = 0
    malformed: int = 0


class NatsUnavailableError(Exception):
    """No NATS server can be used. The message says why, without anything secret."""


class _Client(Client):
    """A client that sends credentials over TLS alone if a URL begins with `tls://`; the library would send them anyway.

    The overridden method belongs to the library; a test fails if it disappears.
    """

    must_be_secure = False
    cause: Exception | None = None
    """The last error while it connected. With several servers the library reports only that none is left."""

    def _connect_command(self) -> bytes:
        if self.must_be_secure and not self._server_info.get("tls_required"):
            raise nats.errors.Error("the server does not ask for TLS")
        return super()._connect_command()


class NatsLink:
    """Sends and receives messages once it was started. `report` is called when the connection is made or lost.

    All methods must be called in the thread of the event loop.
    """

    def __init__(self, urls: Sequence[str], credentials: Path | None, report: Callable[[LinkState], None]) -> None:
        self.counts: Final = LinkCounts()
        self._urls = urls
        self._credentials = credentials
        self._report = report
        self._state: LinkState | None = None
        self._away_since = time.monotonic()
        self._waiting: deque[tuple[float, str, bytes]] = deque()
        self._waiting_bytes = 0
        self._wanted: dict[str, Take] = {}
        self._subscribed: dict[str, Subscription] = {}
        self._changed: dict[str, None] = {}
        """The subjects whose subscriptions have changed since the last exchange with NATS."""
        self._has_work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection."""
        return self._state is not None and self._state.is_connected

    def start(self) -> None:
        """Connect in the background, and reconnect whenever the connection is lost."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Send queued messages for up to a second, and close the connection."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self.is_connected and self._waiting:  # noqa: ASYNC110 -- at the end only
                    await asyncio.sleep(_LOOK_SECONDS)
        if self._task is not None:
            await _end(self._task)

    def publish(self, subject: str, encode: Callable[[], bytes]) -> None:
        """Queue a message, or drop it: while NATS is away it is not even encoded. Never waits, never raises."""
        now = time.monotonic()
        if not self.is_connected and now - self._away_since > _STALE_SECONDS:
            self.counts.late += 1
            return
        content = encode()
        self._waiting.append((now, subject, content))
        self._waiting_bytes += len(content)
        while len(self._waiting) > _WAITING_MAX or self._waiting_bytes > _WAITING_BYTES_MAX:
            self._take_waiting()
            self.counts.late += 1
        self._has_work.set()

    def subscribe(self, subject: str, take: Take) -> Callable[[], None]:
        """Handle the messages of a subject while there is a connection; the returned function unsubscribes."""
        self._wanted[subject] = take
        self._note_change(subject)

        def leave() -> None:
            if self._wanted.pop(subject, None) is not None:
                self._note_change(subject)

        return leave

    def _note_change(self, subject: str) -> None:
        self._changed[subject] = None
        self._has_work.set()

    def _take_waiting(self) -> tuple[float, str, bytes]:
        found = self._waiting.popleft()
        self._waiting_bytes -= len(found[2])
        return found

    async def _work(self) -> NoReturn:
        tries = 0
        while True:
            client = _new_client(self._urls)
            is_lost = asyncio.Event()
            try:
                await _connect(client, self._urls, self._credentials, self._note_error, is_lost)
                tries = 0
                self._note_state(LinkState(is_connected=True, detail=_server_address(client)))
                await self._serve(client, is_lost)
                reason = _reason(client.last_error)
            except _PASSING as error:
                reason = _reason(_cause(client, error))
            finally:
                self._subscribed = {}
                await _close(client)
            self._note_state(LinkState(is_connected=False, detail=reason))
            await asyncio.sleep(_PAUSE_SECONDS[min(tries, len(_PAUSE_SECONDS) - 1)])
            tries += 1

    async def _serve(self, client: Client, is_lost: asyncio.Event) -> None:
        """Send and receive until the connection is lost."""
        # A new connection has no subscriptions: all of them are made again.
        self._changed = dict.fromkeys(self._wanted)
        self._has_work.set()
        tasks = [asyncio.create_task(self._send(client)), asyncio.create_task(is_lost.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                await _end(task)
        for task in done:
            task.result()  # raises the error of sending, if it has failed

    async def _send(self, client: Client) -> NoReturn:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            changed, self._changed = self._changed, {}
            for subject in changed:
                await self._note_subject(client, subject)
            while self._waiting:
                since, subject, content = self._take_waiting()
                if time.monotonic() - since > _STALE_SECONDS:
                    self.counts.late += 1
                elif len(content) > client.max_payload:
                    self.counts.large += 1
                else:
                    await client.publish(subject, content)
                    self.counts.sent += 1

    async def _note_subject(self, client: Client, subject: str) -> None:
        """Subscribe to a subject at NATS, or unsubscribe, as it is wanted now."""
        if subject in self._wanted and subject not in self._subscribed:
            self._subscribed[subject] = await client.subscribe(
                subject, cb=self._take, pending_msgs_limit=_HEARD_MAX, pending_bytes_limit=_HEARD_BYTES_MAX
            )
        elif subject not in self._wanted and (subscription := self._subscribed.pop(subject, None)) is not None:
            await subscription.unsubscribe()

    async def _take(self, message: Msg) -> None:
        self.counts.heard += 1
        take = self._wanted.get(message.subject) or self._wanted.get(f"{message.subject.rpartition('.')[0]}.*")
        if take is None:
            return  # it was unsubscribed meanwhile
        try:
            take(message.subject, message.data)
        except MalformedMessageError:
            self.counts.malformed += 1

    async def _note_error(self, error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            self.counts.flooding += 1

    def _note_state(self, state: LinkState) -> None:
        """Note a state, and report it if it differs from the last one."""
        if self.is_connected and not state.is_connected:
            self._away_since = time.monotonic()
        has_changed = self._state is None or self._state.is_connected != state.is_connected
        self._state = state
        if has_changed:
            self._report(state)


async def try_servers(urls: Sequence[str], credentials: Path | None) -> tuple[str, float]:
    """Connect once, and return the address of the server and the round-trip time (seconds). NatsUnavailableError."""
    client = _new_client(urls)

    async def ignore(_: Exception) -> None:
        pass

    try:
        await _connect(client, urls, credentials, ignore, asyncio.Event())
        return _server_address(client), await client.rtt(timeout=_CONNECT_SECONDS)
    except _PASSING as error:
        raise NatsUnavailableError(_reason(_cause(client, error))) from None
    finally:
        await _close(client)


def _new_client(urls: Sequence[str]) -> _Client:
    client = _Client()
    client.must_be_secure = any(url.startswith("tls:") for url in urls)
    return client


async def _connect(
    client: _Client,
    urls: Sequence[str],
    credentials: Path | None,
    note_error: Callable[[Exception], Awaitable[None]],
    is_lost: asyncio.Event,
) -> None:
    """Connect to one of some servers. The client does not reconnect by itself, or it would send stale messages."""

    async def note_end() -> None:
        is_lost.set()

    async def note(error: Exception) -> None:
        client.cause = error
        await note_error(error)

    known = identity_of(urls, credentials)
    await client.connect(
        [address_of(url) for url in urls],
        error_cb=note,
        closed_cb=note_end,
        name="fairlead",
        allow_reconnect=False,
        max_reconnect_attempts=1,
        reconnect_time_wait=0,
        connect_timeout=_CONNECT_SECONDS,
        ping_interval=_PING_SECONDS,
        flush_timeout=_FLUSH_SECONDS,
        no_echo=True,
        skip_subject_validation=True,
        user=known.user,
        password=known.password,
        token=known.token,
        signature_cb=None if known.file is None else known.file.sign,
        user_jwt_cb=None if known.file is None else known.file.token,
    )


async def _end(task: "asyncio.Task[object]") -> None:
    """Cancel a task until it has ended, because the library swallows some cancellations."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_LOOK_SECONDS)


async def _close(client: Client) -> None:
    """Close a client, in whatever state it is."""
    with suppress(Exception):  # the library does not document what it raises
        await client.close()


def _cause(client: _Client, error: Exception) -> Exception:
    """The reason why no server of a list could be used: the error of the last one."""
    return client.cause or error if isinstance(error, nats.errors.NoServersError) else error


def _server_address(client: Client) -> str:
    url = client.connected_url
    return "" if url is None else f"{url.hostname}:{url.port}"


def _reason(error: BaseException | None) -> str:
    """The reason why there is no connection, in the library's words, without passwords."""
    if error is None:
        return "the connection was closed"
    return str(error).removeprefix("nats: ").strip("' ") or type(error).__name__
