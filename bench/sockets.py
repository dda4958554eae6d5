"""What it costs to have a job watched by a thousand sockets, and how late the last of them hears of it.

The server (bench/watched.py) and the clients are two processes. The yardstick is a loop that writes the same bytes to
as many bare connections: less than that cannot be had in one process. `--help` shows the options.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final, cast

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measuring
from bench.measuring import CannotMeasureError, Claim, Cores

_CLAIMED_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 30.0
_SETTLE_SECONDS: Final = 0.5
_CONNECTING: Final = 100
_STOP_SECONDS: Final = 10.0
_SPARE_DESCRIPTORS: Final = 300
_END: Final = b"\r\n\r\n"
_SENT: Final = b'"sent":'
_TURN: Final = b',"turn":'


@dataclass(frozen=True, slots=True)
class Spent:
    """What the server needed: processor seconds, and the longest that one publication held everything else up."""

    cpu: float
    longest: float


@dataclass(slots=True)
class Heard:
    """What the clients have heard: how late each message was, in seconds, and how many came out of turn."""

    seconds: list[float] = field(default_factory=list)
    out_of_turn: int = 0
    open: int = 0

    def percentile(self, share: float) -> float:
        """How late a message was at most, for this share of all, in seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")


@dataclass(frozen=True, slots=True)
class Found:
    """One measurement."""

    heard: Heard
    expected: int
    spent: Spent
    kib_each: float

    def percentile(self, share: float) -> float:
        """How late a message was at most, for this share of all, in seconds."""
        return self.heard.percentile(share)

    @property
    def cpu_each(self) -> float:
        """Processor seconds of the server for one message to one socket."""
        return self.spent.cpu / max(1, len(self.heard.seconds))


class Watching(asyncio.Protocol):
    """A client that reads frames and nothing more."""

    def __init__(self, request: bytes, heard: Heard) -> None:
        self._request = request
        self._heard = heard
        self._received = b""
        self._is_open = False
        self._next_turn = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for a socket."""
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        """Read the frames that are whole; before the first one comes the head of the answer."""
        now = perf_counter()
        received = self._received + data
        if not self._is_open:
            at = received.find(_END)
            if at < 0 or len(received) < at + 6:
                self._received = received
                return
            if not received.startswith(b"HTTP/1.1 101"):
                raise CannotMeasureError(f"A socket was refused: {received[:200]!r}")
            self._is_open = True
            self._heard.open += 1
            received = received[at + 4 :]
        at = 0
        while (end := _end_of_frame(received, at)) <= len(received):
            self._read(received[at:end], now)
            at = end
        self._received = received[at:]

    def _read(self, frame: bytes, now: float) -> None:
        at = frame.find(_SENT)
        if at < 0:
            return
        middle = frame.find(_TURN, at)
        turn = int(frame[middle + len(_TURN) : frame.index(b"}", middle)])
        self._heard.out_of_turn += turn != self._next_turn
        self._next_turn = turn + 1
        self._heard.seconds.append(now - float(frame[at + len(_SENT) : middle]))


def _end_of_frame(received: bytes, at: int) -> int:
    """Where a frame of less than 64 KiB ends; behind everything received where that is not known yet."""
    if len(received) < at + 4:
        return len(received) + 1 if len(received) < at + 2 or received[at + 1] > 1 else at + 2 + received[at + 1]
    length = received[at + 1]
    return at + 2 + length if length <= 125 else at + 4 + int.from_bytes(received[at + 2 : at + 4], "big")


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sockets", type=int, default=1000, help="how many watch the job (default 1000)")
    parser.add_argument("--messages", type=int, default=200, help="how many messages each is told (default 200)")
    parser.add_argument("--per-second", type=float, default=20.0, help="messages a second (default 20)")
    parser.add_argument("--cores", metavar="LOAD,TARGET", help="which cores to use (default: the first two)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    measuring.lift_descriptors(options.sockets + _SPARE_DESCRIPTORS)
    cores = measuring.choose_cores(options.cores)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-")))
    print(f"{measuring.machine()}; {options.sockets:,} sockets, {options.messages:,} messages each", flush=True)
    bare = _run(folder, "--bare", cores, options)
    found = _run(folder, str(folder), cores, options)
    rows = [
        ("figure", "sockets", "bare connections", "ratio"),
        _row("p50", found.percentile(0.5), bare.percentile(0.5), "ms", 1000),
        _row("p99", found.percentile(0.99), bare.percentile(0.99), "ms", 1000),
        _row("latest", found.percentile(1), bare.percentile(1), "ms", 1000),
        _row("processor time a message", found.cpu_each, bare.cpu_each, "µs", 1e6),
        _row("longest publication", found.spent.longest, bare.spent.longest, "ms", 1000),
        _row("memory a socket", found.kib_each, bare.kib_each, "KiB", 1),
    ]
    print(measuring.table(rows))
    delivered, p99 = len(found.heard.seconds), found.percentile(0.99)
    whole = delivered == found.expected and not found.heard.out_of_turn
    told = f"{delivered:,} of {found.expected:,}, {found.heard.out_of_turn} out of turn"
    late = f"{p99 * 1000:.1f} ms"
    return measuring.print_claims(
        [
            Claim(f"{options.sockets:,} sockets are told every message, in order", told, whole),
            Claim("p99 from publication to receipt is under 100 ms", late, p99 < _CLAIMED_SECONDS),
        ]
    )


def _row(name: str, ours: float, theirs: float, unit: str, scale: float) -> tuple[str, str, str, str]:
    ratio = f"{ours / theirs:.2f}" if theirs else "-"
    return name, f"{ours * scale:.2f} {unit}", f"{theirs * scale:.2f} {unit}", ratio


def _run(folder: Path, kind: str, cores: Cores, options: argparse.Namespace) -> Found:
    log = folder / "watched.log"
    with watched_server([kind], log, cores.target) as (server, port, key), measuring.pin_to(cores.load):
        return uvloop.run(_watch(server, port, key, options))


@contextmanager
def watched_server(
    words: Sequence[str], log: Path, core: int | None = None
) -> Iterator[tuple["subprocess.Popen[str]", int, str]]:
    """Run bench/watched.py with some words: the process, its port and a key of it."""
    command = [sys.executable, str(Path(__file__).with_name("watched.py")), *words]
    measuring.leave_nothing_behind()
    with log.open("ab") as errors, measuring.pin_to(core):
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    try:
        ready = json.loads(measuring.first_line(server, log))
        yield server, ready["port"], ready["key"]
    finally:
        if server.stdin is not None:
            server.stdin.close()  # which is how it is told to end
        with suppress(subprocess.TimeoutExpired):
            server.wait(_STOP_SECONDS)
        measuring.stop(server)


async def _watch(server: "subprocess.Popen[str]", port: int, key: str, options: argparse.Namespace) -> Found:
    heard = Heard()
    before = measuring.rss_bytes(server.pid)
    transports = await open_sockets(heard, port, key, options.sockets)
    kib_each = (measuring.rss_bytes(server.pid) - before) / 1024 / options.sockets
    spent = await asyncio.to_thread(publish, server, options.messages, options.per_second)
    await asyncio.sleep(_SETTLE_SECONDS)
    for transport in transports:
        transport.close()
    return Found(heard, options.sockets * options.messages, spent, kib_each)


async def open_sockets(heard: Heard, port: int, key: str, number: int) -> list[asyncio.Transport]:
    """Open sockets, and wait until they are open and everything is quiet."""
    request = (
        f"GET /ws?token={key} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
    loop, wanted, transports = asyncio.get_running_loop(), heard.open + number, []
    for begin in range(0, number, _CONNECTING):
        count = min(_CONNECTING, number - begin)
        opened = [loop.create_connection(lambda: Watching(request, heard), "127.0.0.1", port) for _ in range(count)]
        transports += [transport for transport, _ in await asyncio.gather(*opened)]
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while heard.open < wanted:  # noqa: ASYNC110 -- counted by a thousand protocols
            await asyncio.sleep(0.01)
    await asyncio.sleep(_SETTLE_SECONDS)
    return transports


def publish(server: "subprocess.Popen[str]", count: int, per_second: float) -> Spent:
    """Have the server publish, and wait until it has."""
    if server.stdin is None or server.stdout is None:
        raise CannotMeasureError("The server has no standard input and output.")
    server.stdin.write(f"{count} {per_second}\n")
    server.stdin.flush()
    line = server.stdout.readline()
    if not line:
        raise CannotMeasureError("The server has ended.")
    told = json.loads(line)
    return Spent(told["cpu"], told["longest"])


if __name__ == "__main__":
    sys.exit(main())
