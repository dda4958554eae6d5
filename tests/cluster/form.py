"""Servers of tests as an installation of many: two servers that work for nobody's queue, a worker, a load balancer.

With `--cluster` every `Server` is such an installation, on one PostgreSQL, NATS and S3 store. Each process has a data
directory of its own, as on a machine of its own, with what docs/operating.md tells an operator to share. The balancer
gives each request to the next server, so what a test does at one server it reads at the other.
"""

import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.balancer import Balancer
from databases import Postgres
from nats_servers import NatsServer
from s3_store import S3Server
from servers import Installation, Order, Process, store_settings

SQLITE: Final = "its database is an SQLite file, which belongs to one process"
_BUCKET: Final = "cluster"
_SETTINGS: Final = {"FAIRLEAD_SILENT_SERVER_SECONDS": "5"}
"""The next installation on the same books soon takes over what is left."""
_PROXIES: Final = "FAIRLEAD_TRUSTED_PROXIES"
_FLAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "--no-local-partner": {"FAIRLEAD_LOCAL_PARTNER": "false"},
    "--simulate": {"FAIRLEAD_SIMULATE": "true"},
}
"""Flags of `serve` as settings, which a worker reads as well."""


@dataclass
class ManyServers:
    """Starts installations on a PostgreSQL, a NATS and an S3 store that they share.

    An installation that is started again in the same data directory has the same database and files as before.
    """

    postgres: Postgres
    nats: NatsServer
    store: S3Server
    _databases: dict[Path, str] = field(default_factory=dict)

    def install(self, order: Order) -> Installation:
        """Start two servers and a worker; ServerFailedError where one ends instead."""
        database = self._database(order)
        with ExitStack() as undone:
            balancer = Balancer()
            undone.callback(balancer.stop)
            env = self._settings(order, balancer)
            processes, ready = _start(replace(order, database=database, env=env, arguments=()), undone)
            undone.pop_all()
        urls = [one["url"] for one in ready]
        for url in urls[:2]:
            balancer.add(int(url.rpartition(":")[2]))
        key = ready[0]["first_key"]
        return Installation(processes, balancer.url, key, urls, database, store_settings(env), close=balancer.stop)

    def _settings(self, order: Order, balancer: Balancer) -> dict[str, str]:
        """The settings of each process: those of the order, and what makes it one of many."""
        shared = {"FAIRLEAD_MESSAGING": self.nats.url, "FAIRLEAD_PUBLIC_BASE_URL": balancer.url}
        store = self.store.settings(_BUCKET, order.data.resolve().as_posix().strip("/"))
        flags = {name: value for flag in order.arguments for name, value in _FLAGS[flag].items()}
        env = {**_SETTINGS, **shared, **store, **order.env, **flags}
        return {**env, _PROXIES: ",".join(filter(None, [env.get(_PROXIES), balancer.address]))}

    def _database(self, order: Order) -> str:
        if order.database is not None:
            if order.database.startswith("sqlite"):
                pytest.skip(SQLITE)
            return order.database
        if order.data not in self._databases:
            self._databases[order.data] = self.postgres.url(self.postgres.create())
        return self._databases[order.data]


def _start(first: Order, undone: ExitStack) -> tuple[Sequence[Process], Sequence[Mapping[str, Any]]]:
    """Start the first server, which makes the books, and then the others at the same time."""
    processes = [_start_process(first, undone, "serve", "--port", "0", "--no-work")]
    ready = [first.wait_until_ready(processes[0])]
    second, worker = (_another_machine(first, name) for name in ("second", "worker"))
    processes.append(_start_process(second, undone, "serve", "--port", "0", "--no-work"))
    processes.append(_start_process(worker, undone, "work", "--operator-port", "0"))
    ready += [first.wait_until_ready(process) for process in processes[1:]]
    return processes, ready


def _start_process(order: Order, undone: ExitStack, *words: str) -> Process:
    process = order.start(*words)
    undone.callback(_kill, process)
    return process


def _kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    if process.stdout is not None:
        process.stdout.close()


def _another_machine(first: Order, name: str) -> Order:
    """Make the data directory of another machine, with what has to be shared: secret, first key, copies of packs."""
    data = first.data.with_name(f"{first.data.name}-{name}")
    data.mkdir(mode=0o700, exist_ok=True)
    for shared in ("secret-key", "first-key"):
        if (first.data / shared).exists():
            shutil.copy(first.data / shared, data)
    copies = data / "release_packs"
    if not copies.is_symlink():
        copies.symlink_to(first.data.resolve() / "release_packs")
    return replace(first, data=data, log_of=first.data)
