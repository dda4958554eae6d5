"""What it takes to send a large file and to fetch it again, beside what `cp` and `b3sum` take for the same file.

Files go to `fairlead serve` as forms, from a thread that has the kernel send them, and come back to one that drops what
it reads: neither is a bottleneck. `--help` shows the options; docs/benchmarks.md says how to read the figures.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from blake3 import blake3

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measuring
from bench.measuring import MIB, CannotMeasureError, Claim, Gateway

_CLAIMED_MEMORY: Final = 64 * MIB
_CLAIMED_SHARE: Final = 0.5
_AT_ONCE: Final = 8
_WARM_UP: Final = 4 * MIB
_WARM_UPS: Final = 3
_LOOK_SECONDS: Final = 0.01
_SETTLE_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 300.0
_BOUNDARY: Final = "5f0c1d7e9b2a4836a1b2c3d4e5f60718"
"""As long as those of usual clients are: the longer it is, the faster it is looked for."""
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Round:
    """What one file has taken, in seconds, and the memory beyond that before it, in bytes.

    `b3sum` is on all cores, as the program does it; `one_core` is on one. `synced` is what it takes after `cp` to have
    the copy on the disk, which an upload is when it is answered and a copy is not.
    """

    cp: float
    b3sum: float
    one_core: float
    synced: float
    upload: float
    upload_memory: int
    download: float
    download_memory: int

    @property
    def yardstick(self) -> float:
        """What `cp` plus `b3sum` take."""
        return self.cp + self.b3sum


@dataclass(frozen=True, slots=True)
class Crowd:
    """Files that were sent at once: how many, of which size, the seconds of all and the memory beyond that before."""

    files: int
    size: int
    seconds: float
    memory: int


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mib", type=int, default=1024, help="how large the file is, in MiB (default 1024)")
    parser.add_argument("--rounds", type=int, default=5, help="how often it is sent and fetched (default 5)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the data goes (default: the temporary one)")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-", dir=options.folder)))
    print(f"{measuring.machine()}; data on {measuring.file_system_of(folder)}; {options.mib:,} MiB", flush=True)
    settings = {"FAIRLEAD_ENGINE": "true", "FAIRLEAD_UPLOAD_LIMIT_MIB": str(options.mib)}
    server = stack.enter_context(measuring.gateway(folder / "data", "--no-local-partner", settings=settings))
    source = folder / "source"
    for _ in range(_WARM_UPS):
        _fill(source, _WARM_UP)
        _fetch(server, _send(server, source))
    _fill(source, options.mib * MIB)
    time.sleep(_SETTLE_SECONDS)
    rounds = []
    for number in range(options.rounds):
        measuring.tell(f"round {number + 1} of {options.rounds}")
        rounds.append(_round(server, folder, source))
    measuring.tell(f"{_AT_ONCE} at once")
    crowd = _crowd(server, folder, options.mib * MIB // _AT_ONCE)
    measuring.tell("")
    _print(rounds, crowd)
    return measuring.print_claims(_claims(rounds, crowd))


def _round(server: Gateway, folder: Path, source: Path) -> Round:
    """Copy, hash, send and fetch a file that nobody has seen before, and check that it is the same everywhere."""
    _change(source)
    copy = folder / "copy"
    cp, b3sum, one_core, synced = _yardsticks(source, copy)
    digest = blake3(max_threads=blake3.AUTO).update_mmap(copy).hexdigest()
    copy.unlink()
    with _watching(server) as upload_memory:
        began = time.perf_counter()
        asset = _send(server, source)
        upload = time.perf_counter() - began
    if asset.digest != digest:
        raise CannotMeasureError(f"The file was kept as {asset.digest} and is {digest}.")
    with _watching(server) as download_memory:
        began = time.perf_counter()
        _fetch(server, asset)
        download = time.perf_counter() - began
    if _fetch(server, asset, hashed=True) != digest:
        raise CannotMeasureError("The file came back as another.")
    _forget(server, asset)
    return Round(cp, b3sum, one_core, synced, upload, upload_memory[0], download, download_memory[0])


def _yardsticks(source: Path, copy: Path) -> tuple[float, float, float, float]:
    """Seconds of `cp`, of b3sum's hash (the library it is made of, in its way) on all cores and on one, of the disk.

    A copy is made and removed before the one that is timed: memory that a kernel has to fetch from its host is slow,
    and anyone who comes second would find it there.
    """
    subprocess.run(["cp", source, copy], check=True)
    copy.unlink()
    os.sync()
    times = [time.perf_counter()]
    subprocess.run(["cp", source, copy], check=True)
    times.append(time.perf_counter())
    blake3(max_threads=blake3.AUTO).update_mmap(copy)
    times.append(time.perf_counter())
    blake3().update_mmap(copy)
    times.append(time.perf_counter())
    with copy.open("rb") as file:
        os.fsync(file.fileno())
    times.append(time.perf_counter())
    cp, b3sum, one_core, synced = (after - before for before, after in pairwise(times))
    return cp, b3sum, one_core, synced


def _crowd(server: Gateway, folder: Path, size: int) -> Crowd:
    """Send several files at once, each with other bytes."""
    sources = [folder / f"source-{number}" for number in range(_AT_ONCE)]
    for source in sources:
        _fill(source, size)
    with ThreadPoolExecutor(_AT_ONCE) as threads, _watching(server) as memory:
        began = time.perf_counter()
        list(threads.map(lambda source: _send(server, source), sources))
        seconds = time.perf_counter() - began
    return Crowd(_AT_ONCE, size, seconds, memory[0])


def _fill(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())  # or the disk would be busy with it while something else is timed


def _change(path: Path) -> None:
    """Make a file one that no server has."""
    with path.open("r+b") as file:
        file.write(os.urandom(32))
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _watching(server: Gateway) -> Iterator[list[int]]:
    """Look at the memory of the server's processes all the while; afterwards the list has the most beyond the first."""
    most: list[int] = []
    before, ended = measuring.rss_bytes(server.pid), threading.Event()
    processes = measuring.tree(server.pid)

    def look() -> None:
        peak = before
        while not ended.wait(_LOOK_SECONDS):
            peak = max(peak, measuring.rss_of(processes))
        most.append(peak - before)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class _Asset:
    """What the server says of a file it has kept: its paths in the API and of its link, its BLAKE3 and its size."""

    path: str
    link: str
    digest: str
    size: int


def _send(server: Gateway, source: Path) -> _Asset:
    """Send a file as a form; the kernel copies it to the connection."""
    head = (
        f"--{_BOUNDARY}\r\n"
        f'Content-Disposition: form-data; name="file"; filename="{source.name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    tail = f"\r\n--{_BOUNDARY}--\r\n".encode()
    length = len(head) + source.stat().st_size + len(tail)
    more = (f"Content-Type: multipart/form-data; boundary={_BOUNDARY}", f"Content-Length: {length}")
    with _connection(server) as connection, source.open("rb") as file:
        connection.sendall(_head(server, "POST", "/api/v2/assets", *more) + head)
        connection.sendfile(file)
        connection.sendall(tail)
        status, body = _answer(connection)
    if status != 201:
        raise CannotMeasureError(f"A file was not taken: {status} {body[:200]!r}")
    told = json.loads(body)
    link = urlsplit(told["url"])
    return _Asset(
        f"/api/v2/assets/{told['id']}",
        f"{link.path}?{link.query}",
        told["hash"].removeprefix("blake3:"),
        told["size_bytes"],
    )


def _fetch(server: Gateway, asset: _Asset, *, hashed: bool = False) -> str:
    """Fetch a file and drop it, or hash it on its way."""
    digest, buffer = blake3(), bytearray(MIB)
    with _connection(server) as connection:
        connection.sendall(_head(server, "GET", asset.link))
        received = b""
        while _END not in received:
            received += _receive(connection)
        head, _, body = received.partition(_END)
        if int(head[9:12]) != 200:
            raise CannotMeasureError(f"A file was not given: {head[:200]!r}")
        digest.update(body)
        left = asset.size - len(body)
        while left:
            if not (count := connection.recv_into(buffer)):
                raise CannotMeasureError("A file ended early.")
            left -= count
            if hashed:
                digest.update(memoryview(buffer)[:count])
    return digest.hexdigest()


def _forget(server: Gateway, asset: _Asset) -> None:
    """Delete an asset and, which a server only does after a day, its bytes: they would fill the kernel's memory."""
    with _connection(server) as connection:
        connection.sendall(_head(server, "DELETE", asset.path))
        status, body = _answer(connection)
    if status != 204:
        raise CannotMeasureError(f"An asset was not deleted: {status} {body[:200]!r}")
    (server.data / "blobs" / asset.digest[:2] / asset.digest[2:4] / asset.digest).unlink()


def _head(server: Gateway, method: str, path: str, *more: str) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"X-API-Key: {server.key}", *more)
    return "\r\n".join((*lines, "Connection: close", "", "")).encode()


@contextmanager
def _connection(server: Gateway) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), _PATIENCE_SECONDS) as connection:
        yield connection


def _answer(connection: socket.socket) -> tuple[int, bytes]:
    """The status and the body of an answer after which the server hangs up."""
    received = b""
    while chunk := connection.recv(64 * 1024):
        received += chunk
    head, _, body = received.partition(_END)
    return int(head[9:12]), body


def _receive(connection: socket.socket) -> bytes:
    if not (chunk := connection.recv(64 * 1024)):
        raise CannotMeasureError("The server hung up.")
    return chunk


def _print(rounds: Sequence[Round], crowd: Crowd) -> None:
    def row(name: str, seconds: Sequence[float], memory: Sequence[int] = ()) -> tuple[str, str, str, str]:
        shown = f"{max(memory) / MIB:.1f}" if memory else ""
        return name, f"{statistics.median(seconds):.2f}", f"{min(seconds):.2f} to {max(seconds):.2f}", shown

    rows = [
        ("", "seconds", "least to most", "more MiB"),
        row("cp", [one.cp for one in rounds]),
        row("b3sum", [one.b3sum for one in rounds]),
        row("b3sum, one core", [one.one_core for one in rounds]),
        row("the copy on the disk", [one.synced for one in rounds]),
        row("upload", [one.upload for one in rounds], [one.upload_memory for one in rounds]),
        row("download", [one.download for one in rounds], [one.download_memory for one in rounds]),
        row(f"{crowd.files} uploads of {crowd.size // MIB} MiB at once", [crowd.seconds], [crowd.memory]),
    ]
    print(measuring.table(rows))


def _claims(rounds: Sequence[Round], crowd: Crowd) -> Iterator[Claim]:
    limit = f"takes less than {_CLAIMED_MEMORY // MIB} MiB more"
    for name, memory in (
        ("an upload", max(one.upload_memory for one in rounds)),
        ("a download", max(one.download_memory for one in rounds)),
        (f"{crowd.files} uploads at once", crowd.memory),
    ):
        yield Claim(f"{name} {limit}", f"{memory / MIB:.1f} MiB", memory < _CLAIMED_MEMORY)
    for name, shares in (
        ("an upload has at least half the speed of cp plus b3sum", [one.yardstick / one.upload for one in rounds]),
        ("the same with the copy on the disk", [(one.yardstick + one.synced) / one.upload for one in rounds]),
        ("a download has at least half the speed of cp plus b3sum", [one.yardstick / one.download for one in rounds]),
    ):
        share = statistics.median(shares)
        yield Claim(name, f"{share:.2f} times", share >= _CLAIMED_SHARE)


if __name__ == "__main__":
    sys.exit(main())
