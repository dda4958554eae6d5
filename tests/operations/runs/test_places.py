"""Places for runs: when a server is under pressure, who is refused then, and when that ends."""

import asyncio
from typing import Final

import pytest

from conftest import Run
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.fair_shares import FairShares
from fairlead.operations.runs.places import RunPlaces

_WAIT: Final = 0.05
_ADMISSIONS: Final = 32
_PRESSED: Final = 16
"""How many are admitted at a time under pressure."""


class _Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class _Server:
    """The places of a server, whose runs come and go as a test says."""

    def __init__(self, admissions: int = _ADMISSIONS) -> None:
        self.clock = _Clock()
        self.places = RunPlaces(100, admissions, _WAIT, self.clock)
        self._waiting: list[asyncio.Task[None]] = []

    def admit(self, workspace_id: str, count: int) -> None:
        """Have runs of a workspace take the places that are free."""
        for _ in range(count):
            assert self.places.admissions.try_take(workspace_id)

    async def wait(self, workspace_id: str, count: int) -> None:
        """Have more of them wait; until the end of the test, unless they are given places."""
        take = self.places.admissions.take
        self._waiting += [asyncio.create_task(take(workspace_id)) for _ in range(count)]
        await asyncio.sleep(0)

    async def press(self, workspace_id: str) -> None:
        """Have a run of a workspace wait in vain, so that the server is under pressure."""
        assert await is_refused(self.places, self.places.admissions, workspace_id)
        assert self.places.is_pressed

    def drain_to_pressed(self, workspace_id: str) -> None:
        """Let runs end until as many are admitted as may be under pressure."""
        for _ in range(_ADMISSIONS - _PRESSED):
            self.places.admissions.give_back(workspace_id)

    async def close(self) -> None:
        """Have nobody wait any more."""
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)


async def is_refused(places: RunPlaces, kind: FairShares, workspace_id: str) -> bool:
    """Wait for a place, and give it back where there was one; whether there was none."""
    try:
        await places.wait(kind, workspace_id)
    except FaultError as error:
        return error.fault is places.refusal
    kind.give_back(workspace_id)
    return False


@pytest.mark.req("R-39")
def test_refusal_says_when_to_try_again() -> None:
    """It is a matter of capacity, so `Retry-After` is a whole number of seconds, one at least."""
    for wait, told in ((0.05, 1), (5.0, 5), (5.2, 6)):
        fault = RunPlaces(1, 1, wait).refusal
        assert isinstance(fault, ServiceUnavailable)
        assert fault.retry_after == told


def test_nobody_is_refused_at_once_without_pressure(run: Run) -> None:
    """Thousands may wait where nobody has waited in vain yet: a burst is worked off."""

    async def scenario() -> None:
        server = _Server()
        server.admit("a", _ADMISSIONS)
        await server.wait("a", 3000)
        assert not server.places.is_pressed
        assert not server.places.refuses("a")
        await server.close()
        assert server.places.waiting == server.places.refused == 0

    run(scenario())


def test_wait_in_vain_begins_the_pressure_and_admits_fewer_at_a_time(run: Run) -> None:
    """From then on a run gets a place when fewer than half the usual number are admitted."""

    async def scenario() -> None:
        server = _Server()
        server.admit("a", _ADMISSIONS)
        await server.press("a")
        assert server.places.refused == 1
        server.drain_to_pressed("a")
        assert not server.places.admissions.try_take("b")
        server.places.admissions.give_back("a")
        assert server.places.admissions.try_take("b")

    run(scenario())


def test_workspace_with_its_share_is_refused_at_once_and_others_wait(run: Run) -> None:
    """Of two workspaces each may have half of the places, with what it waits for; the flood of one is its own."""

    async def scenario() -> None:
        server = _Server()
        server.admit("flood", _ADMISSIONS)
        await server.press("flood")
        server.drain_to_pressed("flood")
        await server.wait("flood", 4)
        assert server.places.refuses("flood")
        for _ in range(_PRESSED // 2):
            assert not server.places.refuses("calm")
            await server.wait("calm", 1)
        assert server.places.refuses("calm")
        for _ in range(_PRESSED // 2):
            server.places.admissions.give_back("flood")
        assert server.places.admissions.count_held("calm") == _PRESSED // 2
        await server.close()

    run(scenario())


def test_place_that_is_nearly_free_is_waited_for_under_pressure(run: Run) -> None:
    """While next to nobody waits, nobody is refused at once, whatever its share."""

    async def scenario() -> None:
        server = _Server()
        server.admit("a", _ADMISSIONS)
        await server.press("a")
        await server.wait("a", 1)
        assert not server.places.refuses("a")
        await server.wait("a", 1)
        assert server.places.refuses("a")
        await server.close()

    run(scenario())


def test_workspace_has_one_run_where_many_wait(run: Run) -> None:
    """However many others there are or have been waiting since before, one that has none is not refused at once."""

    async def scenario() -> None:
        server = _Server()
        server.admit("flood", _ADMISSIONS)
        await server.wait("flood", 2 * _ADMISSIONS)
        await server.press("flood")
        assert server.places.refuses("flood")
        assert not server.places.refuses("new")
        await server.wait("new", 1)
        assert server.places.refuses("new")
        server.drain_to_pressed("flood")
        server.places.admissions.give_back("flood")
        assert server.places.admissions.count_held("new") == 1
        await server.close()

    run(scenario())


def test_pressure_lasts_until_nobody_was_refused_for_a_while(run: Run) -> None:
    """A moment without a wait does not end it, each refusal renews it, and in the end all places are there again."""

    async def scenario() -> None:
        server = _Server()
        server.admit("a", _ADMISSIONS)
        await server.press("a")
        server.clock.now += _WAIT * 0.9
        assert not server.places.refuses("a")  # nobody waits
        await server.wait("a", 4)
        assert server.places.refuses("a")
        await server.close()
        pressed = []
        for passed in (0.9, 0.2):
            server.clock.now += _WAIT * passed
            pressed.append(server.places.is_pressed)
        assert pressed == [True, False]
        assert not server.places.refuses("a")
        for _ in range(_ADMISSIONS):
            server.places.admissions.give_back("a")
        server.admit("b", _ADMISSIONS)

    run(scenario())


def test_full_places_in_progress_are_no_pressure(run: Run) -> None:
    """Runs that wait for their partners cost no processor: a workspace with many of them slows nobody down."""

    async def scenario() -> None:
        places = RunPlaces(4, _ADMISSIONS, _WAIT)
        for _ in range(3):
            assert places.in_progress.try_take("a")
        assert not places.in_progress.try_take("a")
        assert await is_refused(places, places.in_progress, "a")
        assert not places.is_pressed
        assert places.in_progress.try_take("b")

    run(scenario())


def test_cancelled_wait_leaves_no_place_taken(run: Run) -> None:
    """Neither one that still waits nor one that was just given a place, nor all of them at once as a server stops."""

    async def scenario() -> None:
        places = RunPlaces(1, 1, 60.0)

        async def hold() -> None:
            if not places.admissions.try_take("a"):
                await places.wait(places.admissions, "a")
            try:
                await asyncio.Event().wait()
            finally:
                places.admissions.give_back("a")

        tasks = [asyncio.create_task(hold()) for _ in range(5)]
        await asyncio.sleep(0)
        for task in (tasks[2], tasks[0]):  # one that waits, and with it the one whose place it might get
            task.cancel()
        await asyncio.sleep(0)
        tasks[1].cancel()  # it was given the place, and has not noticed
        for _ in range(5):
            await asyncio.sleep(0)
        assert (places.admissions.in_use, places.waiting) == (1, 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (places.admissions.in_use, places.waiting, places.refused) == (0, 0, 0)

    run(scenario())
