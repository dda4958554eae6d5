"""Whether the same partner, or another, may be asked after a failed attempt (R-14): one pure table.

Never where the partner may have taken the work, because it would be done, and paid, twice; but another partner is asked
after work that has certainly ended, without a result and without a bill. Never for a caller's
mistake: another partner would refuse it too, and a refusal of content must not be taken to the next partner.
"""

from typing import Final

from fairlead.domain.faults import (
    InputRejected,
    InternalError,
    InvalidInput,
    ProviderError,
    ProviderTimeout,
    ServiceUnavailable,
)
from fairlead.domain.runs.outcomes import TAKEN, Failed, Reached

_PASSING: Final = frozenset({425, 429, 500, 502, 503})
"""The statuses of a partner after which the same call may succeed a moment later."""
_OF_A_CREDENTIAL: Final = frozenset({401, 402, 403, 429})
_CERTAIN: Final = frozenset({Reached.NOTHING, Reached.REFUSED})
_UNPAID: Final = _CERTAIN | {Reached.UNBILLED}


def may_go_elsewhere(failed: Failed) -> bool:
    """Whether a failure is the router's or the partner's, and the work was certainly not taken, or ended unbilled."""
    if failed.reached not in _UNPAID:
        return False
    return isinstance(failed.fault, ProviderError | ProviderTimeout | ServiceUnavailable | InternalError)


def may_go_again(failed: Failed, *, repeats_safely: bool) -> bool:
    """Whether the same call may be sent to the same partner again.

    A partner that honours idempotency keys may be asked again even where it may have taken the work.
    """
    if failed.reached is Reached.NOTHING:
        return isinstance(failed.fault, ProviderError)
    if failed.reached is Reached.UNKNOWN and repeats_safely:
        return failed.upstream_status is None and isinstance(failed.fault, ProviderError)
    return failed.reached is Reached.REFUSED and failed.upstream_status in _PASSING and may_go_elsewhere(failed)


def may_be_waited_for(failed: Failed, *, repeats_safely: bool) -> bool:
    """Whether a partner may take the same call later: it may be sent again then, or the partner cools down now.

    A queued run waits for its partner where it has certainly not been taken (T-01), a run that was taken over also
    where its partner may have it and honours idempotency keys.
    """
    if is_cooling(failed):
        return True
    return may_go_again(failed, repeats_safely=repeats_safely)


def is_cooling(failed: Failed) -> bool:
    """Whether a partner was not called, because its credentials cool down; without any there is nothing to wait for."""
    if failed.reached is not Reached.NOTHING or not isinstance(failed.fault, ServiceUnavailable):
        return False
    return failed.fault.retry_after is not None


def is_about_the_form(failed: Failed) -> bool:
    """Whether a partner rejected a body that it certainly did not work on.

    After a fallback this is not the caller's fault: the body in that partner's form was ours.
    """
    return failed.reached in _CERTAIN and isinstance(failed.fault, InvalidInput | InputRejected)


def is_about_the_credential(failed: Failed) -> bool:
    """Whether a partner refused a call because of its credential: unknown, unpaid, not allowed, or used too often."""
    return failed.reached is Reached.REFUSED and failed.upstream_status in _OF_A_CREDENTIAL and may_go_elsewhere(failed)


def tells_of_the_partner(failed: Failed) -> bool:
    """Whether a failure says that the partner itself has a problem, which counts towards its cooldown."""
    if failed.reached in TAKEN:
        return False
    return isinstance(failed.fault, ProviderError | ProviderTimeout | ServiceUnavailable)
