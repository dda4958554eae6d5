"""Which places rest: after some failures in a row, until one call has found them well."""

from typing import Final

import pytest

from fairlead.providers.health import Health, Healths, Place
from fairlead.providers.spec import Cooldown

HERE: Final[Place] = ("fake", "label")
RULES: Final = Cooldown(after=3, seconds=30)


class Desk:
    """The health of places by a clock that only the test moves."""

    def __init__(self) -> None:
        """Begin well."""
        self.now = 1000.0
        self.told: list[Health] = []
        self.healths = Healths(lambda _, health: self.told.append(health), lambda: self.now)

    def call(self, *, fails: bool, place: Place = HERE) -> None:
        """Make a call there."""
        self.healths.begins(place, RULES)
        if fails:
            self.healths.failed(place, RULES)
        else:
            self.healths.succeeded(place)

    def rest(self) -> None:
        """Fail until the place rests."""
        for _ in range(RULES.after):
            self.call(fails=True)


@pytest.fixture
def desk() -> Desk:
    """Return places that are all well."""
    return Desk()


def test_cooldown_begins_after_enough_failures_in_a_row(desk: Desk) -> None:
    """Not before so many failures in a row, and then for so long."""
    for _ in range(RULES.after - 1):
        desk.call(fails=True)
    assert desk.healths.may_call(HERE)
    assert (desk.healths.of(HERE), desk.told) == (Health.WELL, [])
    desk.call(fails=True)
    assert not desk.healths.may_call(HERE)
    assert (desk.healths.of(HERE), desk.told) == (Health.RESTING, [Health.RESTING])
    assert desk.healths.seconds_left(HERE) == 30


def test_healthy_answer_ends_the_count_of_failures(desk: Desk) -> None:
    """An answer in good health ends the count."""
    for _ in range(5):
        desk.call(fails=True)
        desk.call(fails=True)
        desk.call(fails=False)
    assert (desk.healths.of(HERE), desk.told) == (Health.WELL, [])


def test_other_credentials_and_partners_do_not_cool_down(desk: Desk) -> None:
    """Another credential of the same partner, and another partner, go on."""
    desk.rest()
    for place in (("fake", "other"), ("other", "label")):
        assert desk.healths.may_call(place)
        assert desk.healths.seconds_left(place) == 0


def test_one_probe_ends_a_cooldown(desk: Desk) -> None:
    """When the time is up exactly one call goes there; the others wait for what it brings."""
    desk.rest()
    desk.now += 29.9
    assert not desk.healths.may_call(HERE)
    desk.now += 0.1
    assert desk.healths.may_call(HERE)
    desk.healths.begins(HERE, RULES)
    assert (desk.healths.of(HERE), desk.told[-1]) == (Health.TRIED, Health.TRIED)
    assert not desk.healths.may_call(HERE)


def test_answered_probe_opens_the_leg(desk: Desk) -> None:
    """A probe that is answered opens the place for everybody, with a count from zero."""
    desk.rest()
    desk.now += 30
    desk.call(fails=False)
    assert desk.told == [Health.RESTING, Health.TRIED, Health.WELL]
    assert desk.healths.may_call(HERE)
    desk.call(fails=True)
    assert desk.healths.may_call(HERE)


def test_failed_probe_starts_the_next_cooldown(desk: Desk) -> None:
    """One failure after a rest is enough for the next rest."""
    desk.rest()
    desk.now += 30
    desk.call(fails=True)
    assert desk.told == [Health.RESTING, Health.TRIED, Health.RESTING]
    assert (desk.healths.may_call(HERE), desk.healths.seconds_left(HERE)) == (False, 30)


def test_lost_probe_is_given_up(desk: Desk) -> None:
    """A probe that never reports back is given up after another rest, and the next call is one."""
    desk.rest()
    desk.now += 30
    desk.healths.begins(HERE, RULES)
    desk.now += 29.9
    assert not desk.healths.may_call(HERE)
    desk.now += 0.1
    assert desk.healths.may_call(HERE)
    desk.call(fails=False)
    assert desk.healths.of(HERE) is Health.WELL


def test_late_healthy_answer_ends_a_cooldown(desk: Desk) -> None:
    """A call that began before the rest and is answered in good health ends it."""
    desk.healths.begins(HERE, RULES)
    desk.rest()
    desk.healths.succeeded(HERE)
    assert desk.healths.may_call(HERE)
    assert desk.told == [Health.RESTING, Health.WELL]


def test_only_legs_with_failures_are_remembered(desk: Desk) -> None:
    """Only places with failures take memory, and those lose it when they are well."""
    for number in range(100):
        desk.call(fails=False, place=("fake", str(number)))
    desk.call(fails=True)
    desk.call(fails=False)
    assert desk.healths._records == {}
