"""What happens to an installation under load: a kill, a freeze, restarts of what it rests on, and a rolling restart."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click
import msgspec

from cluster.installation import DATABASE_WAIT_SECONDS, SILENT_SECONDS, Installation, Member
from cluster.load import Tally
from servers import wait_until

ROLL: Final = "rolling restart"
_OUTAGE_SECONDS: Final = 3.0
_TAKEOVER_SECONDS_MAX: Final = 120.0


class Takeover(msgspec.Struct, frozen=True):
    """Work of a member that fell silent: how much it had, and the seconds until others had all of it."""

    member: str
    owned: int
    seconds: float


class Scenario:
    """Disturbs an installation, one thing after the other, and lets callers go on for a while after each."""

    def __init__(self, installation: Installation, tally: Tally, messenger: Callable[[], object], calm: float) -> None:
        """Take what to disturb; `messenger` restarts the messenger, `calm` is the seconds of rest after each event."""
        self._installation = installation
        self._tally = tally
        self._messenger = messenger
        self._calm = calm
        self.takeovers: list[Takeover] = []
        self.long_outages = set[str]()
        """The phases in which the database was away for longer than servers wait for it."""

    def play(self) -> None:
        """Play the whole of it."""
        with self._phase("undisturbed"):
            pass
        with self._phase("server killed"):
            self._kill("server-1", self._installation.start_server)
        with self._phase("worker killed"):
            self._kill("worker-1", self._installation.start_worker)
        with self._phase("server frozen"):
            self._freeze("server-2")
        with self._phase("PostgreSQL restarted"):
            self._restart_postgres()
        with self._phase("messenger restarted"):
            self._messenger()
        with self._phase(ROLL):
            for member in sorted(self._installation.members.values(), key=lambda one: one.name):
                self._replace(member)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self._tally.phase = name
        before = self._tally.count()
        click.echo(f"  {name} ...", nl=False)
        began = time.monotonic()
        yield
        time.sleep(self._calm)
        click.echo(f" {time.monotonic() - began:.0f} s, {self._tally.count() - before} submissions ended meanwhile")

    def _kill(self, name: str, start: Callable[[str], Member]) -> None:
        member = self._installation.members[name]
        owned = self._installation.count_owned_by(member)
        member.kill()
        began = time.monotonic()
        self._installation.note_end(member)
        self._await_takeover(member, owned, began)
        start(f"{name}-again")

    def _freeze(self, name: str) -> None:
        """Freeze a server until its work was taken over, and let it go on: it must notice, and do no harm."""
        member = self._installation.members[name]
        owned = self._installation.count_owned_by(member)
        member.freeze()
        began = time.monotonic()
        try:
            self._await_takeover(member, owned, began)
            time.sleep(max(0.0, 2 * SILENT_SECONDS - (time.monotonic() - began)))
        finally:
            member.thaw()
        wait_until(lambda: self._installation.balancer.is_ready(member.port), "the frozen server to be ready again")

    def _restart_postgres(self) -> None:
        began = time.monotonic()
        self._installation.postgres.stop()
        time.sleep(_OUTAGE_SECONDS)
        self._installation.postgres.start()
        if time.monotonic() - began > DATABASE_WAIT_SECONDS:
            self.long_outages.add(self._tally.phase)

    def _await_takeover(self, member: Member, owned: int, began: float) -> None:
        wait_until(
            lambda: self._installation.count_owned_by(member) == 0, "the takeover", _TAKEOVER_SECONDS_MAX, pause=0.1
        )
        self.takeovers.append(Takeover(member.name, owned, time.monotonic() - began))

    def _replace(self, member: Member) -> None:
        """Start a member's successor, then stop it as an operator does."""
        start = self._installation.start_server if member.is_server else self._installation.start_worker
        successor = start(f"{member.name}-rolled")
        if successor.is_server:
            wait_until(lambda: self._installation.balancer.is_ready(successor.port), "the successor to be ready")
        status = member.stop()
        self._installation.note_end(member)
        if status != 0:
            raise RuntimeError(f"{member.name} ended with status {status}: see {member.log}")
