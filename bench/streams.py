"""What streams of jobs' events cost while nothing happens: memory, processor time, and whether they are alive.

Accounts with jobs that wait are put into the database, then every job is watched over a connection of its own. All must
be told how their job stands and, after a while of silence, that they are still heard; the jobs of one account are
canceled at last, and their streams must say so and end. `--help` shows the options.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, cast

import uvloop
from sqlalchemy import insert

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measuring
from bench.measuring import MIB, CannotMeasureError, Claim, Gateway
from bench.sessions import request, sessions

from fairlead.clock import Clock, new_id
from fairlead.operations.accounts.keys import issue_key
from fairlead.operations.accounts.workspaces import NewWorkspace, create_workspace
from fairlead.operations.jobs.watch import STREAMS_MAX
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import open_database
from fairlead.storage.db.tables import jobs
from fairlead.storage.jobs.jobs import deflate

_CLAIMED_MEMORY: Final = 100 * MIB
_CONNECTING: Final = 100
_WARM_UP: Final = 200
_SETTLE_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 30.0  # twice as long as the server is silent
_PATIENCE_SECONDS: Final = 60.0
_SPARE_DESCRIPTORS: Final = 300
_PREFIX: Final = "flk_"
_ENGINE: Final = {"FAIRLEAD_ENGINE": "true"}
_WORKFLOW: Final = deflate(b'{"1":{"class_type":"PrimitiveInt","inputs":{"value":1}}}')
_EMPTY: Final = deflate(b"{}")
_STATUS: Final = b"event: status\n"
_COMMENT: Final = b": waiting\n"
_ENDED: Final = b'"status":"canceled"'


@dataclass(frozen=True, slots=True)
class Account:
    """A workspace: a key of it, and its jobs."""

    key: str
    jobs: Sequence[str]


@dataclass(slots=True)
class Heard:
    """What the streams have heard: how many were told how their job stands, that they are heard, that it has ended."""

    told: int = 0
    still_heard: int = 0
    ended: int = 0
    closed: int = 0
    refused: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """One measurement: bytes beyond those before, the share of a core while nothing happens, seconds to an end."""

    streams: int
    heard: Heard
    before: int
    during: int
    after: int
    share: float
    ended_seconds: float


class Stream(asyncio.Protocol):
    """A client that reads the events of one job."""

    def __init__(self, content: bytes, heard: Heard) -> None:
        self._content = content
        self._heard = heard
        self._seen = set[bytes]()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the events."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are not its subclasses
        self.transport.write(self._content)

    def data_received(self, data: bytes) -> None:
        """Take note of what is told for the first time; every event is small and comes in one piece."""
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            self._heard.refused.append(data[:200])
        self._heard.told += self._is_first(_STATUS, data)
        self._heard.still_heard += self._is_first(_COMMENT, data)
        self._heard.ended += self._is_first(_ENDED, data)
        if data.endswith(b"0\r\n\r\n") and self.transport is not None:
            self._heard.closed += 1
            self.transport.close()

    def _is_first(self, what: bytes, data: bytes) -> bool:
        if what in self._seen or what not in data:
            return False
        self._seen.add(what)
        return True


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=2000, help="how many are open at once (default 2000)")
    parser.add_argument("--cores", metavar="LOAD,TARGET", help="which cores to use (default: the first two)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    measuring.lift_descriptors(options.streams + _SPARE_DESCRIPTORS)
    cores = measuring.choose_cores(options.cores)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-")))
    print(f"{measuring.machine()}; {options.streams:,} streams", flush=True)
    with measuring.gateway(folder / "data", "--no-local-partner", settings=_ENGINE) as first:
        data = first.data  # it has made the schema
    accounts = uvloop.run(_seed(data, -(-options.streams // STREAMS_MAX)))
    server = stack.enter_context(measuring.gateway(data, "--no-local-partner", core=cores.target, settings=_ENGINE))
    with measuring.pin_to(cores.load):
        found = uvloop.run(_watch(server, accounts, options.streams))
    _print(found)
    return measuring.print_claims(_claims(found))


async def _seed(data: Path, number: int) -> list[Account]:
    """Make accounts that may have no job executed, each with as many that wait as it may watch."""
    database, clock = open_database(f"sqlite:///{data / 'fairlead.db'}"), Clock()
    try:
        return [await _account(database, clock, f"account-{place}") for place in range(number)]
    finally:
        await database.close()


async def _account(database: Database, clock: Clock, name: str) -> Account:
    command = NewWorkspace(name=name, subscription="inactive", jobs_limit=0)
    workspace_id = await create_workspace(database, command, clock)
    key = await issue_key(database, name, "a key", None, _PREFIX, clock)
    rows = [_job(workspace_id, place + 1, clock.now_ms()) for place in range(STREAMS_MAX)]
    await database.write(lambda connection: connection.execute(insert(jobs), rows))
    return Account(key.text, [row["id"] for row in rows])


def _job(workspace_id: str, number: int, now: int) -> dict[str, Any]:
    return {
        "id": new_id(),
        "workspace_id": workspace_id,
        "number": number,
        "state": "parked",
        "attempt": 0,
        "workflow": _WORKFLOW,
        "extra": _EMPTY,
        "wanted": '["1"]',
        "nodes": 1,
        "created_at": now,
        "updated_at": now,
    }


async def _watch(server: Gateway, accounts: Sequence[Account], number: int) -> Found:
    calls = [_call(server, account.key, job) for account in accounts for job in account.jobs][:number]
    await _opened_and_closed(server, calls[:_WARM_UP])
    before = measuring.rss_bytes(server.pid)
    heard, opened = Heard(), list[Stream]()
    await _open(server, calls, heard, opened)
    measuring.tell("waiting for every stream to be told that it is heard")
    await _until(lambda: heard.still_heard >= number, heard)
    cpu, began = measuring.cpu_seconds(server.pid), perf_counter()
    await asyncio.sleep(_QUIET_SECONDS)
    share = (measuring.cpu_seconds(server.pid) - cpu) / (perf_counter() - began)
    during = measuring.rss_bytes(server.pid)
    began = perf_counter()
    await _cancel(server, accounts[0])
    await _until(lambda: heard.closed >= min(number, STREAMS_MAX), heard)
    seconds = perf_counter() - began
    for stream in opened:
        if stream.transport is not None:
            stream.transport.close()
    await asyncio.sleep(_SETTLE_SECONDS)
    measuring.tell("")
    return Found(number, heard, before, during, measuring.rss_bytes(server.pid), share, seconds)


def _call(server: Gateway, key: str, job: str) -> bytes:
    lines = (f"GET /api/v2/jobs/{job}/events HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"X-API-Key: {key}")
    return "\r\n".join((*lines, "", "")).encode()


async def _opened_and_closed(server: Gateway, calls: Sequence[bytes]) -> None:
    """Warm the server up: what it takes once, the first streams take."""
    heard, opened = Heard(), list[Stream]()
    await _open(server, calls, heard, opened)
    for stream in opened:
        if stream.transport is not None:
            stream.transport.close()
    await asyncio.sleep(_SETTLE_SECONDS)


async def _open(server: Gateway, calls: Sequence[bytes], heard: Heard, opened: list[Stream]) -> None:
    """Open the streams, a few at a time, until each has been told how its job stands."""
    loop = asyncio.get_running_loop()
    for begin in range(0, len(calls), _CONNECTING):
        for call in calls[begin : begin + _CONNECTING]:
            _, stream = await loop.create_connection(partial(Stream, call, heard), "127.0.0.1", server.port)
            opened.append(stream)
        await _until(lambda: heard.told >= len(opened), heard)


async def _until(holds: Callable[[], bool], heard: Heard) -> None:
    give_up_at = perf_counter() + _PATIENCE_SECONDS
    while not holds():
        if heard.refused or perf_counter() > give_up_at:
            told = f"{heard.told:,} told, {heard.still_heard:,} still heard, {heard.closed:,} closed"
            raise CannotMeasureError(f"The streams are not alive: {told}. {heard.refused[:1]}")
        await asyncio.sleep(0.01)


async def _cancel(server: Gateway, account: Account) -> None:
    """Cancel the jobs of an account, one after another."""
    theirs = replace(server, key=account.key)
    async with sessions(server, 1) as (session,):
        for job in account.jobs:
            reply = await session.ask(request(theirs, "POST", f"/api/v2/jobs/{job}/cancel"))
            if reply.status != 200:
                raise CannotMeasureError(f"A job was not canceled: {reply.status} {reply.body[:200]!r}")


def _print(found: Found) -> None:
    rows = [
        ("figure", "found"),
        ("memory before", f"{found.before / MIB:.1f} MiB"),
        ("memory with all open", f"{found.during / MIB:.1f} MiB"),
        ("memory afterwards", f"{found.after / MIB:.1f} MiB"),
        ("memory a stream", f"{(found.during - found.before) / 1024 / found.streams:.1f} KiB"),
        ("share of a core while nothing happens", f"{found.share:.2f}"),
        ("eight jobs canceled, their streams ended after", f"{found.ended_seconds * 1000:.0f} ms"),
    ]
    print(measuring.table(rows))


def _claims(found: Found) -> list[Claim]:
    more, heard = found.during - found.before, found.heard
    ends = min(found.streams, STREAMS_MAX)
    alive = heard.told == heard.still_heard == found.streams and heard.ended == heard.closed == ends
    told = f"{heard.told:,} told, {heard.still_heard:,} still heard, {heard.closed} of {ends} ended"
    return [
        Claim(f"{found.streams:,} streams are alive", told, alive),
        Claim(
            f"they take less than {_CLAIMED_MEMORY // MIB} MiB more", f"{more / MIB:.1f} MiB", more < _CLAIMED_MEMORY
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
