"""What the queue does: from submit to dispatch on an idle server, runs a second, and ten thousand that wait.

The partner and the callers are this process, on one clock and one core; the gateway has another. Synchronous runs of
the same model take turns with the queued ones, so that a ratio can be read. `--help` shows the options;
docs/benchmarks.md says how to read the figures.
"""

import argparse
import asyncio
import json
import os
import random
import re
import socket
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import catalog, measuring
from bench.measuring import MIB, CannotMeasureError, Claim, Gateway
from bench.sessions import Reply, Session, ask_all, ask_paced, request, sessions
from bench.slow_partner import Connection, whole

_CLAIMED_DISPATCH_MS: Final = 5.0
_CLAIMED_RUNS_A_SECOND: Final = 600.0
_CLAIMED_TIMES: Final = 2.0
_CLAIMED_READ_MS: Final = 10.0
_CONNECTIONS: Final = 32
_READERS: Final = 8
_WARM_UP: Final = 500
_IDLE_PAUSE_SECONDS: Final = 0.03
_LOOK_SECONDS: Final = 0.005
_PATIENCE_SECONDS: Final = 120.0
_PACED_SUBMITS: Final = 500
_SUBMITS_A_SECOND: Final = 50.0
_READS_A_SECOND: Final = 200.0
_MOVED: Final = 200
_ENDED: Final = re.compile(rb"^fairlead_runs_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)
_MODEL_PATH: Final = f"/v2/models/{catalog.MODEL}"
_REQUESTS_PATH: Final = f"{_MODEL_PATH}/requests"
_CONTENT: Final = catalog.compact(catalog.ANSWER).encode()
_PICTURE: Final = whole(_CONTENT)
_QUEUED: Final = "queued"
_SYNCHRONOUS: Final = "synchronous"


class Partner:
    """Answers at once, or keeps its callers waiting while it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self._may_pass: int | None = None
        self._held = deque[Connection]()
        self._awaited: tuple[int, asyncio.Future[float]] | None = None

    def act(self, connection: Connection, _path: bytes) -> None:
        """Note that a call has come, and answer it now or later."""
        self.calls += 1
        self._look()
        self._held.append(connection)
        self._answer()

    async def wait_for_calls(self, times: int) -> float:
        """Wait until so many calls have come since the start; the moment of the last of them."""
        awaited: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._awaited = (times, awaited)
        self._look()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await awaited
        except TimeoutError as error:
            raise CannotMeasureError(f"The partner was called {self.calls:,} times, not {times:,}.") from error

    def let_pass(self, number: int | None) -> None:
        """Answer so many calls, those that wait and those to come, and hold the next; None answers all."""
        self._may_pass = number
        self._answer()

    def _look(self) -> None:
        if self._awaited is not None and self.calls >= self._awaited[0]:
            self._awaited[1].set_result(time.perf_counter())
            self._awaited = None

    def _answer(self) -> None:
        while self._held and self._may_pass != 0:
            if self._may_pass is not None:
                self._may_pass -= 1
            self._held.popleft().answer(_PICTURE)


@dataclass(frozen=True, slots=True)
class Idle:
    """Seconds from the send of a call to its arrival at the partner, one call at a time; and to the submit's answer."""

    queued: list[float]
    synchronous: list[float]
    answered: list[float]


@dataclass(frozen=True, slots=True)
class Turn:
    """Many runs at once. Seconds from the first call to the last settlement; then, of queued runs, the collecting."""

    kind: str
    runs: int
    seconds: float
    cpu_seconds: float
    collect_seconds: float = 0.0
    collect_cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Reads:
    """Statuses that were read: latencies in seconds, and how many were not exact."""

    seconds: list[float]
    wrong: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What was found while runs waited in one workspace.

    Memory in bytes. Latencies in seconds: of the last submits, and of status reads of a queue that was `empty`, that
    stood `still`, and whose runs were all `going`. Answers that were `wrong`: at submit, while it stood still, after
    it had moved.
    """

    waiting: int
    before: int
    during: int
    submits: list[float]
    empty: list[float]
    still: list[float]
    going: list[float]
    wrong: tuple[int, int, int]


@dataclass(slots=True)
class Bench:
    """What a measurement works with, and how many runs it has made."""

    server: Gateway
    partner: Partner
    opened: list[Session]
    runs: int = 0

    def calls(self, number: int, path: str = _REQUESTS_PATH) -> list[bytes]:
        """Calls of the model, each with an idempotency key of its own."""
        body = catalog.compact(catalog.BODY)
        first, self.runs = self.runs, self.runs + number
        return [request(self.server, "POST", path, body, f"bench-{first + one}") for one in range(number)]

    def reading(self, request_id: str, what: str = "") -> bytes:
        """A read of a queued run."""
        return request(self.server, "GET", f"{_REQUESTS_PATH}/{request_id}{what}")

    async def count_ended(self) -> int:
        """How many runs have ended, by the gateway's own counter, which counts a run when its end is durable."""
        page = await self.opened[0].ask(request(self.server, "GET", "/metrics"))
        return sum(int(float(found)) for found in _ENDED.findall(page.body))

    async def all_ended(self) -> None:
        """Wait until every run has reached the partner and has ended."""
        await self.partner.wait_for_calls(self.runs)
        give_up_at = time.perf_counter() + _PATIENCE_SECONDS
        while True:
            ended = await self.count_ended()
            if ended >= self.runs:
                return
            if time.perf_counter() > give_up_at:
                raise CannotMeasureError(f"Only {ended:,} of {self.runs:,} runs have ended.")
            await asyncio.sleep(_LOOK_SECONDS)


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of everything")
    parser.add_argument("--runs", type=int, default=4000, help="runs of a turn (default 4000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often queued and synchronous take turns (default 3)")
    parser.add_argument("--waiting", type=int, default=10_000, help="how many wait at once (default 10000)")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long their status is read (default 15)")
    parser.add_argument("--cores", metavar="LOAD,TARGET", help="which cores to use (default: the first two)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the data goes (default: the temporary one)")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.rounds, options.waiting, options.seconds = 1000, 1, 2000, 3.0
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-", dir=options.folder)))
    cores = measuring.choose_cores(options.cores)
    print(f"{measuring.machine()}; data on {measuring.file_system_of(folder)}")
    print(f"partner and callers on core {cores.load}, gateway on core {cores.target}", flush=True)
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
    files = catalog.write_catalog(folder / "catalog", listener.getsockname()[1])
    server = stack.enter_context(
        measuring.gateway(folder / "data", "--no-local-partner", "--catalog", files, core=cores.target)
    )
    measuring.lift_limits(server.data)
    before = os.getloadavg()[0]
    with measuring.pin_to(cores.load):
        idle, turns, waiting, runs = uvloop.run(_work(server, listener, options))
    print(f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after; this script alone makes about 1\n")
    server.stop()
    _print(idle, turns, waiting)
    return measuring.print_claims([*_speed_claims(idle, turns), *_waiting_claims(waiting), _books(server.data, runs)])


async def _work(
    server: Gateway, listener: socket.socket, options: argparse.Namespace
) -> tuple[Idle, list[Turn], Waiting, int]:
    """Measure everything against one gateway; the last figure is how many runs that took."""
    partner = Partner()
    serving = await asyncio.get_running_loop().create_server(lambda: Connection(partner), sock=listener)
    async with serving, sessions(server, _CONNECTIONS) as opened:
        bench = Bench(server, partner, opened)
        for kind in (_QUEUED, _SYNCHRONOUS):
            await _turn(bench, kind, _WARM_UP)
        measuring.tell("one run at a time")
        idle = await _one_at_a_time(bench, options.runs // 20)
        turns = []
        for one in range(options.rounds):
            for kind in (_QUEUED, _SYNCHRONOUS):
                measuring.tell(f"round {one + 1} of {options.rounds}: {kind}")
                turns.append(await _turn(bench, kind, options.runs))
        measuring.tell(f"{options.waiting:,} runs wait")
        waiting = await _wait(bench, options.waiting, options.seconds)
        measuring.tell("")
        return idle, turns, waiting, bench.runs


async def _one_at_a_time(bench: Bench, number: int) -> Idle:
    """Time what a call takes to its partner while nothing else goes on."""
    found = Idle([], [], [])
    for _ in range(number):
        answer, seconds = await _wait_until_reached(bench, _REQUESTS_PATH, 201)
        found.queued.append(seconds)
        found.answered.append(answer.seconds)
        found.synchronous.append((await _wait_until_reached(bench, _MODEL_PATH, 200))[1])
    return found


async def _wait_until_reached(bench: Bench, path: str, status: int) -> tuple[Reply, float]:
    """Make one call; its answer, and the seconds it took to the partner."""
    (call,) = bench.calls(1, path)
    began = time.perf_counter()
    answer, arrived = await asyncio.gather(
        bench.opened[0].ask(call), bench.partner.wait_for_calls(bench.partner.calls + 1)
    )
    _expect([answer], status)
    await asyncio.sleep(_IDLE_PAUSE_SECONDS)
    return answer, arrived - began


async def _turn(bench: Bench, kind: str, runs: int) -> Turn:
    """Make many runs and see them all to their end; collect what the queued ones ended in."""
    pid, is_queued = bench.server.pid, kind == _QUEUED
    calls = bench.calls(runs, _REQUESTS_PATH if is_queued else _MODEL_PATH)
    used, began = measuring.cpu_seconds(pid), time.perf_counter()
    replies = await ask_all(bench.opened, calls)
    _expect(replies, 201 if is_queued else 200)
    await bench.all_ended()
    seconds, cpu = time.perf_counter() - began, measuring.cpu_seconds(pid) - used
    if not is_queued:
        return Turn(kind, runs, seconds, cpu)
    reads = [bench.reading(json.loads(reply.body)["request_id"]) for reply in replies]
    used, began = measuring.cpu_seconds(pid), time.perf_counter()
    results = await ask_all(bench.opened, reads)
    collected = time.perf_counter() - began, measuring.cpu_seconds(pid) - used
    _expect(results, 200, _CONTENT)
    return Turn(kind, runs, seconds, cpu, *collected)


def _expect(replies: Sequence[Reply], status: int, body: bytes | None = None) -> None:
    """Figures of calls that failed would be worth nothing."""
    for reply in replies:
        if reply.status != status or (body is not None and reply.body != body):
            raise CannotMeasureError(f"A call was answered {reply.status} {reply.body[:300]!r}, not {status}.")


async def _wait(bench: Bench, number: int, seconds: float) -> Waiting:
    """Let runs wait behind one the partner holds, read them, let the first of them go, read again, and let all go."""
    server, opened = bench.server, bench.opened
    before = measuring.rss_bytes(server.pid)
    await asyncio.to_thread(measuring.limit_runs, server.data, 1)
    bench.partner.let_pass(0)
    first = (await ask_all(opened[:1], bench.calls(1)))[0]
    await bench.partner.wait_for_calls(bench.runs)
    empty = await _read(bench, {json.loads(first.body)["request_id"]: 0}, seconds / 3, moved=1)
    last = min(_PACED_SUBMITS, number)
    submitted = await ask_all(opened, bench.calls(number - last))
    paced = await ask_paced(opened, bench.calls(last), _SUBMITS_A_SECOND)
    known, wrong_places = _places([*submitted, *paced])
    during = measuring.rss_bytes(server.pid)
    still = await _read(bench, known, seconds, moved=0)
    moved = await _move(bench, known, seconds / 3)
    going = await _let_go(bench, known, seconds / 2)
    return Waiting(
        waiting=number,
        before=before,
        during=during,
        submits=[reply.seconds for reply in paced],
        empty=empty.seconds,
        still=still.seconds,
        going=going,
        wrong=(wrong_places, empty.wrong + still.wrong, moved),
    )


async def _let_go(bench: Bench, known: dict[str, int], seconds: float) -> list[float]:
    """Lift the limit, so that all runs go at once, and read meanwhile; the latencies, in seconds."""
    bench.partner.let_pass(None)
    lifting = asyncio.create_task(asyncio.to_thread(measuring.limit_runs, bench.server.data, -1))
    replies = await _ask_of(bench, random.Random(0).choices([*known], k=int(seconds * _READS_A_SECOND)))  # noqa: S311 -- nothing is secret
    await lifting
    await bench.all_ended()
    return [reply.seconds for reply in replies]


def _places(replies: Sequence[Reply]) -> tuple[dict[str, int], int]:
    """The known order: ids with the position each was submitted at; and how many positions are twice or missing."""
    _expect(replies, 201)
    found = [json.loads(reply.body) for reply in replies]
    known = {one["request_id"]: one["queue_position"] for one in found}
    return known, len(set(range(len(replies))) - set(known.values()))


async def _read(bench: Bench, known: dict[str, int], seconds: float, *, moved: int) -> Reads:
    """Read the status of random runs at a steady rate, after so many of the first have gone."""
    chosen = random.Random(moved).choices([*known], k=int(seconds * _READS_A_SECOND))  # noqa: S311 -- nothing is secret
    replies = await _ask_of(bench, chosen)
    wrong = sum(not _is_exact(reply, known[one] - moved) for one, reply in zip(chosen, replies, strict=True))
    return Reads([reply.seconds for reply in replies], wrong)


async def _ask_of(bench: Bench, request_ids: Sequence[str]) -> list[Reply]:
    calls = [bench.reading(one, "/status") for one in request_ids]
    return await ask_paced(bench.opened[:_READERS], calls, _READS_A_SECOND)


def _is_exact(reply: Reply, position: int) -> bool:
    """Whether a status says what the known order does: -1 is the run under way, what is below has ended.

    Both are at position 0, as released clients want a number of every run.
    """
    found = json.loads(reply.body)
    expected = ("IN_QUEUE", position) if position >= 0 else ("IN_PROGRESS" if position == -1 else "COMPLETED", 0)
    return reply.status == 200 and (found["status"], found["queue_position"]) == expected


async def _move(bench: Bench, known: dict[str, int], seconds: float) -> int:
    """Let some runs go, and read whether it was the first of them and everybody else moved up; how many lied."""
    moved = min(_MOVED, len(known))
    reached = bench.partner.calls + moved
    bench.partner.let_pass(moved)
    await bench.partner.wait_for_calls(reached)
    front = [one for one, position in known.items() if position <= moved]
    replies = await ask_all(bench.opened, [bench.reading(one, "/status") for one in front])
    wrong = sum(not _is_exact(reply, known[one] - moved) for one, reply in zip(front, replies, strict=True))
    return wrong + (await _read(bench, known, seconds, moved=moved)).wrong


def _milliseconds(seconds: Sequence[float], percent: int) -> float:
    """A percentile of some times."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1000


def _rate(turns: Sequence[Turn], kind: str) -> float:
    return statistics.median(turn.runs / turn.seconds for turn in turns if turn.kind == kind)


def _cost(turns: Sequence[Turn], kind: str) -> float:
    """The processor time a run takes, in microseconds."""
    return statistics.median(turn.cpu_seconds / turn.runs for turn in turns if turn.kind == kind) * 1e6


def _print(idle: Idle, turns: Sequence[Turn], waiting: Waiting) -> None:
    times: list[tuple[str, list[float]]] = [
        ("idle: submit to dispatch", idle.queued),
        ("idle: submit to its answer", idle.answered),
        ("idle: synchronous call to dispatch", idle.synchronous),
        ("status, nothing waits", waiting.empty),
        (f"status, {waiting.waiting:,} wait", waiting.still),
        ("status, all of them go", waiting.going),
        (f"submit, {waiting.waiting:,} wait", waiting.submits),
    ]
    rows = [
        (name, *(f"{_milliseconds(one, percent):.2f}" for percent in (50, 90, 99)), f"{max(one) * 1000:.2f}")
        for name, one in times
    ]
    print(measuring.table([("time", "p50 ms", "p90 ms", "p99 ms", "most ms"), *rows]))
    print()
    print(measuring.table([("runs", "runs/s", "CPU us", "x synchronous"), *_run_rows(turns)]))
    rss = f"{waiting.before / MIB:.1f} MiB before, {waiting.during / MIB:.1f} MiB with {waiting.waiting:,} that wait"
    print(f"\nRSS {rss}")


def _run_rows(turns: Sequence[Turn]) -> list[tuple[str, ...]]:
    yardstick = _cost(turns, _SYNCHRONOUS)
    queued = [turn for turn in turns if turn.kind == _QUEUED]
    rate = statistics.median(turn.runs / turn.collect_seconds for turn in queued)
    cost = statistics.median(turn.collect_cpu_seconds / turn.runs for turn in queued) * 1e6
    measured = [
        ("synchronous", _rate(turns, _SYNCHRONOUS), yardstick),
        ("queued, submitted to settled", _rate(turns, _QUEUED), _cost(turns, _QUEUED)),
        ("queued, collected", rate, cost),
    ]
    return [(name, f"{rate:,.0f}", f"{cost:,.0f}", f"{cost / yardstick:.1f}") for name, rate, cost in measured]


def _speed_claims(idle: Idle, turns: Sequence[Turn]) -> list[Claim]:
    middle, rate = _milliseconds(idle.queued, 50), _rate(turns, _QUEUED)
    dispatch = f"{middle:.2f} ms, {middle / _milliseconds(idle.synchronous, 50):.1f} times a synchronous call"
    times = _cost(turns, _QUEUED) / _cost(turns, _SYNCHRONOUS)
    return [
        Claim(
            f"from submit to dispatch in less than {_CLAIMED_DISPATCH_MS:g} ms (p50) on an idle server",
            dispatch,
            middle < _CLAIMED_DISPATCH_MS,
        ),
        Claim(
            f"{_CLAIMED_RUNS_A_SECOND:.0f} durable queued runs a second",
            f"{rate:,.0f}, {rate / _rate(turns, _SYNCHRONOUS):.2f} of the synchronous ones",
            rate >= _CLAIMED_RUNS_A_SECOND,
        ),
        Claim(
            f"a queued run costs at most {_CLAIMED_TIMES:g} times the processor time of a synchronous one",
            f"{times:.1f} times, {_cost(turns, _QUEUED):,.0f} us",
            times <= _CLAIMED_TIMES,
        ),
    ]


def _waiting_claims(found: Waiting) -> list[Claim]:
    slow, usual = _milliseconds(found.still, 99), _milliseconds(found.empty, 99)
    at_submit, still, moved = found.wrong
    said = f"{at_submit} wrong at submit, {still} in {len(found.still):,} reads, {moved} after the first had gone"
    return [
        Claim(
            f"a status is read in less than {_CLAIMED_READ_MS:g} ms (p99) while {found.waiting:,} wait",
            f"{slow:.2f} ms, {slow / usual:.1f} times that of an empty queue",
            slow < _CLAIMED_READ_MS,
        ),
        Claim("every position is exact", said, not any(found.wrong)),
    ]


def _books(data: Path, expected: int) -> Claim:
    """Every run must be closed and charged once."""
    books: dict[str, Any] = measuring.audit(data)
    owed, price = -Decimal(measuring.balance(data)), expected * Decimal(catalog.PRICE)
    succeeded = books["totals"]["runs_succeeded"]
    found = f"{succeeded:,} of {expected:,} runs, {owed} of {price} dollars, audit {books['clean']}"
    charged = books["clean"] and succeeded == expected and owed == price
    return Claim("every run is charged, and the audit is clean", found, charged)


if __name__ == "__main__":
    sys.exit(main())
