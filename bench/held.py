"""What a run that waits for its partner costs: thousands of them held at once, and their memory.

The gateway under test, a slow partner and the caller are three processes. `--help` shows the options;
docs/benchmarks.md says how to read the figures.
"""

import argparse
import asyncio
import http.client
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import catalog, measuring
from bench.calling import call_many
from bench.measuring import Claim, Gateway

_CLAIMED_KIB: Final = 25.0
_WARM_UP: Final = 200
_WARM_UP_ROUNDS: Final = 3
_CONNECTING: Final = 50
_SPARE_DESCRIPTORS: Final = 300
_SETTLE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Held:
    """What was found while all calls were held, and how they ended."""

    asked: int
    most: int
    admitted_seconds: float | None
    before: int
    during: int
    after: int
    ends: Counter[str]

    @property
    def kib_each(self) -> float:
        """The memory a held run takes."""
        return (self.during - self.before) / 1024 / max(1, self.most)

    @property
    def errors(self) -> int:
        """How many calls ended in anything but a success."""
        return self.asked - self.ends["200"]


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=5000, help="how many to hold at once (default 5000)")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long the partner takes (default 15)")
    parser.add_argument("--cores", metavar="LOAD,TARGET", help="which cores to use (default: the first two)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    asked = _affordable(options.requests)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-")))
    cores = measuring.choose_cores(options.cores)
    print(f"{measuring.machine()}; {asked:,} calls to a partner that takes {options.seconds:g} s", flush=True)
    log = folder / "partner.log"
    command: list[str | Path] = [sys.executable, Path(__file__).with_name("slow_partner.py"), str(options.seconds)]
    partner = stack.enter_context(measuring.program(command, log, cores.load))
    partner_port = int(measuring.first_line(partner, log))
    files = catalog.write_catalog(folder / "catalog", partner_port)
    server = stack.enter_context(
        measuring.gateway(folder / "data", "--no-local-partner", "--catalog", files, core=cores.target)
    )
    measuring.lift_limits(server.data)
    with measuring.pin_to(cores.load):
        found = uvloop.run(_hold(server, partner_port, asked, options.seconds))
    server.stop()
    _print(found)
    return measuring.print_claims([*_held_claims(found), *_book_claims(server.data, asked)])


def _affordable(wanted: int) -> int:
    """Raise our limit of file descriptors, which the gateway inherits; fewer calls where two for each are too many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    most = wanted if hard == resource.RLIM_INFINITY else (hard - _SPARE_DESCRIPTORS) // 2
    if most < wanted:
        print(f"This machine allows {hard:,} file descriptors, and a held call takes two: holding {most:,} instead.")
    return min(wanted, most)


async def _hold(server: Gateway, partner_port: int, asked: int, seconds: float) -> Held:
    """Warm the gateway up, send every call, and read its memory when the partner holds them all."""
    for _ in range(_WARM_UP_ROUNDS):
        ends = await call_many(server, catalog.QUICK_MODEL, _WARM_UP, _PATIENCE_SECONDS, connecting=_CONNECTING)
        if ends["200"] != _WARM_UP:
            raise measuring.CannotMeasureError(f"the warm-up failed: {dict(ends)}")
    await asyncio.sleep(_SETTLE_SECONDS)
    before = measuring.rss_bytes(server.pid)
    started = time.perf_counter()
    calls = asyncio.ensure_future(
        call_many(server, catalog.MODEL, asked, seconds + _PATIENCE_SECONDS, connecting=_CONNECTING)
    )
    admitted = await asyncio.to_thread(_wait_until_held, partner_port, asked, started, seconds)
    during = measuring.rss_bytes(server.pid)
    most = _figures(partner_port)["most"]
    ends = await calls
    await asyncio.sleep(_SETTLE_SECONDS)
    return Held(asked, most, admitted, before, during, measuring.rss_bytes(server.pid), ends)


def _wait_until_held(partner_port: int, asked: int, started: float, seconds: float) -> float | None:
    """Wait until the partner holds every call; how long that took, or None when the first was answered before."""
    while time.perf_counter() - started < seconds:
        if _figures(partner_port)["held"] >= asked:
            return time.perf_counter() - started
        time.sleep(_LOOK_SECONDS)
    return None


def _figures(partner_port: int) -> dict[str, int]:
    connection = http.client.HTTPConnection("127.0.0.1", partner_port, timeout=10)
    connection.request("GET", "/held")
    figures: dict[str, int] = json.loads(connection.getresponse().read())
    connection.close()
    return figures


def _print(found: Held) -> None:
    admitted = "not at once" if found.admitted_seconds is None else f"{found.admitted_seconds:.2f} s"
    rows = [
        ("held at once", f"{found.most:,}"),
        ("all held after", admitted),
        ("RSS after warm-up", f"{found.before / measuring.MIB:.1f} MiB"),
        ("RSS while held", f"{found.during / measuring.MIB:.1f} MiB"),
        ("RSS afterwards", f"{found.after / measuring.MIB:.1f} MiB"),
        ("memory a held run", f"{found.kib_each:.1f} KiB"),
        ("errors", f"{found.errors:,}"),
    ]
    print(measuring.table([("figure", "found"), *rows]))
    if found.errors:
        print(f"calls ended so: {dict(found.ends)}")


def _held_claims(found: Held) -> list[Claim]:
    ended = f"{found.errors} errors in {found.asked:,}, {found.most:,} held at once"
    whole = not found.errors and found.admitted_seconds is not None
    each = f"{found.kib_each:.1f} KiB"
    return [
        Claim(f"{found.asked:,} runs held at once without an error", ended, whole),
        Claim(f"a held run takes {_CLAIMED_KIB:.0f} KiB or less", each, found.kib_each <= _CLAIMED_KIB),
    ]


def _book_claims(data: Path, asked: int) -> list[Claim]:
    """Every run must be closed and charged once."""
    books: dict[str, Any] = measuring.audit(data)
    expected = asked + _WARM_UP * _WARM_UP_ROUNDS
    owed, price = -Decimal(measuring.balance(data)), expected * Decimal(catalog.PRICE)
    succeeded = books["totals"]["runs_succeeded"]
    found = f"{succeeded:,} of {expected:,} runs, {owed} of {price} dollars, audit {books['clean']}"
    charged = books["clean"] and succeeded == expected and owed == price
    return [Claim("every run is charged, and the audit is clean", found, charged)]


if __name__ == "__main__":
    sys.exit(main())
