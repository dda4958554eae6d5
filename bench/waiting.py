"""What a run costs that waits for submitted work: ten thousand of them at once, their memory and their polls.

The gateway under test, a partner that takes work and lets it wait, and the caller are three processes. The callers are
told to come back after half a second, so that no connection is left. `--help` shows the options;
docs/benchmarks.md says how to read the figures.
"""

import argparse
import asyncio
import http.client
import json
import sys
import tempfile
import time
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

_CLAIMED_KIB: Final = 8.0
_CLAIMED_SHARE: Final = 0.5
_DEADLINE: Final = {"FAIRLEAD_DEADLINE_SECONDS": "0.5"}
_WARM_UP: Final = 200
_WARM_UP_ROUNDS: Final = 3
_CONNECTING: Final = 50
_UNDER_WAY: Final = 500
_SETTLE_SECONDS: Final = 2.0
_END_SECONDS: Final = 90.0
_PATIENCE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """What was found while all runs waited. `share` is of one core, `polls` in a second."""

    asked: int
    taken: int
    told_to_come_back: int
    before: int
    during: int
    share: float
    polls: float

    @property
    def kib_each(self) -> float:
        """The memory a waiting run takes."""
        return (self.during - self.before) / 1024 / max(1, self.taken)


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10_000, help="how many wait at once (default 10000)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long their polls are watched (default 20)")
    parser.add_argument("--cores", metavar="LOAD,TARGET", help="which cores to use (default: the first two)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-")))
    cores = measuring.choose_cores(options.cores)
    print(f"{measuring.machine()}; {options.runs:,} runs whose partner lets them wait", flush=True)
    log = folder / "partner.log"
    command: list[str | Path] = [sys.executable, Path(__file__).with_name("pending_partner.py")]
    partner = stack.enter_context(measuring.program(command, log, cores.load))
    partner_port = int(measuring.first_line(partner, log))
    files = catalog.write_catalog(folder / "catalog", partner_port)
    server = stack.enter_context(
        measuring.gateway(
            folder / "data", "--no-local-partner", "--catalog", files, core=cores.target, settings=_DEADLINE
        )
    )
    measuring.lift_limits(server.data)
    with measuring.pin_to(cores.load):
        found = uvloop.run(_wait(server, partner_port, options.runs, options.seconds))
    _print(found)
    _tell(partner_port, "/finish")
    ended = _wait_for_end(server, options.runs + _WARM_UP * _WARM_UP_ROUNDS)
    server.stop()
    return measuring.print_claims([*_waiting_claims(found), _book_claim(server.data, options.runs, ended)])


async def _wait(server: Gateway, partner_port: int, asked: int, seconds: float) -> Waiting:
    """Warm the gateway up, submit every run, and watch it while nobody is connected and all of them wait."""
    for _ in range(_WARM_UP_ROUNDS):
        ends = await call_many(server, catalog.QUICK_MODEL, _WARM_UP, _PATIENCE_SECONDS, connecting=_CONNECTING)
        if ends["200"] != _WARM_UP:
            raise measuring.CannotMeasureError(f"the warm-up failed: {dict(ends)}")
    await asyncio.sleep(_SETTLE_SECONDS)
    before = measuring.rss_bytes(server.pid)
    ends = await call_many(
        server, catalog.SUBMITTED_MODEL, asked, _PATIENCE_SECONDS, connecting=_CONNECTING, under_way=_UNDER_WAY
    )
    await asyncio.sleep(_SETTLE_SECONDS)
    used, polls, started = measuring.cpu_seconds(server.pid), _tell(partner_port)["polls"], time.perf_counter()
    await asyncio.sleep(seconds)
    passed = time.perf_counter() - started
    figures = _tell(partner_port)
    return Waiting(
        asked=asked,
        taken=figures["taken"],
        told_to_come_back=ends["504"],
        before=before,
        during=measuring.rss_bytes(server.pid),
        share=(measuring.cpu_seconds(server.pid) - used) / passed,
        polls=(figures["polls"] - polls) / passed,
    )


def _tell(partner_port: int, path: str = "/waiting") -> dict[str, int]:
    """What the partner counts; `/finish` has it end all its work."""
    connection = http.client.HTTPConnection("127.0.0.1", partner_port, timeout=10)
    connection.request("GET", path)
    figures: dict[str, int] = json.loads(connection.getresponse().read())
    connection.close()
    return figures


def _wait_for_end(server: Gateway, expected: int) -> int:
    """Wait until every run has ended, by the books; how many have succeeded."""
    give_up_at = time.monotonic() + _END_SECONDS
    while True:
        succeeded: int = measuring.audit(server.data)["totals"]["runs_succeeded"]
        if succeeded >= expected or time.monotonic() > give_up_at:
            return succeeded
        time.sleep(1.0)


def _print(found: Waiting) -> None:
    rows = [
        ("waiting at once", f"{found.taken:,}"),
        ("RSS after warm-up", f"{found.before / measuring.MIB:.1f} MiB"),
        ("RSS while they wait", f"{found.during / measuring.MIB:.1f} MiB"),
        ("memory a waiting run", f"{found.kib_each:.1f} KiB"),
        ("polls a second", f"{found.polls:,.0f}"),
        ("share of a core", f"{found.share:.2f}"),
    ]
    print(measuring.table([("figure", "found"), *rows]))


def _waiting_claims(found: Waiting) -> list[Claim]:
    told = f"{found.taken:,} taken, {found.told_to_come_back:,} callers told to come back"
    whole = found.taken == found.told_to_come_back == found.asked
    each, share = f"{found.kib_each:.1f} KiB", f"{found.share:.2f} of a core at {found.polls:,.0f} polls a second"
    return [
        Claim(f"{found.asked:,} submitted runs wait at once", told, whole),
        Claim(f"a waiting run takes {_CLAIMED_KIB:.0f} KiB or less", each, found.kib_each <= _CLAIMED_KIB),
        Claim("all their polls take less than half a core", share, found.share < _CLAIMED_SHARE),
    ]


def _book_claim(data: Path, asked: int, succeeded: int) -> Claim:
    """Every run must be closed and charged once."""
    books: dict[str, Any] = measuring.audit(data)
    expected = asked + _WARM_UP * _WARM_UP_ROUNDS
    owed, price = -Decimal(measuring.balance(data)), expected * Decimal(catalog.PRICE)
    found = f"{succeeded:,} of {expected:,} runs, {owed} of {price} dollars, audit {books['clean']}"
    charged = books["clean"] and succeeded == expected and owed == price
    return Claim("every run is charged, and the audit is clean", found, charged)


if __name__ == "__main__":
    sys.exit(main())
