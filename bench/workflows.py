"""What the workflow platform does: small jobs, also such that make pictures, long chains, starts, and idle memory.

The caller is this process; everything goes over HTTP and the socket, as clients do it, and every job is durable before
its success is told. `--help` shows the options; docs/benchmarks.md says how to read the figures.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvloop
from websockets.asyncio.client import ClientConnection, connect

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measuring
from bench.measuring import MIB, CannotMeasureError, Claim, Gateway
from bench.sessions import ask_all, request, sessions

_CLAIMED_JOB_MS: Final = 3.0
_CLAIMED_JOBS_A_SECOND: Final = 400.0
_CLAIMED_JOB_CPU_MS: Final = 1.5
_CLAIMED_PICTURE_MS: Final = 5.0
_CLAIMED_PICTURES_A_SECOND: Final = 200.0
_CLAIMED_COLD_SECONDS: Final = 0.5
_CLAIMED_CACHED_SECONDS: Final = 0.1
_CLAIMED_EVENTS: Final = MIB
_CLAIMED_READY_SECONDS: Final = 1.5
_CLAIMED_IDLE: Final = 150 * MIB
_CONNECTIONS: Final = 8
_WARM_UPS: Final = 20
_PICTURE_EDGE: Final = 32
_CHAIN: Final = 500
_LONG_CHAIN: Final = 10_000
_PATIENCE_SECONDS: Final = 120.0
_IDLE_SECONDS: Final = 2.0
_ENGINE: Final = {"FAIRLEAD_ENGINE": "true"}
_LAST: Final = ("execution_success", "execution_error", "execution_interrupted")


@dataclass(frozen=True, slots=True)
class Watched:
    """A job that was watched: seconds from its submission to its success, and the bytes its messages had."""

    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Many:
    """Jobs that were submitted at once: how many, the seconds until all had succeeded, and CPU seconds of the tree."""

    jobs: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of processor time of a job."""
        return self.cpu / self.jobs * 1000


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of job: the seconds of each, one by one, and many at once; likewise where all of it is known."""

    singles: list[float]
    many: Many
    known_singles: list[float]
    known_many: Many

    @property
    def p50_ms(self) -> float:
        """The median from submission to success in milliseconds."""
        return statistics.median(self.singles) * 1000

    @property
    def known_p50_ms(self) -> float:
        """Likewise where all of it is known."""
        return statistics.median(self.known_singles) * 1000


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was measured; seconds and bytes."""

    ready: float
    idle: int
    small: "Measured"
    shown: "Measured"
    saved: "Measured"
    cold: Watched
    cached: Watched
    long: Watched


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=200, help="small jobs, one by one and then at once (default 200)")
    parser.add_argument("--cores", metavar="LOAD,TARGET", help="which cores to use (default: the first two)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the data goes (default: the temporary one)")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-", dir=options.folder)))
    print(f"{measuring.machine()}; data on {measuring.file_system_of(folder)}", flush=True)
    data = folder / "data"
    with measuring.gateway(data, "--no-local-partner", settings=_ENGINE):
        pass  # the first start makes the database; an operator's starts come after
    began = time.perf_counter()
    server = stack.enter_context(measuring.gateway(data, "--no-local-partner", settings=_ENGINE))
    found = uvloop.run(_work(server, options.jobs, began))
    server.stop()
    _print(found)
    return measuring.print_claims([*_claims(found), _books(data)])


async def _work(server: Gateway, jobs: int, began: float) -> Found:
    headers = {"X-API-Key": server.key}
    async with sessions(server, _CONNECTIONS) as opened:
        reply = await opened[0].ask(request(server, "GET", "/api/object_info/PreviewAny"))
        ready = time.perf_counter() - began
        if reply.status != 200:
            raise CannotMeasureError(f"The engine does not answer: {reply.status} {reply.body[:200]!r}")
        await asyncio.sleep(_IDLE_SECONDS)
        idle = measuring.pss_bytes(server.pid) or measuring.rss_bytes(server.pid)
        uri = f"ws://127.0.0.1:{server.port}/ws?token={server.key}"
        async with connect(uri, additional_headers=headers, max_size=None, compression=None) as socket:
            bench = _Bench(server, opened, socket)
            measuring.tell("two nodes")
            small = await bench.measure(_small, jobs)
            measuring.tell("pictures that are shown")
            shown = await bench.measure(_shown_picture, jobs)
            measuring.tell("pictures that are saved")
            saved = await bench.measure(_saved_picture, jobs)
            measuring.tell(f"a chain of {_CHAIN}")
            cold, cached = await bench.watch(_chain(_CHAIN, 1)), await bench.watch(_chain(_CHAIN, 1))
            measuring.tell(f"a chain of {_LONG_CHAIN:,}")
            long = await bench.watch(_chain(_LONG_CHAIN, 2))
            measuring.tell("")
    return Found(ready, idle, small, shown, saved, cold, cached, long)


class _Bench:
    """What a measurement works with."""

    def __init__(self, server: Gateway, opened: Sequence[Any], socket: ClientConnection) -> None:
        self._server = server
        self._opened = opened
        self._socket = socket

    async def measure(self, graph: Callable[[int], Mapping[str, Any]], jobs: int) -> Measured:
        """Measure jobs of one kind; `graph` makes one that no number before has made known."""
        for number in range(_WARM_UPS):
            await self.watch(graph(number))
        first = _WARM_UPS
        singles = [(await self.watch(graph(first + number))).seconds for number in range(jobs)]
        many = await self.many([graph(first + jobs + number) for number in range(jobs)])
        # Each host has a cache of its own: so many at once have made the graph known to all of them.
        known = [graph(0)] * jobs
        await self.many(known)
        known_singles = [(await self.watch(one)).seconds for one in known]
        return Measured(singles, many, known_singles, await self.many(known))

    async def watch(self, graph: Mapping[str, Any]) -> Watched:
        """Submit a job and watch it to its success."""
        call = request(self._server, "POST", "/api/prompt", json.dumps({"prompt": graph}))
        began = time.perf_counter()
        asked = asyncio.ensure_future(self._opened[0].ask(call))
        told, job_id, ended = 0, None, set[str]()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while job_id is None or job_id not in ended:
                message = await self._socket.recv()
                told += len(message)
                if name := _ended_job(message):
                    ended.add(name)
                    seconds = time.perf_counter() - began
                if job_id is None and (asked.done() or ended):
                    reply = await asked
                    job_id = json.loads(reply.body).get("prompt_id")
                    if reply.status != 200 or job_id is None:
                        raise CannotMeasureError(f"A job was refused: {reply.status} {reply.body[:300]!r}")
        return Watched(seconds, told)

    async def many(self, graphs: Sequence[Mapping[str, Any]]) -> Many:
        """Submit jobs at once and watch them all to their success."""
        calls = [request(self._server, "POST", "/api/prompt", json.dumps({"prompt": graph})) for graph in graphs]
        used, began = measuring.cpu_seconds(self._server.pid), time.perf_counter()
        asked = asyncio.ensure_future(ask_all(self._opened, calls))
        ended = set[str]()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while len(ended) < len(graphs):
                if name := _ended_job(await self._socket.recv()):
                    ended.add(name)
        seconds, cpu = time.perf_counter() - began, measuring.cpu_seconds(self._server.pid) - used
        refused = [reply.status for reply in await asked if reply.status != 200]
        if refused:
            raise CannotMeasureError(f"{len(refused)} jobs were refused with {refused[0]}.")
        return Many(len(graphs), seconds, cpu)


def _ended_job(message: str | bytes) -> str | None:
    """The job that a message tells the end of; only success is good enough for a figure."""
    if isinstance(message, bytes) or not any(last in message for last in _LAST):
        return None
    told = json.loads(message)
    if told["type"] in _LAST[1:]:
        raise CannotMeasureError(f"A job did not succeed: {message[:500]}")
    return str(told["data"]["prompt_id"]) if told["type"] == _LAST[0] else None


def _small(number: int) -> dict[str, Any]:
    """Two trivial nodes that nobody has executed yet."""
    return {
        "1": {"class_type": "PrimitiveInt", "inputs": {"value": number}},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    }


def _shown_picture(number: int) -> dict[str, Any]:
    """A picture that nobody has made yet, shown to who watches."""
    return _with_picture(number, {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}})


def _saved_picture(number: int) -> dict[str, Any]:
    """A picture that nobody has made yet, saved among the outputs."""
    inputs = {"images": ["1", 0], "filename_prefix": "bench"}
    return _with_picture(number, {"class_type": "SaveImage", "inputs": inputs})


def _with_picture(number: int, output: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {"width": _PICTURE_EDGE, "height": _PICTURE_EDGE, "batch_size": 1, "color": number}
    return {"1": {"class_type": "EmptyImage", "inputs": inputs}, "2": dict(output)}


def _chain(length: int, seed: int) -> dict[str, Any]:
    """A chain of nodes, each of which takes what the one before gives."""
    graph: dict[str, Any] = {"0": {"class_type": "PrimitiveString", "inputs": {"value": f"begin {seed}"}}}
    for number in range(1, length - 1):
        inputs = {"string": [str(number - 1), 0], "find": str(number), "replace": "x"}
        graph[str(number)] = {"class_type": "StringReplace", "inputs": inputs}
    graph[str(length - 1)] = {"class_type": "PreviewAny", "inputs": {"source": [str(length - 2), 0]}}
    return graph


def _print(found: Found) -> None:
    print(f"ready with the engine after {found.ready:.2f} s; idle with one host {found.idle / MIB:.0f} MB")
    for name, kind in _kinds(found):
        for how, singles, many in (
            ("", kind.singles, kind.many),
            (", all of it known", kind.known_singles, kind.known_many),
        ):
            ordered = sorted(singles)
            print(
                f"{name}{how}: p50 {statistics.median(ordered) * 1000:.2f} ms,"
                f" p90 {ordered[int(len(ordered) * 0.9)] * 1000:.2f} ms;"
                f" {many.jobs} at once: {many.rate:.0f} jobs/s, {many.cpu_ms:.2f} ms of CPU each"
            )
    for name, one in (
        (f"chain of {_CHAIN}, cold", found.cold),
        ("the same, cached", found.cached),
        (f"chain of {_LONG_CHAIN:,}", found.long),
    ):
        print(f"{name}: {one.seconds:.3f} s, {one.bytes / 1000:.0f} kB of messages")


def _kinds(found: Found) -> Sequence[tuple[str, Measured]]:
    return ("two nodes", found.small), ("a picture shown", found.shown), ("a picture saved", found.saved)


def _claims(found: Found) -> list[Claim]:
    cpu = found.small.many.cpu_ms
    return [
        *_job_claims("Two nodes", found.small, _CLAIMED_JOB_MS, _CLAIMED_JOBS_A_SECOND),
        Claim(f"at most {_CLAIMED_JOB_CPU_MS:g} ms of CPU each", f"{cpu:.2f} ms", cpu <= _CLAIMED_JOB_CPU_MS),
        *_job_claims("A picture shown", found.shown, _CLAIMED_PICTURE_MS, _CLAIMED_PICTURES_A_SECOND),
        *_job_claims("A picture saved", found.saved, _CLAIMED_PICTURE_MS, _CLAIMED_PICTURES_A_SECOND),
        Claim(
            f"A chain of {_CHAIN} cold under {_CLAIMED_COLD_SECONDS:g} s",
            f"{found.cold.seconds:.3f} s",
            found.cold.seconds < _CLAIMED_COLD_SECONDS,
        ),
        Claim("and under 1 MB of messages", f"{found.cold.bytes / MIB:.2f} MB", found.cold.bytes < _CLAIMED_EVENTS),
        Claim(
            f"cached under {_CLAIMED_CACHED_SECONDS:g} s",
            f"{found.cached.seconds:.3f} s",
            found.cached.seconds < _CLAIMED_CACHED_SECONDS,
        ),
        Claim(f"A chain of {_LONG_CHAIN:,} runs", f"{found.long.seconds:.1f} s", holds=True),
        Claim(
            f"Ready with the engine in {_CLAIMED_READY_SECONDS:g} s",
            f"{found.ready:.2f} s",
            found.ready < _CLAIMED_READY_SECONDS,
        ),
        Claim("Idle with one host under 150 MB", f"{found.idle / MIB:.0f} MB", found.idle < _CLAIMED_IDLE),
    ]


def _job_claims(name: str, kind: Measured, most_ms: float, least_a_second: float) -> list[Claim]:
    known, rate = kind.known_p50_ms, kind.many.rate
    return [
        Claim(f"{name}: p50 at most {most_ms:g} ms", f"{kind.p50_ms:.2f} ms", kind.p50_ms <= most_ms),
        Claim("known already: less than that", f"{known:.2f} ms", known < kind.p50_ms),
        Claim(f"at least {least_a_second:g} jobs/s", f"{rate:.0f}", rate >= least_a_second),
    ]


def _books(data: Path) -> Claim:
    report = measuring.audit(data)
    return Claim("The books are right", str(report.get("clean")), bool(report.get("clean")))


if __name__ == "__main__":
    sys.exit(main())
