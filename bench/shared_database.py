"""What servers do that share a PostgreSQL: queued runs a second, a takeover, and a synchronous run beside SQLite.

PostgreSQL waits for the disk at every commit, as an installation's does. Two servers of `fairlead serve` with NATS
between them take queued runs in by turns and execute them; then one of two is killed with live runs. Synchronous runs
of a server on PostgreSQL and of one on SQLite take turns. The partner, PostgreSQL, NATS and the callers, who are this
process, use the same cores. `--help` shows the options; docs/benchmarks.md says how to read the figures.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any, Final

import uvloop
from sqlalchemy import ColumnElement, func, select

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench import catalog, measuring
from bench.calling import call_many
from bench.measuring import CannotMeasureError, Claim, Gateway
from bench.sessions import ask_all, request, sessions

from databases import Postgres, running_postgres
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import open_database
from fairlead.storage.db.tables import runs
from nats_servers import running_nats

_CLAIMED_A_SECOND: Final = 600.0
_CLAIMED_TAKEOVER_SECONDS: Final = 15.0
_CLAIMED_TIMES: Final = 1.3
_CLAIMED_RATE: Final = 0.7
_CONNECTIONS: Final = 32
_CONNECTING: Final = 50
_WARM_UP: Final = 1500
"""Each connection plans a statement five times before PostgreSQL keeps the plan."""
_LOOK_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 120.0
_SILENT_SECONDS: Final = 10.0
"""FAIRLEAD_SILENT_SERVER_SECONDS as it is by default. A server takes nothing over before it has run for so long."""
_SPARE_SECONDS: Final = 3.0
_HURRIED: Final = {"FAIRLEAD_DEADLINE_SECONDS": "0.5"}
"""Callers are told to come back, and their runs go on."""
_SQLITE: Final = "SQLite"
_POSTGRESQL: Final = "PostgreSQL"
_LIVE: Final = runs.c.finished_at.is_(None)


@dataclass(frozen=True, slots=True)
class Turn:
    """Synchronous runs over some connections: a second, and microseconds of the server's processor time each."""

    per_second: float
    microseconds: float


@dataclass(frozen=True, slots=True)
class Takeover:
    """How many live runs a killed server left, and after how many seconds the last of them was another's."""

    runs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Parts:
    """What every server is started with."""

    folder: Path
    catalog: Path
    postgres: Postgres
    nats: str


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3000, help="runs of a turn (default 3000)")
    parser.add_argument("--rounds", type=int, default=3, help="how many turns there are of each kind (default 3)")
    parser.add_argument("--live", type=int, default=500, help="live runs of the server that is killed (default 500)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the data goes (default: the temporary one)")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-", dir=options.folder)))
    print(f"{measuring.machine()}; data on {measuring.file_system_of(folder)}", flush=True)
    log = folder / "partner.log"
    command: list[str | Path] = [sys.executable, Path(__file__).with_name("pending_partner.py")]
    port = int(measuring.first_line(stack.enter_context(measuring.program(command, log)), log))
    postgres = stack.enter_context(running_postgres(is_durable=True))
    nats = stack.enter_context(running_nats()).url
    parts = Parts(folder, catalog.write_catalog(folder / "catalog", port), postgres, nats)
    rates, books = _queue_runs(parts, options.runs, options.rounds)
    turns = _synchronous(parts, options.runs, options.rounds)
    takeover = _take_over(parts, options.live)
    measuring.tell("")
    _print(rates, turns, takeover)
    return measuring.print_claims(_claims(rates, turns, takeover, books))


def _server(stack: ExitStack, parts: Parts, data: str, database: str | None, **settings: str) -> Gateway:
    """Start a server; one without a database has SQLite in its data directory."""
    words: list[str | Path] = ["--no-local-partner", "--catalog", parts.catalog]
    words += [] if database is None else ["--database", database]
    return stack.enter_context(measuring.gateway(parts.folder / data, *words, settings=settings))


def _pair(stack: ExitStack, parts: Parts, data: str, **settings: str) -> tuple[str, list[Gateway]]:
    """Start two servers with the same data directory, of a database whose URL comes first."""
    url = parts.postgres.url(parts.postgres.create())
    shared = {"FAIRLEAD_MESSAGING": parts.nats, **settings}
    servers = [_server(stack, parts, data, url, **shared) for _ in range(2)]
    measuring.lift_limits(servers[0].data, "--database", url)
    return url, servers


def _queue_runs(parts: Parts, number: int, rounds: int) -> tuple[list[float], dict[str, Any]]:
    """Runs a second of each round, from the first submit to the last end; and what the audit says of them all."""
    with ExitStack() as stack:
        url, servers = _pair(stack, parts, "queued")

        async def turns() -> list[float]:
            async with AsyncExitStack() as opened:
                database = open_database(url)
                opened.push_async_callback(database.close)
                halves = [await opened.enter_async_context(sessions(one, _CONNECTIONS // 2)) for one in servers]
                callers = [session for pair in zip(*halves, strict=True) for session in pair]
                body, rates, done = catalog.compact(catalog.BODY), [], 0
                call = request(servers[0], "POST", f"/v2/models/{catalog.MODEL}/requests", body)
                for turn, count in enumerate([_WARM_UP, *[number] * rounds]):
                    measuring.tell(f"queued runs, turn {turn} of {rounds}")
                    began, done = time.perf_counter(), done + count
                    replies = await ask_all(callers, [call] * count)
                    if any(reply.status != 201 for reply in replies):
                        raise CannotMeasureError("A run was not taken in.")
                    await _until(database, partial(eq, done), ~_LIVE)
                    rates.append(count / (time.perf_counter() - began))
                return rates[1:]

        rates = uvloop.run(turns())
        for server in servers:
            server.stop()
        return rates, measuring.audit(servers[0].data, "--database", url)


def _synchronous(parts: Parts, number: int, rounds: int) -> dict[str, list[Turn]]:
    """Runs on both databases in turns."""
    turns: dict[str, list[Turn]] = {_SQLITE: [], _POSTGRESQL: []}
    with ExitStack() as stack:
        url = parts.postgres.url(parts.postgres.create())
        servers = {
            _SQLITE: _server(stack, parts, "on-sqlite", None),
            _POSTGRESQL: _server(stack, parts, "on-postgresql", url),
        }
        measuring.lift_limits(servers[_SQLITE].data)
        measuring.lift_limits(servers[_POSTGRESQL].data, "--database", url)
        for server in servers.values():
            uvloop.run(_turn(server, _WARM_UP))
        for turn in range(rounds):
            for kind, server in servers.items():
                measuring.tell(f"synchronous runs on {kind}, turn {turn + 1} of {rounds}")
                turns[kind].append(uvloop.run(_turn(server, number)))
    return turns


async def _turn(server: Gateway, number: int) -> Turn:
    call = request(server, "POST", f"/v2/models/{catalog.MODEL}", catalog.compact(catalog.BODY))
    async with sessions(server, _CONNECTIONS) as opened:
        used, began = measuring.cpu_seconds(server.pid), time.perf_counter()
        replies = await ask_all(opened, [call] * number)
        seconds = time.perf_counter() - began
    if any(reply.status != 200 for reply in replies):
        raise CannotMeasureError("A run has failed.")
    await asyncio.sleep(_LOOK_SECONDS)
    return Turn(number / seconds, (measuring.cpu_seconds(server.pid) - used) / number * 1e6)


def _take_over(parts: Parts, number: int) -> Takeover:
    """Kill a server whose runs wait for their partner, and look until none of them is its own any more."""
    with ExitStack() as stack:
        url, (killed, _) = _pair(stack, parts, "killed", **_HURRIED)

        async def look() -> Takeover:
            database = open_database(url)
            try:
                measuring.tell(f"{number} runs begin at a server that is to be killed")
                await call_many(killed, catalog.SUBMITTED_MODEL, number, _PATIENCE_SECONDS, connecting=_CONNECTING)
                await _until(database, lambda live: live == number, _LIVE & runs.c.handle.is_not(None))
                owner = await database.read(lambda c: c.execute(select(runs.c.server_id).distinct()).scalar_one())
                await asyncio.sleep(_SILENT_SECONDS + _SPARE_SECONDS)
                killed.process.kill()
                began = time.perf_counter()
                measuring.tell("its runs are taken over")
                await _until(database, lambda left: left == 0, _LIVE & (runs.c.server_id == owner))
                seconds = time.perf_counter() - began
                await _until(database, lambda live: live == number, _LIVE)
                return Takeover(number, seconds)
            finally:
                await database.close()

        return uvloop.run(look())


async def _until(database: Database, is_so: Callable[[int], bool], which: ColumnElement[bool]) -> None:
    """Wait until the number of some runs is what it should be."""
    give_up_at = time.perf_counter() + _PATIENCE_SECONDS
    while not is_so(found := await database.read(lambda c: c.execute(select(func.count()).where(which)).scalar_one())):
        if time.perf_counter() > give_up_at:
            raise CannotMeasureError(f"After {_PATIENCE_SECONDS:g} s there are {found:,} runs.")
        await asyncio.sleep(_LOOK_SECONDS)


def _print(rates: Sequence[float], turns: dict[str, list[Turn]], takeover: Takeover) -> None:
    rows = [("figure", "median", "least", "most")]
    rows.append(_row("queued runs a second, two servers", rates))
    for kind, some in turns.items():
        rows.append(_row(f"synchronous runs a second, {kind}", [one.per_second for one in some]))
        rows.append(_row(f"processor time of a synchronous run, {kind}, us", [one.microseconds for one in some]))
    rows.append(_row(f"takeover of {takeover.runs} live runs, s", [takeover.seconds]))
    print(measuring.table(rows))


def _row(name: str, found: Sequence[float]) -> tuple[str, str, str, str]:
    median, least, most = (f"{figure:,.1f}" for figure in (statistics.median(found), min(found), max(found)))
    return name, median, least, most


def _claims(
    rates: Sequence[float], turns: dict[str, list[Turn]], takeover: Takeover, books: dict[str, Any]
) -> list[Claim]:
    pairs = list(zip(turns[_POSTGRESQL], turns[_SQLITE], strict=True))
    times = statistics.median(here.microseconds / there.microseconds for here, there in pairs)
    share = statistics.median(here.per_second / there.per_second for here, there in pairs)
    rate = statistics.median(rates)
    return [
        Claim(
            f"{_CLAIMED_A_SECOND:.0f} durable queued runs a second with two servers on PostgreSQL and NATS",
            f"{rate:,.0f}",
            rate >= _CLAIMED_A_SECOND,
        ),
        Claim(
            f"a synchronous run takes at most {_CLAIMED_TIMES:g} times the processor time that it takes on SQLite",
            f"{times:.2f} times",
            times <= _CLAIMED_TIMES,
        ),
        Claim(
            f"synchronous runs have at least {_CLAIMED_RATE:g} of the rate that they have on SQLite",
            f"{share:.2f}",
            share >= _CLAIMED_RATE,
        ),
        Claim(
            f"{takeover.runs} live runs are taken over within {_CLAIMED_TAKEOVER_SECONDS:.0f} s of a kill",
            f"{takeover.seconds:.1f} s",
            takeover.seconds <= _CLAIMED_TAKEOVER_SECONDS,
        ),
        Claim("the books are right", "clean" if books["clean"] else "not clean", bool(books["clean"])),
    ]


if __name__ == "__main__":
    sys.exit(main())
