"""Which credentials cool down, and for whom: after failing runs in a row, until a probe has found them well."""

from typing import Final

import pytest

from fairlead.providers.health import CredentialRef, Health, Healths
from fairlead.providers.spec import Cooldown

HERE: Final[CredentialRef] = ("fake", "label")
RULES: Final = Cooldown(after=3, seconds=30)
ONE: Final = "one"
OTHER: Final = "other"
THIRD: Final = "third"


class HealthRecorder:
    """The health of places by a clock that only the test moves."""

    def __init__(self) -> None:
        """Begin well."""
        self.now = 1000.0
        self.told: list[tuple[Health, int, str]] = []
        self.healths = Healths(lambda _, *told: self.told.append(told), lambda: self.now)

    @property
    def changes(self) -> list[Health]:
        """The healths for all that were told of."""
        return [health for health, _, _ in self.told]

    def call(self, workspace_id: str = ONE, *, fails: bool, ref: CredentialRef = HERE) -> None:
        """Make a run of a workspace there."""
        self.healths.begins(ref, workspace_id, RULES)
        if fails:
            self.healths.note_failure(ref, workspace_id, RULES, "answered 503")
        else:
            self.healths.note_success(ref, workspace_id)

    def cool_down(self, workspace_id: str = ONE) -> None:
        """Fail until the credential cools down for a workspace."""
        for _ in range(RULES.after):
            self.call(workspace_id, fails=True)

    def may_call(self, workspace_id: str = ONE, ref: CredentialRef = HERE) -> bool:
        """Whether a run of a workspace may use it."""
        return self.healths.may_call(ref, workspace_id)


@pytest.fixture
def recorder() -> HealthRecorder:
    """Return places that are all well."""
    return HealthRecorder()


def test_cooldown_begins_after_enough_failures_in_a_row(recorder: HealthRecorder) -> None:
    """The cooldown begins after the configured number of failures in a row and lasts the configured time."""
    for _ in range(RULES.after - 1):
        recorder.call(fails=True)
    assert recorder.may_call()
    assert (recorder.healths.of(HERE), recorder.changes) == (Health.READY, [])
    recorder.call(fails=True)
    assert not recorder.may_call()
    assert (recorder.healths.of(HERE), recorder.changes) == (Health.COOLING_DOWN, [Health.COOLING_DOWN])
    assert recorder.healths.seconds_left(HERE) == 30


def test_healthy_answer_ends_the_count_of_failures(recorder: HealthRecorder) -> None:
    """An answer in good health ends the count."""
    for _ in range(5):
        recorder.call(fails=True)
        recorder.call(fails=True)
        recorder.call(fails=False)
    assert (recorder.healths.of(HERE), recorder.changes) == (Health.READY, [])


def test_other_credentials_and_partners_do_not_cool_down(recorder: HealthRecorder) -> None:
    """Another credential of the same partner, and another partner, go on."""
    recorder.cool_down()
    for ref in (("fake", "other"), ("other", "label")):
        assert recorder.may_call(ref=ref)
        assert recorder.healths.seconds_left(ref) == 0


def test_one_probe_ends_a_cooldown(recorder: HealthRecorder) -> None:
    """When the time is up exactly one call goes there; the others wait for what it brings."""
    recorder.cool_down()
    recorder.now += 29.9
    assert not recorder.may_call()
    recorder.now += 0.1
    assert recorder.may_call()
    recorder.healths.begins(HERE, ONE, RULES)
    assert (recorder.healths.of(HERE), recorder.changes[-1]) == (Health.PROBING, Health.PROBING)
    assert not recorder.may_call()


def test_answered_probe_opens_the_leg(recorder: HealthRecorder) -> None:
    """A probe that is answered frees the credential for everybody, with a count from zero."""
    recorder.cool_down()
    recorder.now += 30
    recorder.call(fails=False)
    assert recorder.changes == [Health.COOLING_DOWN, Health.PROBING, Health.READY]
    assert recorder.may_call()
    recorder.call(fails=True)
    assert recorder.may_call()


def test_failed_probe_starts_the_next_cooldown(recorder: HealthRecorder) -> None:
    """One failure after a cooldown is enough for the next."""
    recorder.cool_down()
    recorder.now += 30
    recorder.call(fails=True)
    assert recorder.changes == [Health.COOLING_DOWN, Health.PROBING, Health.COOLING_DOWN]
    assert (recorder.may_call(), recorder.healths.seconds_left(HERE)) == (False, 30)


def test_lost_probe_is_given_up(recorder: HealthRecorder) -> None:
    """A probe that never reports back is given up after another cooldown, and the next call is one."""
    recorder.cool_down()
    recorder.now += 30
    recorder.healths.begins(HERE, ONE, RULES)
    recorder.now += 29.9
    assert not recorder.may_call()
    recorder.now += 0.1
    assert recorder.may_call()
    recorder.call(fails=False)
    assert recorder.healths.of(HERE) is Health.READY


def test_late_healthy_answer_ends_a_cooldown(recorder: HealthRecorder) -> None:
    """A call that began before the cooldown and is answered in good health ends it."""
    recorder.healths.begins(HERE, ONE, RULES)
    recorder.cool_down()
    recorder.healths.note_success(HERE, ONE)
    assert recorder.may_call()
    assert recorder.changes == [Health.COOLING_DOWN, Health.READY]


def test_only_legs_with_failures_are_remembered(recorder: HealthRecorder) -> None:
    """Only places with failures take memory, and those lose it when they are well."""
    for number in range(100):
        recorder.call(fails=False, ref=("fake", str(number)))
    recorder.call(fails=True)
    recorder.call(fails=False)
    assert recorder.healths.failing == {}


@pytest.mark.req("T-02")
def test_failing_runs_of_one_workspace_keep_no_other_away(recorder: HealthRecorder) -> None:
    """A workspace whose runs fail keeps only itself away from a partner that answers another."""
    recorder.call(OTHER, fails=False)
    recorder.cool_down(ONE)
    assert (recorder.may_call(ONE), recorder.may_call(OTHER), recorder.may_call(THIRD)) == (False, True, True)
    assert recorder.healths.of(HERE) is Health.READY
    assert recorder.told == [(Health.READY, 1, "answered 503")]
    recorder.healths.begins(HERE, THIRD, RULES)
    assert recorder.may_call(THIRD)  # not a probe: nothing says that it would fail


def test_two_workspaces_within_a_minute_speak_for_all(recorder: HealthRecorder) -> None:
    """What fails for two workspaces is presumed to fail for all, unless the two were more than a minute apart."""
    recorder.call(OTHER, fails=False)
    recorder.call(THIRD, fails=False)
    recorder.cool_down(ONE)
    recorder.now += 61
    recorder.call(THIRD, fails=False)
    recorder.cool_down(OTHER)
    assert recorder.healths.of(HERE) is Health.READY
    recorder.now += 1
    recorder.call(ONE, fails=True)
    assert recorder.healths.of(HERE) is Health.COOLING_DOWN
    assert recorder.told[-1] == (Health.COOLING_DOWN, 2, "answered 503")


@pytest.mark.req("T-02")
def test_presumption_ends_with_a_workspaces_own_result(recorder: HealthRecorder) -> None:
    """In a cooldown for all, a workspace that was just answered goes on; another tries with one run at a time."""
    recorder.call(OTHER, fails=False)
    recorder.cool_down("a")
    recorder.cool_down("b")
    assert recorder.healths.of(HERE) is Health.COOLING_DOWN
    recorder.healths.begins(HERE, OTHER, RULES)
    assert recorder.may_call(OTHER)
    recorder.healths.begins(HERE, THIRD, RULES)
    assert not recorder.may_call(THIRD)
    recorder.healths.note_success(HERE, THIRD)
    assert recorder.healths.of(HERE) is Health.READY
    assert [recorder.may_call(one) for one in (THIRD, "new", "a", "b")] == [True, True, False, False]


def test_probe_of_a_presumption_fails_at_once(recorder: HealthRecorder) -> None:
    """A workspace whose probe fails in a cooldown for all is kept away from then on, without five runs of its own."""
    recorder.cool_down(ONE)
    recorder.call(OTHER, fails=True)
    assert not recorder.may_call(OTHER)
    assert [one.workspace_id for one in recorder.healths.cooling(HERE)] == [ONE, OTHER]


def test_end_of_a_cooldown_is_for_every_workspace(recorder: HealthRecorder) -> None:
    """An operator ends the cooldowns of a credential for all, and is told whether there were any."""
    recorder.call(OTHER, fails=False)
    recorder.cool_down(ONE)
    assert recorder.healths.end_cooldown(HERE)
    assert recorder.may_call(ONE)
    assert not recorder.healths.end_cooldown(HERE)
