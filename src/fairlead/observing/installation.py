"""What is observed of an installation by looking at it: what all its servers share, and the disk of this one."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

OTHER_POOLS: Final = "(other)"
"""Stands for the names that owners of deployments choose, of which there may be any number. No pool has this name."""


class BacklogSeen(msgspec.Struct, frozen=True):
    """How much work of one `kind`, runs or jobs, waits in all workspaces of a subscription; times in seconds.

    `parked` is how much of it waits for a slot of its workspace, `oldest` for how long the oldest has waited.
    """

    kind: str
    subscription: str
    waiting: int
    parked: int
    oldest: float


class PoolSeen(msgspec.Struct, frozen=True):
    """How much released work of one `kind`, runs or jobs, waits for a server of a pool.

    `unattended` is how much of it no server that is alive works for. The `pool` is one that operators have named, or
    OTHER_POOLS for all that come from deployments.
    """

    kind: str
    pool: str
    waiting: int
    unattended: int


class ServersSeen(msgspec.Struct, frozen=True):
    """How many servers are alive, and how many have fallen silent with work; `oldest_lease` (seconds) of the living."""

    alive: int
    silent: int
    oldest_lease: float


class DatabaseSeen(msgspec.Struct, frozen=True):
    """The figures of a database, in bytes and connections; None where there is no such figure."""

    size: int
    wal: int | None
    connections: int | None
    connections_most: int | None


class DiskSeen(msgspec.Struct, frozen=True):
    """The disk of the data directory, in bytes."""

    free: int
    size: int


class InstallationSeen(msgspec.Struct, frozen=True):
    """What a look at the installation has shown; `disk` and what is of the database are missing where it is away.

    `problems` has each subject of readiness, and whether something is wrong with it; `cautions` how many rate cards in
    force deserve attention, by why.
    """

    backlogs: Sequence[BacklogSeen] = ()
    pools: Sequence[PoolSeen] = ()
    servers: ServersSeen | None = None
    database: DatabaseSeen | None = None
    disk: DiskSeen | None = None
    problems: Mapping[str, bool] = {}
    cautions: Mapping[str, int] = {}
