"""Request quotas among servers: shared within a round, kept while the database is away, forgotten when turned."""

from typing import Final

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.rate_windows import Quota, Quotas, Span, quotas_of
from fairlead.domain.faults import Fault, FaultError, RateLimited
from fairlead.observing.observations import DatabaseTrouble, Observation
from fairlead.operations.accounts import rate_windows
from fairlead.operations.accounts.rate_windows import RateWindows
from operations.servers import Guarded

MIDNIGHT: Final = 20_000 * 86_400_000


class _Servers:
    """Servers that share a database and a clock which the test sets."""

    def __init__(self, database: Guarded, run: Run) -> None:
        """Begin at midnight."""
        self.now = MIDNIGHT
        self.seen: list[Observation] = []
        self.database = database
        self._run = run

    def start(self, per_minute: int = 3, per_day: int = 0, reads: int = 5) -> RateWindows:
        """Start a server that knows nothing yet."""
        clock = Clock(lambda: self.now * 1_000_000)
        quotas = Quotas(quotas_of(per_minute, per_day), (Quota(Span.READS, reads),) if reads else ())
        return RateWindows(self.database, quotas, clock, self.seen.append)

    def share(self, *servers: RateWindows) -> None:
        """Let each server do its round."""
        for server in servers:
            self._run(server.share())

    def forget(self, server: RateWindows) -> int:
        """Let a server delete a batch of old windows."""
        count: int = self._run(server.forget())
        return count


@pytest.fixture
def servers(guarded: Guarded, run: Run) -> _Servers:
    """Return what starts servers."""
    return _Servers(guarded, run)


def _refusal(server: RateWindows, workspace: str = "lab", *, is_read: bool = False) -> Fault | None:
    try:
        server.count(workspace, is_read=is_read)
    except FaultError as error:
        return error.fault
    return None


def _count_admitted(server: RateWindows, asked: int, workspace: str = "lab") -> int:
    return sum(_refusal(server, workspace) is None for _ in range(asked))


@pytest.mark.req("R-23")
def test_quota_belongs_to_one_workspace(servers: _Servers) -> None:
    """A quota is of one workspace; the refusal has the window, the limit and the wait."""
    server = servers.start()
    assert _count_admitted(server, 5) == 3
    assert _count_admitted(server, 5, "shop") == 3
    servers.now += 15_000
    assert _refusal(server) == RateLimited("minute", 3, 45)


@pytest.mark.req("R-23")
def test_reads_have_a_quota_of_their_own(servers: _Servers) -> None:
    """Neither spends anything of the other's, and servers share both; a quota of 0 is none."""
    one, other = servers.start(), servers.start()
    assert [_refusal(one, is_read=True) for _ in range(4)] == [None] * 4
    assert _count_admitted(one, 5) == 3
    servers.share(one, other, one)
    assert _refusal(other, is_read=True) is None
    servers.share(other)
    servers.now += 15_000
    assert _refusal(other, is_read=True) == RateLimited("minute", 5, 45, "reads")
    assert _refusal(one) == RateLimited("minute", 3, 45)
    servers.now += 45_000
    assert _refusal(other, is_read=True) is None
    unbound = servers.start(reads=0)
    assert {_refusal(unbound, is_read=True) for _ in range(9)} == {None}


@pytest.mark.req("R-23")
def test_servers_share_their_counts(servers: _Servers) -> None:
    """What one server admits is missing at the other after a round of both."""
    one, other = servers.start(), servers.start()
    assert (_count_admitted(one, 1), _count_admitted(other, 1)) == (1, 1)
    servers.share(one, other, one)
    assert _count_admitted(other, 5) == 1
    servers.share(other)
    assert _count_admitted(one, 1) == 1  # it has not heard of that, and learns it now
    servers.share(one)
    assert (_count_admitted(one, 5), _count_admitted(other, 5)) == (0, 0)


@pytest.mark.req("R-23")
def test_restarted_server_learns_what_was_admitted_before(servers: _Servers) -> None:
    """A server that starts again knows after its first round what it admitted before."""
    before = servers.start(per_minute=0, per_day=3)
    assert _count_admitted(before, 2) == 2
    servers.share(before)
    after = servers.start(per_minute=0, per_day=3)
    assert _count_admitted(after, 1) == 1
    servers.share(after)
    assert _refusal(after) == RateLimited("day", 3, 86_400)


@pytest.mark.req("R-23")
def test_requests_are_counted_while_the_database_is_away(servers: _Servers) -> None:
    """While the database is away requests are counted here, and what was counted is told when it is back."""
    server, other = servers.start(5), servers.start(5)
    assert _count_admitted(server, 2) == 2
    servers.database.refusals = 2
    servers.share(server, server)
    assert [type(seen) for seen in servers.seen] == [DatabaseTrouble, DatabaseTrouble]
    assert _count_admitted(server, 1) == 1
    servers.share(server)
    assert _count_admitted(other, 1) == 1
    servers.share(other)
    assert (_count_admitted(server, 5), _count_admitted(other, 5)) == (2, 1)


def test_day_quota_outlives_its_minutes(servers: _Servers) -> None:
    """A new minute has a new quota, and what the day has left goes on."""
    server = servers.start(2, 3)
    assert _count_admitted(server, 5) == 2
    servers.share(server)
    servers.now += 60_000
    assert _count_admitted(server, 5) == 1
    assert _refusal(server) == RateLimited("day", 3, 86_340)


def test_workspaces_with_past_windows_are_forgotten(servers: _Servers) -> None:
    """A workspace whose windows have turned is dropped by the next round."""
    server = servers.start(per_minute=3)
    for number in range(250):
        server.count(f"workspace-{number}")
    servers.share(server)
    assert server.workspaces == 250
    servers.now += 60_000
    servers.share(server)
    assert server.workspaces == 0


def test_server_without_quotas_counts_nothing(servers: _Servers) -> None:
    """With both limits at 0 nothing is refused, remembered or written."""
    server = servers.start(0, 0)
    assert _count_admitted(server, 1000) == 1000
    assert server.workspaces == 0
    servers.share(server)
    assert servers.forget(server) == 0


def test_old_windows_are_deleted_in_batches(servers: _Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that turned long ago are deleted batch by batch; an absent database delays that."""
    monkeypatch.setattr(rate_windows, "_FORGOTTEN_AT_ONCE", 4)
    server = servers.start(3, 3)
    for number in range(5):
        server.count(f"workspace-{number}")
    servers.share(server)
    assert servers.forget(server) == 0
    servers.now += 180_001
    servers.database.refusals = 1
    assert [servers.forget(server) for _ in range(4)] == [0, 4, 1, 0]
    assert servers.seen == [DatabaseTrouble("forget rate windows", "away")]
    servers.now += 3 * 86_400_000
    assert [servers.forget(server) for _ in range(3)] == [4, 1, 0]
