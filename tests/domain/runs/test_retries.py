"""Whether a failed attempt may be made again, here or elsewhere: the whole table."""

from typing import Final

import pytest

from cases import for_each
from domain.every_fault import EVERY, name_of
from fairlead.domain.faults import (
    Fault,
    InputRejected,
    InternalError,
    InvalidInput,
    ProviderError,
    ProviderTimeout,
    ServiceUnavailable,
)
from fairlead.domain.runs.outcomes import Failed, Reached
from fairlead.domain.runs.retries import is_about_the_form, may_go_again, may_go_elsewhere, tells_of_the_partner

_BROKEN, _LATE, _BUSY, _OURS = ProviderError(), ProviderTimeout(), ServiceUnavailable("full", 1), InternalError()
_TABLE: Final[dict[tuple[Fault, int | None], tuple[str, str, str, str, str, str]]] = {
    # e: another partner may; a: the same may again; s: the same may where it repeats safely; t: tells of the partner
    #                    NOTHING REFUSED UNKNOWN ACCEPTED UNBILLED UNDECIDED
    (_BROKEN, None): ("east", "et", "st", "", "e", ""),
    (_BROKEN, 400): ("east", "et", "t", "", "e", ""),
    (_BROKEN, 401): ("east", "et", "t", "", "e", ""),
    (_BROKEN, 425): ("east", "east", "t", "", "e", ""),
    (_BROKEN, 429): ("east", "east", "t", "", "e", ""),
    (_BROKEN, 500): ("east", "east", "t", "", "e", ""),
    (_BROKEN, 501): ("east", "et", "t", "", "e", ""),
    (_BROKEN, 502): ("east", "east", "t", "", "e", ""),
    (_BROKEN, 503): ("east", "east", "t", "", "e", ""),
    (_BROKEN, 504): ("east", "et", "t", "", "e", ""),
    (_LATE, None): ("et", "et", "t", "", "e", ""),
    (_LATE, 408): ("et", "et", "t", "", "e", ""),
    (_LATE, 504): ("et", "et", "t", "", "e", ""),
    (_BUSY, None): ("et", "et", "t", "", "e", ""),
    (_BUSY, 429): ("et", "east", "t", "", "e", ""),
    (_BUSY, 503): ("et", "east", "t", "", "e", ""),
    (_OURS, None): ("e", "e", "", "", "e", ""),
    (_OURS, 500): ("e", "eas", "", "", "e", ""),
}
_PARTNERS_OR_OURS: Final = (ProviderError, ProviderTimeout, ServiceUnavailable, InternalError)
_ROWS = [
    pytest.param(fault, status, reached, said, id=f"{name_of(fault)}-{status}-{reached.name}")
    for (fault, status), row in _TABLE.items()
    for reached, said in zip(Reached, row, strict=True)
]


def letters_of(failed: Failed) -> str:
    """Return the letters of the table that hold for a failed attempt."""
    held = {
        "e": may_go_elsewhere(failed),
        "a": may_go_again(failed, repeats_safely=False),
        "s": may_go_again(failed, repeats_safely=True),
        "t": tells_of_the_partner(failed),
    }
    return "".join(letter for letter, holds in held.items() if holds)


@pytest.mark.req("R-14")
@for_each(("fault", "status", "reached", "said"), _ROWS)
def test_attempt_is_made_again_only_where_no_work_was_taken(
    fault: Fault, status: int | None, reached: Reached, said: str
) -> None:
    """What lies with a partner or with us may be tried again, as long as the work has certainly not been taken."""
    assert letters_of(Failed(fault, status, reached)) == said


@pytest.mark.req("R-14")
@for_each("status", [None, 200, 400, 429, 500, 503])
@for_each("reached", Reached)
@for_each("fault", [one for one in EVERY if not isinstance(one, _PARTNERS_OR_OURS)], ids=name_of)
def test_refusal_is_never_taken_to_another_provider(fault: Fault, reached: Reached, status: int | None) -> None:
    """What the caller did is never asked of anybody again, and tells nothing of the partner, whatever its status."""
    assert letters_of(Failed(fault, status, reached)) == ""


@pytest.mark.req("R-14", "R-29")
@for_each("fault", EVERY, ids=name_of)
def test_accepted_work_is_never_asked_for_twice(fault: Fault) -> None:
    """Whatever fails after a partner took the work, nobody is asked again: it could be done, and paid, twice."""
    for status in (None, 429, 500, 503):
        assert letters_of(Failed(fault, status, Reached.ACCEPTED)) == ""


@pytest.mark.req("R-14")
@for_each("reached", Reached)
@for_each("fault", EVERY, ids=name_of)
def test_only_a_certain_rejection_is_about_the_form(fault: Fault, reached: Reached) -> None:
    """Only a rejected body, by a partner that certainly did nothing with it, is a matter of the form it was sent in."""
    is_certain = reached in (Reached.NOTHING, Reached.REFUSED)
    is_rejection = isinstance(fault, InvalidInput | InputRejected)
    assert is_about_the_form(Failed(fault, 422, reached)) is (is_certain and is_rejection)
