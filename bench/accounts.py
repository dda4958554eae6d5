"""What an account costs to read: pages of the ledger, first and deep inside, days of it, and a month in sums.

A million entries are put into the database as runs would have booked them over a year; then `fairlead serve` is asked
over HTTP, one call at a time. `--help` shows the options; docs/benchmarks.md says how to read the figures.
"""

import argparse
import asyncio
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from sqlalchemy import Connection, insert, select

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench import measuring
from bench.measuring import CannotMeasureError, Claim, Gateway
from bench.sessions import request, sessions

from databases import running_postgres
from fairlead.api.http.cursors import make_cursor
from fairlead.clock import new_id
from fairlead.storage.db.opening import open_database
from fairlead.storage.db.tables import api_keys, ledger_entries, runs, usage_days, workspaces

_CLAIMED_MS: Final = 100.0
_PAGE: Final = 200
_BATCH: Final = 5_000
_DAYS: Final = 400
_DAY_MS: Final = 86_400_000
_MODELS: Final = 20
_CHARGE: Final = 1_000_000
_WARM_UP: Final = 10
_PATH: Final = "/api/admin/v1/workspaces/default"


@dataclass(frozen=True, slots=True)
class Found:
    """Latencies of one kind of page, in seconds, in one kind of database."""

    database: str
    page: str
    seconds: Sequence[float]

    def percentile(self, share: float) -> float:
        """What this share of the calls is at least as quick as, in milliseconds."""
        return sorted(self.seconds)[int(len(self.seconds) * share)] * 1000


@dataclass(frozen=True, slots=True)
class Filled:
    """The workspace that the entries are of, its key, and the last of them."""

    workspace: str
    key: str
    last: int


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--entries", type=int, default=1_000_000, help="how many entries (default 1000000)")
    parser.add_argument("--calls", type=int, default=500, help="calls of each kind (default 500)")
    parser.add_argument("--databases", default="sqlite,postgresql", help="which kinds (default sqlite,postgresql)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the data goes (default: the temporary one)")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-", dir=options.folder)))
    print(f"{measuring.machine()}; data on {measuring.file_system_of(folder)}", flush=True)
    found: list[Found] = []
    for kind in options.databases.split(","):
        with ExitStack() as running:
            url, data = running.enter_context(_database(kind, folder / kind)), folder / f"data-{kind}"
            measuring.tell(f"{options.entries:,} entries in {kind}")
            with measuring.gateway(data, "--no-local-partner", "--database", url):
                pass  # makes the schema, the first workspace and the first keys
            filled = asyncio.run(_fill(url, options.entries))
            server = running.enter_context(measuring.gateway(data, "--no-local-partner", "--database", url))
            operator = replace(server, key=(data / "first-operator-key").read_text("ascii").strip())
            measuring.tell(f"pages of {kind}")
            found += asyncio.run(_ask(kind, operator, filled, options.calls))
    measuring.tell("")
    print(f"\n{'database':12}{'page':26}{'p50 ms':>9}{'p99 ms':>9}")
    for one in found:
        print(f"{one.database:12}{one.page:26}{one.percentile(0.5):>9.2f}{one.percentile(0.99):>9.2f}")
    return measuring.print_claims(_claims(found))


def _claims(found: Sequence[Found]) -> Iterator[Claim]:
    for one in found:
        p99 = one.percentile(0.99)
        yield Claim(f"{one.database}, {one.page}: p99 under {_CLAIMED_MS:g} ms", f"{p99:.2f} ms", p99 < _CLAIMED_MS)


@contextmanager
def _database(kind: str, path: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{path}.db"
        return
    with running_postgres() as server:
        name = server.create()
        yield server.url(name)
        server.drop(name)


async def _ask(kind: str, server: Gateway, filled: Filled, calls: int) -> list[Found]:
    async with sessions(server, 1) as (session,):
        found = []
        for page, path in _paths(filled).items():
            seconds = []
            for turn in range(_WARM_UP + calls):
                reply = await session.ask(request(server, "GET", path))
                if reply.status != 200:
                    raise CannotMeasureError(f"{page}: {reply.status} {reply.body[:200]!r}")
                if turn >= _WARM_UP:
                    seconds.append(reply.seconds)
                elif turn == 0:
                    _check(page, json.loads(reply.body))
            found.append(Found(kind, page, seconds))
        return found


def _paths(filled: Filled) -> dict[str, str]:
    """The calls, by what they are called."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    half_a_year = today - datetime.timedelta(days=_DAYS // 2)
    a_week_before = half_a_year - datetime.timedelta(days=7)

    def page(**query: Any) -> str:
        return f"{_PATH}/ledger?{urlencode({'limit': _PAGE, **query})}"

    deep = make_cursor(f"ledger of {filled.workspace}", str(filled.last // 2))
    return {
        "the first": page(),
        "deep inside": page(cursor=deep),
        "a week of half a year ago": page(**{"from": a_week_before.isoformat(), "to": half_a_year.isoformat()}),
        "up to a year ago": page(to=(today - datetime.timedelta(days=365)).isoformat()),
        "this month in sums": f"{_PATH}/statement",
        "a former month in sums": f"{_PATH}/statement?month={half_a_year:%Y-%m}",
    }


def _check(page: str, answer: Mapping[str, Any]) -> None:
    """What is measured must be what it is called: a whole page, or the sums of a month."""
    whole = len(answer["items"]) == _PAGE if "items" in answer else bool(answer["spending"])
    if not whole:
        raise CannotMeasureError(f"{page}: {len(answer.get('items', ()))} entries")


async def _fill(url: str, number: int) -> Filled:
    """Book runs over the last days, two entries each, as their ends and their usage would stand there."""
    database = open_database(url)
    try:
        workspace = await database.read(lambda c: str(c.scalar(select(workspaces.c.id))))
        key = await database.read(lambda c: str(c.scalar(select(api_keys.c.id))))
        first = (time.time_ns() // 1_000_000 // _DAY_MS - _DAYS + 1) * _DAY_MS
        count = number // 2
        for start in range(0, count, _BATCH):
            places = range(start, min(start + _BATCH, count))
            times = [first + place * (_DAYS - 1) * _DAY_MS // count for place in places]

            def some(connection: Connection, places: range = places, times: list[int] = times) -> None:
                ids = [new_id() for _ in places]
                rows = zip(ids, places, times, strict=True)
                connection.execute(insert(runs), [_run(id_, workspace, key, place, at) for id_, place, at in rows])
                booked = [one for id_, at in zip(ids, times, strict=True) for one in _entries(id_, workspace, at)]
                connection.execute(insert(ledger_entries), booked)

            await database.write(some)
        await database.write(lambda c: _sum_up(c, workspace, key, first, count))
        last = await database.read(
            lambda c: int(c.scalar(select(ledger_entries.c.id).order_by(ledger_entries.c.id.desc()).limit(1)) or 0)
        )
        return Filled(workspace, key, last)
    finally:
        await database.close()


def _sum_up(connection: Connection, workspace: str, key: str, first: int, count: int) -> None:
    """The usage of each day and model."""
    a_day = max(1, count // (_DAYS - 1) // _MODELS)
    rows = [
        {
            "workspace_id": workspace,
            "day": datetime.datetime.fromtimestamp((first + day * _DAY_MS) / 1000, tz=datetime.UTC).date().isoformat(),
            "key_id": key,
            "model_id": f"acme/model-{model}",
            "runs": a_day,
            "succeeded": a_day,
            "charge": a_day * _CHARGE,
        }
        for day in range(_DAYS)
        for model in range(_MODELS)
    ]
    connection.execute(insert(usage_days), rows)
    if connection.dialect.name == "postgresql":  # which does so by itself, after a while
        connection.exec_driver_sql("ANALYZE")


def _run(id_: str, workspace: str, key: str, place: int, at: int) -> dict[str, Any]:
    return {
        "id": id_,
        "workspace_id": workspace,
        "key_id": key,
        "model_id": f"acme/model-{place % _MODELS}",
        "provider": "acme",
        "state": "succeeded",
        "attempt": 1,
        "server_id": id_,
        "hold": _CHARGE,
        "charge": _CHARGE,
        "rate_version": "acme-2026",
        "reason": "completed",
        "caller_left": False,
        "created_at": at,
        "finished_at": at + 1000,
    }


def _entries(id_: str, workspace: str, at: int) -> tuple[dict[str, Any], dict[str, Any]]:
    both = {"workspace_id": workspace, "run_id": id_, "rate_version": "acme-2026"}
    hold = {**both, "phase": 1, "kind": "hold", "balance_change": 0, "held_change": _CHARGE, "reason": "admitted"}
    post = {
        **both, "phase": 2, "kind": "post", "balance_change": -_CHARGE, "held_change": -_CHARGE, "reason": "completed",
    }  # fmt: skip
    return {**hold, "created_at": at}, {**post, "created_at": at + 1000}


if __name__ == "__main__":
    sys.exit(main())
