"""The server that is attacked, who attacks it, and whom that must not concern."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import psutil

from end_to_end.workflow_clients import WorkflowClient
from fake_partner import SECRET, CatalogFolder, FakePartner, running_partner
from servers import Server, serving

PACKS: Final = Path(__file__).with_name("node_packs")
Size = Literal["short", "full"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an attack was held off, and in words what the attacker got."""

    held: bool
    found: str


@dataclass(frozen=True)
class World:
    """A running server with an attacker and a bystander, who are workspaces of their own, and a partner that obeys us.

    `size` says how much an attack may try: `short` is for the test suite, `full` for `make attack`.
    """

    folder: Path
    server: Server
    attacker: WorkflowClient
    bystander: WorkflowClient
    partner: FakePartner
    size: Size

    @property
    def is_full(self) -> bool:
        """Whether there is time for everything."""
        return self.size == "full"

    def memory(self) -> int:
        """The resident memory of the server's own process, in bytes."""
        return int(psutil.Process(self.server.process.pid).memory_info().rss)


@dataclass(frozen=True, slots=True)
class Attack:
    """One thing that is tried.

    `on_both` marks what depends on the database, and so is tried over both kinds; `is_elsewhere` what is tried at a
    server of its own, whose start would disturb the witness.
    """

    name: str
    what: str
    attempt: Callable[[World], Verdict]
    on_both: bool = False
    is_elsewhere: bool = False


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings of the attacked server: the defaults, but for what the attacks need to exist at all."""
    return {
        "FAIRLEAD_ENGINE": "true",
        "FAIRLEAD_NODE_PACKS": str(PACKS),
        "FAIRLEAD_ENGINE_MEMORY_MIB": "1500",
        "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
        "FAIRLEAD_TRUSTED_PROXIES": "127.0.0.1",  # signing in is bounded by address, and attacks are repeated
        **(more or {}),
    }


@contextmanager
def run_world(folder: Path, size: Size, database: str | None = None) -> Iterator[World]:
    """Run a server with a workspace that attacks and one that does not."""
    catalog = CatalogFolder(folder / "catalog")
    with running_partner() as partner:
        catalog.add_provider(partner.url, answer_limit_mib=64)
        catalog.add_model("fake/json-1")
        data = folder / "data"
        with serving(data, database=database, catalog=catalog.path, env=environment()) as server:
            attacker, bystander = (_client(server, name) for name in ("mallory", "bob"))
            try:
                yield World(folder, server, attacker, bystander, partner, size)
            finally:
                attacker.http.close()
                bystander.http.close()


def _client(server: Server, name: str) -> WorkflowClient:
    options: tuple[Any, ...] = ("--in-flight-limit", "-1", "--cap", "1000")
    return WorkflowClient(server, server.new_workspace(name, *options), name)
