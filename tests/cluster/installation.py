"""An installation of many processes on one machine, with PostgreSQL and a partner that counts its work."""

import asyncio
import base64
import json
import secrets
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection, func, select

from databases import Postgres, running_postgres
from fairlead.storage.db.tables import jobs, ledger_entries, runs, servers
from fake_partner import SECRET, CatalogFolder, FakePartner, Request, reply_json, running_partner
from haproxy import ADDRESS, Haproxy, running_haproxy
from ports import free_ports
from servers import COMMAND, command, environment, wait_until

T = TypeVar("T")

PRICE: Final = "0.01"
SILENT_SECONDS: Final = 5
_STOP_SECONDS: Final = 90.0
DATABASE_WAIT_SECONDS: Final = 10.0
_DRAIN_PAUSE_SECONDS: Final = 5
"""As in deploy/compose: longer than the balancer needs to notice."""
_SERVERS_MAX: Final = 8
"""How many servers are started in all: the balancer knows where each of them will be."""
_TASK_SECONDS: Final = 0.5
_CREDIT: Final = "100000"


class Member:
    """A process of the installation: a server, which has a port, or a worker."""

    def __init__(self, name: str, words: Sequence[str], env: Mapping[str, str], data: Path) -> None:
        self.name = name
        self.data = data
        self.log = data.with_name(f"{name}.log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, *words, "--data", str(data), "--json"], stdout=subprocess.PIPE, stderr=log, env=env
            )
        self.ready = self._wait_until_ready()
        self.server_id = ""
        """What the database calls it."""

    @property
    def is_server(self) -> bool:
        """Whether it answers callers; workers do not."""
        return self.ready.get("url") is not None

    @property
    def port(self) -> int:
        """Where a server listens."""
        return int(str(self.ready["url"]).rpartition(":")[2])

    def kill(self) -> None:
        """End it as a power cut does."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop it as an operator does; its exit status."""
        return self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop its processor time, as an overloaded host or a paused virtual machine does."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def unexpected_errors(self) -> Sequence[str]:
        """What it logged of bugs."""
        return [line for line in self.log.read_text("utf-8").splitlines() if '"UnexpectedError"' in line]

    def _end(self, by: int) -> int:
        if self.process.poll() is None:
            self.process.send_signal(by)
        status = self.process.wait(_STOP_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def _wait_until_ready(self) -> dict[str, Any]:
        stdout: IO[bytes] | None = self.process.stdout
        line = b"" if stdout is None else stdout.readline()
        if not line:
            status = self.process.wait(_STOP_SECONDS)
            raise RuntimeError(f"{self.name} ended with status {status}: {self.log.read_text('utf-8')[-2000:]}")
        ready: dict[str, Any] = json.loads(line)
        return ready


class CountingPartner:
    """A partner that takes tasks under idempotency keys, ends each after a while, and counts them by prompt."""

    def __init__(self, partner: FakePartner) -> None:
        self._tasks: dict[str, tuple[str, float]] = {}
        self._made = Counter[str]()
        partner.script_rest(self._behave)

    def made_more_than_once(self) -> Sequence[str]:
        """The prompts for which it was given more than one task under different keys."""
        return [prompt for prompt, count in self._made.items() if count > 1]

    async def _behave(self, request: Request, writer: asyncio.StreamWriter) -> None:
        status, document = self._answer(request)
        await reply_json(document, status)(request, writer)

    def _answer(self, request: Request) -> tuple[int, Any]:
        if request.method == "POST":
            handle = request.headers["idempotency-key"]
            if handle not in self._tasks:
                prompt = str(json.loads(request.body)["prompt"])
                self._made[prompt] += 1
                self._tasks[handle] = prompt, time.monotonic() + _TASK_SECONDS
            return 200, {"id": handle}
        handle = request.path.rpartition("/")[2]
        if handle not in self._tasks:
            return 404, {"error": {"code": "unknown"}}
        prompt, ends_at = self._tasks[handle]
        return 200, {"state": "done" if time.monotonic() >= ends_at else "running", "prompt": prompt}


class Charge(msgspec.Struct, frozen=True):
    """A run in the books: its state, how many entries charge it, and how much (10^-8 dollars)."""

    state: str
    posts: int
    amount: int


class Installation(msgspec.Struct):
    """What runs, and what each process is started with."""

    folder: Path
    postgres: Postgres
    database: str
    partner: CountingPartner
    balancer: Haproxy
    ports: list[int]
    env: dict[str, str]
    members: dict[str, Member] = msgspec.field(default_factory=dict)
    ended: list[Member] = msgspec.field(default_factory=list)

    def start_server(self, name: str) -> Member:
        """Start a server behind the balancer."""
        return self._start(name, ["serve", "--port", str(self.ports.pop())])

    def start_worker(self, name: str) -> Member:
        """Start a worker without an API."""
        return self._start(name, ["work", "--pool", "default", "--places", "4"])

    def note_end(self, member: Member) -> None:
        """Take note that a member has ended."""
        del self.members[member.name]
        self.ended.append(member)

    def cli(self, *arguments: str) -> Any:
        """Run a command on the installation's database."""
        return command(*arguments, "--data", str(self.folder / "operator"), "--database", self.database)

    def count_owned_by(self, member: Member) -> int:
        """How much live work belongs to a member, as the database has it."""
        return self._read(
            lambda connection: sum(
                int(
                    connection.execute(
                        select(func.count())
                        .select_from(table)
                        .where(table.c.server_id == member.server_id, table.c.finished_at.is_(None))
                    ).scalar_one()
                )
                for table in (runs, jobs)
            )
        )

    def charges(self) -> Sequence[Charge]:
        """Every run that has ended, with what was charged for it and how often."""
        posts = (
            select(
                ledger_entries.c.run_id,
                func.count().label("posts"),
                func.sum(ledger_entries.c.balance_change).label("change"),
            )
            .where(ledger_entries.c.kind == "post")
            .group_by(ledger_entries.c.run_id)
            .subquery()
        )
        statement = select(
            runs.c.state, func.coalesce(posts.c.posts, 0), -func.coalesce(posts.c.change, 0)
        ).select_from(runs.outerjoin(posts, posts.c.run_id == runs.c.id))
        return self._read(
            lambda connection: [
                Charge(state, int(posts), int(amount)) for state, posts, amount in connection.execute(statement)
            ]
        )

    def _start(self, name: str, words: Sequence[str]) -> Member:
        known = self._server_ids() if self.members else frozenset[str]()
        member = Member(name, words, self.env, self.folder / name)
        self.members[name] = member
        (member.server_id,) = self._server_ids() - known
        return member

    def _server_ids(self) -> frozenset[str]:
        return self._read(lambda connection: frozenset(connection.execute(select(servers.c.id)).scalars()))

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self.postgres.read(self.database, work)


@contextmanager
def install(folder: Path, settings: Mapping[str, str]) -> Iterator[Installation]:
    """Start what an installation rests on; whatever was started in it is stopped at the end."""
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres())
        partner = stack.enter_context(running_partner())
        ports = list(free_ports(_SERVERS_MAX))
        balancer = stack.enter_context(running_haproxy(folder, ports))
        wait_until(lambda: not any(map(balancer.is_ready, ports)), "the balancer to know that there is no server yet")
        catalog = CatalogFolder(folder / "catalog")
        catalog.add_provider(partner.url, give_up_after=600)
        catalog.add_model("fake/task-1", "task", price=PRICE)
        database = postgres.url(postgres.create())
        env = environment(
            {
                "FAIRLEAD_DATABASE": database,
                "FAIRLEAD_CATALOG": str(catalog.path),
                "FAIRLEAD_SECRET_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
                "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
                "FAIRLEAD_PUBLIC_BASE_URL": balancer.url,
                "FAIRLEAD_TRUSTED_PROXIES": ADDRESS,
                "FAIRLEAD_DATABASE_WAIT_SECONDS": f"{DATABASE_WAIT_SECONDS:g}",
                "FAIRLEAD_SILENT_SERVER_SECONDS": str(SILENT_SECONDS),
                "FAIRLEAD_DRAIN_PAUSE_SECONDS": str(_DRAIN_PAUSE_SECONDS),
                "FAIRLEAD_LOCAL_PARTNER": "false",
                "FAIRLEAD_ENGINE": "true",
                "FAIRLEAD_ENGINE_HOSTS": "1",
                "FAIRLEAD_SUBSCRIPTIONS": "pro=-1",
                **settings,
            }
        )
        installation = Installation(folder, postgres, database, CountingPartner(partner), balancer, ports, env)
        try:
            yield installation
        finally:
            for member in list(installation.members.values()):
                member.thaw()
                member.kill()


def api_key(installation: Installation, first: Member) -> str:
    """The key of the workspace `default`, with funds and without limits that the load would meet."""
    installation.cli("workspaces", "change", "default", "--in-flight-limit", "-1", "--subscription", "pro")
    installation.cli("workspaces", "credit", "default", _CREDIT)
    return str(first.ready["first_key"])
