"""What a server does with three times the runs that it can do: how many it accepts, and how long those take.

What it can do is measured first, by callers that each make their next call when they have an answer. Then calls come at
a fixed rate, whatever becomes of them: half of that, and three times that. The gateway under test, a partner that
answers at once, and the callers are processes of their own. `--help` shows the options; docs/benchmarks.md says how to
read the figures.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import catalog, measuring
from bench.measuring import CannotMeasureError, Claim, Cores, Gateway

_CAPACITY_CONNECTIONS: Final = 128
_OPEN_CONNECTIONS: Final = 8_000
_SPARE_DESCRIPTORS: Final = 1_000
_WARM_UP_SECONDS: Final = 1.0
_HALF: Final = 0.5
_THREE: Final = 3.0
_ACCEPTED: Final = "200"
_REFUSED: Final = "503"
_CLAIMED_SHARE: Final = 0.25
_CLAIMED_P50: Final = 3.0
_CLAIMED_P99: Final = 5.0
_CLAIMED_REFUSAL_MS: Final = 250.0

_Times = Sequence[tuple[int, int]]
"""Times in tenths of a millisecond, each with how many calls took it, from the shortest."""


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of load: how long it was counted, what was offered, and what became of it by status."""

    seconds: float
    offered: float | None
    late: float
    lost: int
    times: dict[str, _Times] = field(default_factory=dict)
    before: dict[str, _Times] = field(default_factory=dict)

    def per_second(self, status: str) -> float:
        """How many calls a second ended so."""
        return _total(self.times.get(status, ())) / self.seconds

    def percentile(self, status: str, share: float) -> float:
        """In how many milliseconds such a share of them was answered."""
        return _percentile(self.times.get(status, ()), share)

    @property
    def others(self) -> dict[str, int]:
        """What ended as nothing should."""
        found: dict[str, int] = {}
        for times in (self.times, self.before):
            for status, counted in times.items():
                if status not in (_ACCEPTED, _REFUSED):
                    found[status] = found.get(status, 0) + _total(counted)
        return found

    @property
    def accepted(self) -> int:
        """How many runs were answered, those before the time that counts included."""
        return _total(self.times.get(_ACCEPTED, ())) + _total(self.before.get(_ACCEPTED, ()))


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each load is counted (default 6)")
    parser.add_argument("--onset", type=float, default=6.0, help="how long three times comes before that (default 6)")
    parser.add_argument("--cores", metavar="LOAD,TARGET", help="which cores to use (default: the first two)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    measuring.lift_descriptors(_OPEN_CONNECTIONS + _SPARE_DESCRIPTORS)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-")))
    cores = measuring.choose_cores(options.cores)
    print(f"{measuring.machine()}; load average {os.getloadavg()[0]:.1f}", flush=True)
    log = folder / "partner.log"
    command: list[str | Path] = [sys.executable, Path(__file__).with_name("slow_partner.py"), "1"]
    partner = stack.enter_context(measuring.program(command, log, cores.load))
    files = catalog.write_catalog(folder / "catalog", int(measuring.first_line(partner, log)))
    server = stack.enter_context(
        measuring.gateway(folder / "data", "--no-local-partner", "--catalog", files, core=cores.target)
    )
    measuring.lift_limits(server.data)
    warm_up = _load(server, cores, None, 0.0, _WARM_UP_SECONDS)
    capacity = _load(server, cores, None, 0.0, options.seconds)
    rate = capacity.per_second(_ACCEPTED)
    half = _load(server, cores, rate * _HALF, 0.0, options.seconds)
    three = _load(server, cores, rate * _THREE, options.onset, options.seconds)
    loads = [warm_up, capacity, half, three]
    server.stop()
    _print(capacity, half, three)
    print(f"load average {os.getloadavg()[0]:.1f}")
    return measuring.print_claims([*_claims(capacity, three), *_sound_claims(loads, measuring.audit(server.data))])


def _load(server: Gateway, cores: Cores, rate: float | None, before: float, seconds: float) -> Load:
    """Have a process make calls."""
    options = {
        "port": server.port,
        "request": _request(server),
        "connections": _CAPACITY_CONNECTIONS if rate is None else _OPEN_CONNECTIONS,
        "rate": rate,
        "before": before,
        "seconds": seconds,
    }
    command = [sys.executable, str(Path(__file__).with_name("arrivals.py")), json.dumps(options)]
    with measuring.pin_to(cores.load):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMeasureError(f"the callers failed: {done.stderr[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    lost = found["unsent"] + found["unanswered"]
    return Load(seconds, rate, found["late"], lost, found["times"], found["before"])


def _request(server: Gateway) -> str:
    body = catalog.compact(catalog.BODY)
    head = (
        f"POST /v2/models/{catalog.QUICK_MODEL} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Content-Type: application/json",
        f"X-API-Key: {server.key}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*head, "", body))


def _total(times: _Times) -> int:
    return sum(count for _, count in times)


def _percentile(times: _Times, share: float) -> float:
    wanted, seen = _total(times) * share, 0
    for tenths, count in times:
        seen += count
        if seen >= wanted:
            return tenths / 10
    return float("nan")


def _print(capacity: Load, half: Load, three: Load) -> None:
    rows: list[Sequence[str]] = [
        ("load", "offered/s", "accepted/s", "p50 ms", "p99 ms", "refused/s", "p50 ms", "p99 ms", "callers late ms")
    ]
    for name, load in (("capacity", capacity), ("half of it", half), ("three times", three)):
        offered = "-" if load.offered is None else f"{load.offered:,.0f}"
        figures = (
            (f"{load.per_second(status):,.0f}", *(f"{load.percentile(status, share):.1f}" for share in (0.5, 0.99)))
            for status in (_ACCEPTED, _REFUSED)
        )
        rows.append((name, offered, *(figure for each in figures for figure in each), f"{load.late * 1000:.0f}"))
    print(measuring.table(rows))
    before = three.before.get(_ACCEPTED, ())
    print(f"accepted while it set in: {_total(before):,}", end="; ")
    print(f"p50 {_percentile(before, 0.5):.0f} ms, p99 {_percentile(before, 0.99):.0f} ms")


def _claims(capacity: Load, three: Load) -> list[Claim]:
    share = three.per_second(_ACCEPTED) / capacity.per_second(_ACCEPTED)
    p50, p99 = (three.percentile(_ACCEPTED, at) / capacity.percentile(_ACCEPTED, at) for at in (0.5, 0.99))
    refusal = three.percentile(_REFUSED, 0.99)
    return [
        Claim(
            f"offered three times its capacity, a server accepts at least {_CLAIMED_SHARE:.0%} of that",
            f"{share:.0%}",
            share >= _CLAIMED_SHARE,
        ),
        Claim(
            f"what it accepts takes at most {_CLAIMED_P50:.0f} times as long as at its capacity (p50), "
            f"{_CLAIMED_P99:.0f} times (p99)",
            f"{p50:.1f} times, {p99:.1f} times",
            p50 <= _CLAIMED_P50 and p99 <= _CLAIMED_P99,
        ),
        Claim(
            f"a refusal takes {_CLAIMED_REFUSAL_MS:.0f} ms or less (p99)",
            f"{refusal:.1f} ms",
            refusal <= _CLAIMED_REFUSAL_MS,
        ),
    ]


def _sound_claims(loads: Sequence[Load], books: dict[str, Any]) -> list[Claim]:
    """Every call has an answer, each refusal says when to try again, and every accepted run is charged once."""
    others = {status: count for load in loads for status, count in load.others.items()}
    lost, accepted = sum(load.lost for load in loads), sum(load.accepted for load in loads)
    succeeded = books["totals"]["runs_succeeded"]
    return [
        Claim(
            "every call is answered with its result, or with 503 and Retry-After",
            f"{lost} neither sent nor answered, others {others or 'none'}",
            not lost and not others,
        ),
        Claim(
            "every accepted run is in the books and no other, and the audit is clean",
            f"{succeeded:,} of {accepted:,} runs, audit {books['clean']}",
            succeeded == accepted and books["clean"],
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
