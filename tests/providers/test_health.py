"""Which credentials cool down: after some failures in a row, until a probe has found them well."""

from typing import Final

import pytest

from fairlead.providers.health import CredentialRef, Health, Healths
from fairlead.providers.spec import Cooldown

HERE: Final[CredentialRef] = ("fake", "label")
RULES: Final = Cooldown(after=3, seconds=30)


class HealthRecorder:
    """The health of places by a clock that only the test moves."""

    def __init__(self) -> None:
        """Begin well."""
        self.now = 1000.0
        self.told: list[Health] = []
        self.healths = Healths(lambda _, health: self.told.append(health), lambda: self.now)

    def call(self, *, fails: bool, ref: CredentialRef = HERE) -> None:
        """Make a call there."""
        self.healths.begins(ref, RULES)
        if fails:
            self.healths.note_failure(ref, RULES)
        else:
            self.healths.note_success(ref)

    def cool_down(self) -> None:
        """Fail until the credential cools down."""
        for _ in range(RULES.after):
            self.call(fails=True)


@pytest.fixture
def recorder() -> HealthRecorder:
    """Return places that are all well."""
    return HealthRecorder()


def test_cooldown_begins_after_enough_failures_in_a_row(recorder: HealthRecorder) -> None:
    """The cooldown begins after the configured number of failures in a row and lasts the configured time."""
    for _ in range(RULES.after - 1):
        recorder.call(fails=True)
    assert recorder.healths.may_call(HERE)
    assert (recorder.healths.of(HERE), recorder.told) == (Health.READY, [])
    recorder.call(fails=True)
    assert not recorder.healths.may_call(HERE)
    assert (recorder.healths.of(HERE), recorder.told) == (Health.COOLING_DOWN, [Health.COOLING_DOWN])
    assert recorder.healths.seconds_left(HERE) == 30


def test_healthy_answer_ends_the_count_of_failures(recorder: HealthRecorder) -> None:
    """An answer in good health ends the count."""
    for _ in range(5):
        recorder.call(fails=True)
        recorder.call(fails=True)
        recorder.call(fails=False)
    assert (recorder.healths.of(HERE), recorder.told) == (Health.READY, [])


def test_other_credentials_and_partners_do_not_cool_down(recorder: HealthRecorder) -> None:
    """Another credential of the same partner, and another partner, go on."""
    recorder.cool_down()
    for ref in (("fake", "other"), ("other", "label")):
        assert recorder.healths.may_call(ref)
        assert recorder.healths.seconds_left(ref) == 0


def test_one_probe_ends_a_cooldown(recorder: HealthRecorder) -> None:
    """When the time is up exactly one call goes there; the others wait for what it brings."""
    recorder.cool_down()
    recorder.now += 29.9
    assert not recorder.healths.may_call(HERE)
    recorder.now += 0.1
    assert recorder.healths.may_call(HERE)
    recorder.healths.begins(HERE, RULES)
    assert (recorder.healths.of(HERE), recorder.told[-1]) == (Health.PROBING, Health.PROBING)
    assert not recorder.healths.may_call(HERE)


def test_answered_probe_opens_the_leg(recorder: HealthRecorder) -> None:
    """A probe that is answered frees the credential for everybody, with a count from zero."""
    recorder.cool_down()
    recorder.now += 30
    recorder.call(fails=False)
    assert recorder.told == [Health.COOLING_DOWN, Health.PROBING, Health.READY]
    assert recorder.healths.may_call(HERE)
    recorder.call(fails=True)
    assert recorder.healths.may_call(HERE)


def test_failed_probe_starts_the_next_cooldown(recorder: HealthRecorder) -> None:
    """One failure after a cooldown is enough for the next."""
    recorder.cool_down()
    recorder.now += 30
    recorder.call(fails=True)
    assert recorder.told == [Health.COOLING_DOWN, Health.PROBING, Health.COOLING_DOWN]
    assert (recorder.healths.may_call(HERE), recorder.healths.seconds_left(HERE)) == (False, 30)


def test_lost_probe_is_given_up(recorder: HealthRecorder) -> None:
    """A probe that never reports back is given up after another cooldown, and the next call is one."""
    recorder.cool_down()
    recorder.now += 30
    recorder.healths.begins(HERE, RULES)
    recorder.now += 29.9
    assert not recorder.healths.may_call(HERE)
    recorder.now += 0.1
    assert recorder.healths.may_call(HERE)
    recorder.call(fails=False)
    assert recorder.healths.of(HERE) is Health.READY


def test_late_healthy_answer_ends_a_cooldown(recorder: HealthRecorder) -> None:
    """A call that began before the cooldown and is answered in good health ends it."""
    recorder.healths.begins(HERE, RULES)
    recorder.cool_down()
    recorder.healths.note_success(HERE)
    assert recorder.healths.may_call(HERE)
    assert recorder.told == [Health.COOLING_DOWN, Health.READY]


def test_only_legs_with_failures_are_remembered(recorder: HealthRecorder) -> None:
    """Only places with failures take memory, and those lose it when they are well."""
    for number in range(100):
        recorder.call(fails=False, ref=("fake", str(number)))
    recorder.call(fails=True)
    recorder.call(fails=False)
    assert recorder.healths.failing == {}
