"""What several servers with PostgreSQL and NATS between them take: an event to a socket elsewhere, a run to its claim.

Three servers (bench/watched.py) tell each other over NATS what one of them publishes, first to a socket each, then to a
thousand over all. Then two of `fairlead serve` share PostgreSQL: one takes runs in and has no place for them, the other
claims them; the time is that from the run's row to its claim, which holds the commit. `--help` shows the options.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import uvloop
from sqlalchemy import Connection, select

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench import catalog, measuring
from bench.measuring import Claim
from bench.sockets import Heard, open_sockets, publish, watched_server

from databases import running_postgres
from fairlead.storage.db.opening import open_database
from fairlead.storage.db.tables import runs
from nats_servers import running_nats

_SERVERS: Final = 3
_CLAIMED_SECONDS: Final = 0.005
_FANNED_OUT_SECONDS: Final = 0.1
_PAUSE_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 60.0
_SPARE_DESCRIPTORS: Final = 300
_PARTNER_SECONDS: Final = "0"


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sockets", type=int, default=1000, help="how many watch over all servers (default 1000)")
    parser.add_argument("--messages", type=int, default=200, help="how many messages each is told (default 200)")
    parser.add_argument("--per-second", type=float, default=20.0, help="messages a second (default 20)")
    parser.add_argument("--runs", type=int, default=200, help="how many runs are claimed elsewhere (default 200)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    measuring.lift_descriptors(options.sockets + _SPARE_DESCRIPTORS)
    print(f"{measuring.machine()}; {_SERVERS} servers, {options.sockets:,} sockets, {options.runs} runs", flush=True)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-")))
    nats = stack.enter_context(running_nats())
    one, all_ = _sockets(folder, nats.url, options)
    waits = _claims(folder, nats.url, options)
    rows = [
        ("figure", "p50", "p99"),
        _row("event to a socket at another server", one.percentile(0.5), one.percentile(0.99)),
        _row(f"event to {options.sockets:,} sockets", all_.percentile(0.5), all_.percentile(0.99)),
        _row("release to claim at another server", _percentile(waits, 0.5), _percentile(waits, 0.99)),
    ]
    print(measuring.table(rows))
    expected = options.sockets * options.messages
    told = f"{len(all_.seconds):,} of {expected:,}, {all_.out_of_turn} out of turn"
    is_whole = len(all_.seconds) == expected and not all_.out_of_turn
    event, claim, late = one.percentile(0.5), _percentile(waits, 0.5), all_.percentile(0.99)
    return measuring.print_claims(
        [
            Claim(
                "an event reaches a socket at another server within 5 ms (p50)", _ms(event), event < _CLAIMED_SECONDS
            ),
            Claim(
                "a run is claimed at another server within 5 ms of its release (p50)",
                _ms(claim),
                claim <= _CLAIMED_SECONDS,
            ),
            Claim(f"{options.sockets:,} sockets at three servers are told every message, in order", told, is_whole),
            Claim("p99 from publication to receipt is under 100 ms", _ms(late), late < _FANNED_OUT_SECONDS),
        ]
    )


def _sockets(folder: Path, nats: str, options: argparse.Namespace) -> tuple[Heard, Heard]:
    """How late events are at a socket of each other server, and at many sockets of all."""
    with ExitStack() as stack:
        words = [str(folder), nats]
        servers = [stack.enter_context(watched_server(words, folder / f"{number}.log")) for number in range(_SERVERS)]
        publisher = servers[0][0]

        async def hear(counts: list[int]) -> Heard:
            heard, transports = Heard(), list[asyncio.Transport]()
            for (_, port, key), count in zip(servers, counts, strict=True):
                transports += await open_sockets(heard, port, key, count)
            await asyncio.to_thread(publish, publisher, options.messages, options.per_second)
            await asyncio.sleep(1.0)
            for transport in transports:
                transport.close()
            return heard

        share = options.sockets // _SERVERS
        one = uvloop.run(hear([0, *[1] * (_SERVERS - 1)]))
        return one, uvloop.run(hear([options.sockets - share * (_SERVERS - 1), *[share] * (_SERVERS - 1)]))


def _claims(folder: Path, nats: str, options: argparse.Namespace) -> list[float]:
    """Seconds from runs' rows to their claims at the other server."""
    with ExitStack() as stack:
        log = folder / "partner.log"
        command: list[str | Path] = [sys.executable, Path(__file__).with_name("slow_partner.py"), _PARTNER_SECONDS]
        partner = stack.enter_context(measuring.program(command, log))
        files = catalog.write_catalog(folder / "catalog", int(measuring.first_line(partner, log)))
        postgres = stack.enter_context(running_postgres())
        url, settings = postgres.url(postgres.create()), {"FAIRLEAD_MESSAGING": nats}
        words = ("--no-local-partner", "--catalog", files, "--database", url)
        takes = {**settings, "FAIRLEAD_QUEUE_PLACES": "0"}
        taking = stack.enter_context(measuring.gateway(folder / "data", *words, settings=takes))
        stack.enter_context(measuring.gateway(folder / "data", *words, settings=settings))
        for _ in range(options.runs):
            _submit(taking.port, taking.key)
            time.sleep(_PAUSE_SECONDS)
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while len(found := asyncio.run(_read(url))) < options.runs and time.monotonic() < give_up_at:
            time.sleep(_PAUSE_SECONDS)
        return found


def _submit(port: int, key: str) -> None:
    address = f"http://127.0.0.1:{port}/v2/models/{catalog.MODEL}/requests"
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    content = json.dumps(catalog.BODY).encode()
    urllib.request.urlopen(urllib.request.Request(address, content, headers)).close()


async def _read(url: str) -> list[float]:
    def waits(connection: Connection) -> list[float]:
        found = connection.execute(select(runs.c.created_at, runs.c.claimed_at).where(runs.c.claimed_at.is_not(None)))
        return [(claimed_at - created_at) / 1000 for created_at, claimed_at in found]

    database = open_database(url)
    try:
        return await database.read(waits)
    finally:
        await database.close()


def _percentile(seconds: list[float], share: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")


def _row(name: str, p50: float, p99: float) -> tuple[str, str, str]:
    return name, _ms(p50), _ms(p99)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


if __name__ == "__main__":
    sys.exit(main())
