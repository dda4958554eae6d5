"""How an installation grows: what each rate of runs asks of servers, PostgreSQL, NATS and the store, by simulation.

`--measure` finds out what one run costs here: one server with PostgreSQL is loaded, and the processor time, the WAL and
the growth of the database are divided by its runs. Without it the constants of docs/scale.md are taken. The simulation
then plays servers that write entries in shared transactions, a database with some cores and one log, and rows of
workspaces that only one transaction may change at a time. `--help` shows the options.
"""

import argparse
import heapq
import itertools
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
import uvloop
from sqlalchemy import Connection, text

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench import measuring
from bench.measuring import CannotMeasureError, Gateway
from bench.sessions import ask_all, request, sessions

from databases import Postgres, running_postgres
from fake_partner import SECRET, CatalogFolder, reply_json, running_partner

RATES: Final = (10, 100, 300, 1_000, 3_000, 10_000)
QUEUED_ENTRIES: Final = 3
_SECONDS: Final = 4.0
"""Simulated seconds; the first quarter is left out, because the queues are still empty in it."""
_BATCH_MAX: Final = 500
_SERVER_LOAD: Final = 0.6
"""How busy the core of a server may be on average, so that peaks do not queue."""
_PARTNER_SECONDS: Final = 2.0
_MODEL: Final = "fake/json-1"
_REMEMBERED_SECONDS: Final = 1.2
"""What a server remembers of a caller may be a second old."""
_FLUSHES: Final = 200
_HEADING: Final = (
    "runs/s", "servers", "PostgreSQL busy", "log busy", "entry p50 ms", "p99 ms", "log MiB/s", "GiB a day", "NATS",
)  # fmt: skip
_CONNECTIONS: Final = 32
_DAY: Final = 86_400


class Costs(msgspec.Struct, frozen=True):
    """What one synchronous run costs, and what things take; times in microseconds, sizes in bytes."""

    server_us: float = 890.0
    """Processor time of the server."""
    database_us: float = 470.0
    """Processor time of PostgreSQL, at 32 connections."""
    entry_share: float = 0.6
    """The part of it that grows with the entries of a transaction; the rest is of each transaction."""
    wal_bytes: float = 2_400.0
    stored_bytes: float = 1_400.0
    """What the tables and their indexes grow by."""
    flush_us: float = 300.0
    """Making the log durable, however much is in it."""
    round_trip_us: float = 200.0
    """Between a server and the database: another rack of the same place."""
    round_trips: int = 4
    """Of one transaction."""
    entries: int = 2
    """Durable entries of a run: its admission and its settlement; a queued run has its claim as well."""
    message_us: float = 4.0
    """Processor time of NATS for a message to one subscriber."""
    messages: int = 2
    """What servers tell each other of a queued run."""


class Load(msgspec.Struct, frozen=True):
    """What is asked of an installation: runs a second, of so many workspaces, over so many cores of the database.

    `is_sticky`: the load balancer sends the calls of a workspace to the same server, by a hash of the API key.
    """

    rate: float
    workspaces: int
    cores: int
    is_sticky: bool = False


class Forecast(msgspec.Struct, frozen=True):
    """What a load comes to: how many servers it takes, how busy each part is, and how long entries take (ms)."""

    load: Load
    servers: int
    database_busy: float
    log_busy: float
    p50_ms: float
    p99_ms: float
    kept_up: bool


def simulate(load: Load, costs: Costs, seconds: float = _SECONDS, seed: int = 1) -> Forecast:
    """Play an installation for a while."""
    servers = max(2, math.ceil(load.rate * costs.server_us / 1e6 / _SERVER_LOAD))
    installation = _Installation(load, costs, servers, random.Random(seed))  # noqa: S311 -- the same arrivals each time
    waits = installation.play(seconds)
    cuts = statistics.quantiles(waits, n=100) if len(waits) > 1 else [0.0] * 99
    return Forecast(
        load, servers, installation.database_busy / (seconds * load.cores), installation.log_busy / seconds,
        cuts[49] * 1e3, cuts[98] * 1e3, installation.is_keeping_up,
    )  # fmt: skip


class _Entry(msgspec.Struct, frozen=True):
    """A durable entry of a run: when it arrived at its server, its workspace, and how many of the run are left."""

    arrived: float
    workspace: int
    left: int


class _Batch(msgspec.Struct, frozen=True):
    """Entries of one server that share a transaction, which locks the rows of their workspaces."""

    server: int
    entries: Sequence[_Entry]
    rows: frozenset[int]


class _Installation:
    """Servers, each with the entries that wait in it, and the database that all of them share. Times in seconds."""

    def __init__(self, load: Load, costs: Costs, servers: int, chance: random.Random) -> None:
        self.database_busy = self.log_busy = 0.0
        self._load = load
        self._costs = costs
        self._chance = chance
        self._waiting: list[list[_Entry]] = [[] for _ in range(servers)]
        self._is_writing = [False] * servers
        self._begun: list[_Batch] = []
        """Transactions that wait for the rows of another, the oldest first."""
        self._locked = set[int]()
        self._cores = [0.0] * load.cores
        self._flush_begins = self._flush_ends = 0.0
        self._events: list[tuple[float, int, tuple[int, _Entry] | _Batch]] = []
        self._order = itertools.count()

    @property
    def is_keeping_up(self) -> bool:
        """Whether what waits at the end is no more than a moment's work."""
        return sum(map(len, self._waiting)) < max(50.0, 0.1 * self._load.rate * self._costs.entries)

    def play(self, seconds: float) -> Sequence[float]:
        """Let runs arrive for so long; how long their entries took to become durable."""
        now, waits = 0.0, list[float]()
        while (now := now + self._chance.expovariate(self._load.rate)) < seconds:
            workspace = self._chance.randrange(self._load.workspaces)
            server = (workspace if self._load.is_sticky else self._chance.randrange(2**31)) % len(self._waiting)
            self._put(now, (server, _Entry(now, workspace, self._costs.entries)))
        while self._events and self._events[0][0] < seconds:
            now, _, event = heapq.heappop(self._events)
            if isinstance(event, _Batch):
                waits += [now - entry.arrived for entry in event.entries if entry.arrived > seconds / 4]
                self._end(now, event)
                server = event.server
            else:
                server, entry = event
                self._waiting[server].append(entry)
            if self._waiting[server] and not self._is_writing[server]:
                self._begin(now, server)
        return waits

    def _put(self, at: float, event: tuple[int, _Entry] | _Batch) -> None:
        heapq.heappush(self._events, (at, next(self._order), event))

    def _begin(self, now: float, server: int) -> None:
        """Begin the transaction of what waits in a server."""
        waiting = self._waiting[server]
        entries, self._waiting[server] = waiting[:_BATCH_MAX], waiting[_BATCH_MAX:]
        self._is_writing[server] = True
        self._begun.append(_Batch(server, entries, frozenset(entry.workspace for entry in entries)))
        self._go_on(now)

    def _end(self, now: float, batch: _Batch) -> None:
        """Unlock the rows of a transaction that is durable, and let its runs go on to their partners."""
        self._is_writing[batch.server] = False
        self._locked -= batch.rows
        for entry in batch.entries:
            if entry.left > 1:
                later = now + self._chance.expovariate(1 / _PARTNER_SECONDS)
                self._put(later, (batch.server, _Entry(later, entry.workspace, entry.left - 1)))
        self._go_on(now)

    def _go_on(self, now: float) -> None:
        """Execute every transaction whose rows are free, unless an older one waits for some of them."""
        taken = set(self._locked)
        for batch in list(self._begun):
            if taken.isdisjoint(batch.rows):
                self._begun.remove(batch)
                self._locked |= batch.rows
                self._put(self._durable_at(now, len(batch.entries)), batch)
            taken |= batch.rows

    def _durable_at(self, now: float, entries: int) -> float:
        """When a transaction that has its rows is durable, and its server knows."""
        costs, trip = self._costs, self._costs.round_trip_us / 1e6
        each = costs.database_us / costs.entries / 1e6
        busy = each * (1 - costs.entry_share) + each * costs.entry_share * entries
        core = min(range(len(self._cores)), key=self._cores.__getitem__)
        self._cores[core] = max(now + trip, self._cores[core]) + busy
        self.database_busy += busy
        return self._flush(self._cores[core] + (costs.round_trips - 2) * trip) + trip

    def _flush(self, at: float) -> float:
        """When the log is durable up to what was written at a time: transactions that wait share a flush."""
        if at > self._flush_begins:
            self._flush_begins = max(at, self._flush_ends)
            self._flush_ends = self._flush_begins + self._costs.flush_us / 1e6
            self.log_busy += self._costs.flush_us / 1e6
        return self._flush_ends


class _Spent(msgspec.Struct, frozen=True):
    """What has been spent so far: processor seconds of server and database, bytes of the log and of the tables."""

    server: float
    database: float
    wal: int
    stored: int


def measure_server(stack: ExitStack, runs: int) -> Costs:
    """Load one server that has PostgreSQL, and divide what that took by its runs."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-")))
    postgres = stack.enter_context(running_postgres())
    url = postgres.url(postgres.create())
    partner = stack.enter_context(running_partner())
    partner.script("/json", reply_json({"made": 1}))
    catalog = CatalogFolder(folder / "catalog")
    catalog.add_provider(partner.url)
    catalog.add_model(_MODEL)
    settings = {"FAIRLEAD_DATABASE": url, "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET}
    server = stack.enter_context(
        measuring.gateway(
            folder / "data", "--no-local-partner", "--catalog", catalog.path, "--database", url, settings=settings
        )
    )
    _lift_limits(postgres, url)
    spent = [_figures_of(server, postgres, url)]
    for _ in range(2):
        uvloop.run(_ask(server, runs))
        spent.append(_figures_of(server, postgres, url))
    before, after = spent[1:]  # the first round filled caches and pages
    return Costs(
        server_us=(after.server - before.server) / runs * 1e6,
        database_us=(after.database - before.database) / runs * 1e6,
        wal_bytes=(after.wal - before.wal) / runs,
        stored_bytes=(after.stored - before.stored) / runs,
        flush_us=_flush_seconds(folder) * 1e6,
    )


def _lift_limits(postgres: Postgres, url: str) -> None:
    name = url.rpartition("/")[2]
    postgres.execute("UPDATE workspaces SET in_flight_limit = -1, cap = 100000000000000", database=name)
    time.sleep(_REMEMBERED_SECONDS)


async def _ask(server: Gateway, runs: int) -> None:
    async with sessions(server, _CONNECTIONS) as opened:
        calls = [request(server, "POST", f"/v2/models/{_MODEL}", "{}")] * runs
        refused = [reply for reply in await ask_all(opened, calls) if reply.status != 200]
    if refused:
        raise CannotMeasureError(f"{len(refused)} runs failed: {refused[0].status} {refused[0].body[:200]!r}")


def _figures_of(server: Gateway, postgres: Postgres, url: str) -> _Spent:
    def figures(connection: Connection) -> tuple[int, int]:
        row = connection.execute(
            text("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_database_size(current_database())")
        ).one()
        return int(row[0]), int(row[1])

    root = int((postgres.folder / "data" / "postmaster.pid").read_text("ascii").split()[0])
    return _Spent(measuring.cpu_seconds(server.pid), measuring.cpu_seconds(root), *postgres.read(url, figures))


def _flush_seconds(folder: Path) -> float:
    """How long it takes to make one page durable, as a log does; the median."""
    seconds = []
    with (folder / "log").open("wb", buffering=0) as log:
        for _ in range(_FLUSHES):
            log.write(bytes(8192))
            began = time.perf_counter()
            os.fdatasync(log.fileno())
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main() -> int:
    """Read the options, measure where that is wanted, simulate, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--measure", action="store_true", help="measure what a run costs here, instead of docs/scale.md"
    )
    parser.add_argument("--runs", type=int, default=4_000, help="runs to measure with (default 4000)")
    parser.add_argument("--workspaces", type=int, default=1_000, help="how many share the load (default 1000)")
    parser.add_argument("--cores", type=int, default=16, help="cores of the database (default 16)")
    parser.add_argument("--sticky", action="store_true", help="calls of a workspace always go to the same server")
    parser.add_argument("--queued", action="store_true", help="queued runs instead of synchronous ones")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _report(stack, options), check=False)


def _report(stack: ExitStack, options: argparse.Namespace) -> bool:
    costs = measure_server(stack, options.runs) if options.measure else Costs()
    if options.queued:
        share = QUEUED_ENTRIES / costs.entries
        costs = msgspec.structs.replace(
            costs, entries=QUEUED_ENTRIES, server_us=costs.server_us * share, database_us=costs.database_us * share
        )
    print(f"{measuring.machine()}; {options.workspaces} workspaces, {options.cores} cores of PostgreSQL")
    print(
        f"a run: {costs.server_us:.0f} µs of a server, {costs.database_us:.0f} of PostgreSQL, {costs.entries} entries,"
        f" {costs.wal_bytes:,.0f} bytes of log, {costs.stored_bytes:,.0f} bytes kept; a flush: {costs.flush_us:.0f} µs"
    )
    forecasts = [simulate(Load(rate, options.workspaces, options.cores, options.sticky), costs) for rate in RATES]
    print(measuring.table([_HEADING, *(_row(one, costs) for one in forecasts)]))
    return True


def _row(found: Forecast, costs: Costs) -> tuple[str, ...]:
    rate = found.load.rate
    return (
        f"{rate:,.0f}",
        str(found.servers),
        f"{found.database_busy:.0%}",
        f"{found.log_busy:.0%}",
        f"{found.p50_ms:.1f}" if found.kept_up else "-",
        f"{found.p99_ms:.1f}" if found.kept_up else "falls behind",
        f"{rate * costs.wal_bytes / measuring.MIB:.1f}",
        f"{rate * costs.stored_bytes * _DAY / 2**30:,.0f}",
        f"{rate * costs.messages * costs.message_us / 1e6:.1%}",
    )


if __name__ == "__main__":
    sys.exit(main())
