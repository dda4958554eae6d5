"""What a list of jobs costs: the first page, one deep inside, and pages by three labels, of few jobs and many.

Jobs are put into the database by the thousand, as they would stand there after they have ended; then `fairlead serve`
is asked over HTTP, one call at a time, where few jobs are and where many are by turns. `--help` shows the options;
docs/benchmarks.md says how to read the figures.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from sqlalchemy import Connection, func, insert, select, update

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench import measuring
from bench.measuring import CannotMeasureError, Claim, Gateway
from bench.sessions import Session, request, sessions

from databases import running_postgres
from fairlead.clock import new_id
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import open_database
from fairlead.storage.db.tables import jobs, workspaces
from fairlead.storage.jobs.jobs import deflate
from fairlead.storage.jobs.labels import LabelIndex, add_to_index, index_job

_CLAIMED_MS: Final = 15.0
_CLAIMED_TIMES: Final = 1.5
_ENGINE: Final = {"FAIRLEAD_ENGINE": "true"}
_ROWS: Final = 100
_BATCH: Final = 5_000
_OTHERS: Final = 999
_OTHERS_JOBS: Final = 10
_WARM_UP: Final = 30
_SPREAD: Final = {"team": "team-3", "stage": "final", "user": "user-7"}
_COMMON: Final = {"team": "team-3", "stage": "final", "site": "site-1"}
_APART: Final = {"team": "team-3", "stage": "final", "review": "open"}
_FIRST, _DEEP, _FEW_HAVE, _MANY_HAVE, _NONE_HAS = (
    "first page", "deep page", "three labels, 100 have", "three labels, many have", "three labels, none has",
)  # fmt: skip
_FOLLOWING: Final = (_FIRST, _DEEP, _FEW_HAVE, _MANY_HAVE)
"""The pages that have as many jobs, however many there are."""


@dataclass(frozen=True, slots=True)
class Found:
    """Latencies of one kind of page, in seconds, with so many jobs in one kind of database."""

    database: str
    jobs: int
    page: str
    seconds: Sequence[float]

    @property
    def p50(self) -> float:
        """The median, in milliseconds."""
        return sorted(self.seconds)[len(self.seconds) // 2] * 1000

    @property
    def p99(self) -> float:
        """What a hundredth of the calls is slower than, in milliseconds."""
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)] * 1000


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", default="10000,1000000", help="how many jobs, fewer first (default 10000,1000000)")
    parser.add_argument("--calls", type=int, default=1_000, help="calls of each kind (default 1000)")
    parser.add_argument("--databases", default="sqlite,postgresql", help="which kinds (default sqlite,postgresql)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the data goes (default: the temporary one)")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-", dir=options.folder)))
    print(f"{measuring.machine()}; data on {measuring.file_system_of(folder)}", flush=True)
    numbers = [int(number) for number in options.jobs.split(",")]
    found: list[Found] = []
    for kind in options.databases.split(","):
        with ExitStack() as running:
            urls = {}
            for number in numbers:
                measuring.tell(f"{number:,} jobs in {kind}")
                urls[number] = running.enter_context(_database(kind, folder / f"{kind}-{number}"))
                _fill(folder / f"data-{kind}-{number}", urls[number], number)
            servers = {
                number: running.enter_context(_server(folder / f"data-{kind}-{number}", url))
                for number, url in urls.items()
            }
            measuring.tell(f"pages of {kind}")
            found += asyncio.run(_ask(kind, servers, options.calls))
    measuring.tell("")
    _print(found)
    return measuring.print_claims(_claims(found, numbers))


@contextmanager
def _database(kind: str, path: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{path}.db"
        return
    with running_postgres() as server:
        name = server.create()
        yield server.url(name)
        server.drop(name)


def _server(data: Path, url: str) -> AbstractContextManager[Gateway]:
    return measuring.gateway(data, "--no-local-partner", "--database", url, settings=_ENGINE)


def _fill(data: Path, url: str, number: int) -> None:
    with _server(data, url):
        pass  # makes the schema and the first workspace

    async def fill() -> None:
        database = open_database(url)
        try:
            await _seed(database, number)
        finally:
            await database.close()

    asyncio.run(fill())


async def _ask(kind: str, servers: Mapping[int, Gateway], calls: int) -> list[Found]:
    async with AsyncExitStack() as stack:
        opened = {number: await stack.enter_async_context(sessions(servers[number], 1)) for number in servers}
        paths = {number: await _paths(servers[number], opened[number][0], number) for number in servers}
        found = []
        for page in paths[min(paths)]:
            seconds: dict[int, list[float]] = {number: [] for number in servers}
            for turn in range(_WARM_UP + calls):
                for number, (session,) in opened.items():
                    reply = await session.ask(request(servers[number], "GET", paths[number][page]))
                    if reply.status != 200:
                        raise CannotMeasureError(f"{page}: {reply.status} {reply.body[:200]!r}")
                    if turn >= _WARM_UP:
                        seconds[number].append(reply.seconds)
                    elif turn == 0:
                        _check(page, json.loads(reply.body))
            found += [Found(kind, number, page, those) for number, those in seconds.items()]
        return found


async def _paths(server: Gateway, session: Session, number: int) -> dict[str, str]:
    def path(labels: Mapping[str, str], **more: Any) -> str:
        query = {"limit": _ROWS, **more, **{f"metadata[{key}]": value for key, value in labels.items()}}
        return f"/api/v2/jobs?{urlencode(query)}"

    return {
        _FIRST: path({}),
        _DEEP: path({}, cursor=await _deep(server, session, number)),
        _FEW_HAVE: path(_SPREAD),
        _MANY_HAVE: path(_COMMON),
        _NONE_HAS: path(_APART),
    }


def _check(page: str, answer: Mapping[str, Any]) -> None:
    """What is measured must be what it is called: a page of a hundred, or all of a search in vain."""
    rows = 0 if page == _NONE_HAS else _ROWS
    if len(answer["jobs"]) != rows:
        raise CannotMeasureError(f"{page}: {len(answer['jobs'])} jobs instead of {rows}.")


async def _deep(server: Gateway, session: Session, number: int) -> str:
    """A cursor in the middle: positions are only made by paging, so pages of the largest size are turned."""
    cursor = ""
    for _ in range(max(1, min(number // 2, 100_000) // 500)):
        query = {"limit": 500, **({"cursor": cursor} if cursor else {})}
        reply = await session.ask(request(server, "GET", f"/api/v2/jobs?{urlencode(query)}"))
        cursor = json.loads(reply.body)["next_cursor"]
    return str(cursor)


async def _seed(database: Database, number: int) -> None:
    """Put jobs that have ended into the first workspace, and a few into each of many others."""
    now = time.time_ns() // 1_000_000

    def others(connection: Connection) -> str:
        row = dict(connection.execute(select(workspaces)).mappings().one())
        made = [{**row, "id": new_id(), "name": f"other-{place}"} for place in range(_OTHERS)]
        connection.execute(insert(workspaces), made)
        for one in made:
            connection.execute(insert(jobs), [_job(one["id"], place + 1, now, {}) for place in range(_OTHERS_JOBS)])
        return str(row["id"])

    workspace = await database.write(others)
    for start in range(0, number, _BATCH):
        places = range(start + 1, min(start + _BATCH, number) + 1)

        def some(connection: Connection, places: range = places) -> None:
            connection.execute(insert(jobs), [_job(workspace, place, now, _labels(place, number)) for place in places])
            index: LabelIndex = {}
            for place in places:
                index_job(index, workspace, place, _labels(place, number), None)
            add_to_index(connection, index)

        await database.write(some)

    def settle(connection: Connection) -> None:
        last = select(func.max(jobs.c.number)).where(jobs.c.workspace_id == workspaces.c.id).scalar_subquery()
        connection.execute(update(workspaces).values(last_job=last))
        if connection.dialect.name == "postgresql":  # which does so by itself, after a while
            connection.exec_driver_sql("ANALYZE")

    await database.write(settle)


def _labels(place: int, number: int) -> dict[str, str]:
    """Five labels: a user has a thousand jobs, however many there are, and none is both final and open."""
    tens = place // 10
    return {
        "team": f"team-{place % 5}",
        "stage": ("draft", "final")[place % 2],
        "site": f"site-{tens % 3}",
        "user": f"user-{tens % (number // 1_000)}",
        "review": ("open", "done")[place % 2],
    }


_WORKFLOW: Final = deflate(b'{"1":{"class_type":"PrimitiveInt","inputs":{"value":1}}}')
_EMPTY: Final = deflate(b"{}")


def _job(workspace: str, number: int, now: int, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": new_id(),
        "workspace_id": workspace,
        "number": number,
        "state": "succeeded",
        "attempt": 1,
        "workflow": _WORKFLOW,
        "extra": _EMPTY,
        "wanted": '["1"]',
        "nodes": 1,
        "outputs": _EMPTY,
        "labels": json.dumps(labels) if labels else None,
        "created_at": now,
        "updated_at": now,
        "started_at": now,
        "finished_at": now,
        "expires_at": now + 86_400_000,
    }


def _print(found: Sequence[Found]) -> None:
    print(f"\n{'database':12}{'jobs':>10}  {'page':26}{'p50 ms':>9}{'p99 ms':>9}")
    for one in found:
        print(f"{one.database:12}{one.jobs:>10,}  {one.page:26}{one.p50:>9.2f}{one.p99:>9.2f}")


def _claims(found: Sequence[Found], numbers: Sequence[int]) -> Iterator[Claim]:
    few, many = numbers[0], numbers[-1]
    for kind in dict.fromkeys(one.database for one in found):
        for page in dict.fromkeys(one.page for one in found):
            of = {one.jobs: one for one in found if (one.database, one.page) == (kind, page)}
            ratio = of[many].p99 / of[few].p99
            if page in _FOLLOWING:
                yield Claim(
                    f"{kind}, {page}: p99 of {many:,} jobs at most {_CLAIMED_TIMES:g} times that of {few:,}",
                    f"{ratio:.2f} times",
                    ratio <= _CLAIMED_TIMES,
                )
            yield Claim(
                f"{kind}, {page}: p99 under {_CLAIMED_MS:g} ms", f"{of[many].p99:.2f} ms", of[many].p99 < _CLAIMED_MS
            )


if __name__ == "__main__":
    sys.exit(main())
