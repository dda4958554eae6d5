"""After a failed attempt: may the same partner be asked again, may another (R-14)? One pure table.

Never where the partner may have taken the work: then it would be done, and paid, twice. Never for what the caller did:
another partner would refuse it too, and a content refusal must not be shopped around.
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
from fairlead.domain.runs.outcomes import Failed, Reached

_PASSING: Final = frozenset({425, 429, 500, 502, 503})
"""What a partner's status says when the same call may well succeed a moment later."""
_OF_A_CREDENTIAL: Final = frozenset({401, 402, 403, 429})
_CERTAIN: Final = frozenset({Reached.NOTHING, Reached.REFUSED})


def may_go_elsewhere(failed: Failed) -> bool:
    """Whether a failure lies with the router or the partner, and the work has certainly not been taken."""
    if failed.reached not in _CERTAIN:
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


def may_be_waited_for(failed: Failed) -> bool:
    """Whether a partner that honours idempotency keys, and may have an order already, may tell of it yet."""
    if failed.reached is Reached.NOTHING and isinstance(failed.fault, ServiceUnavailable):
        return failed.fault.retry_after is not None  # it rests; without a credential there is nothing to wait for
    return may_go_again(failed, repeats_safely=True)


def is_about_the_form(failed: Failed) -> bool:
    """Whether a partner found fault with a body it certainly did not work on.

    Of a leg that was fallen back on this says nothing to the caller: the body in that partner's words was ours.
    """
    return failed.reached in _CERTAIN and isinstance(failed.fault, InvalidInput | InputRejected)


def is_about_the_credential(failed: Failed) -> bool:
    """Whether a partner refused a call for whom it was shown: not known, not paid, not allowed, or asked too often."""
    return failed.reached is Reached.REFUSED and failed.upstream_status in _OF_A_CREDENTIAL and may_go_elsewhere(failed)


def tells_of_the_partner(failed: Failed) -> bool:
    """Whether a failure says that the partner itself is unwell, which counts towards its rest."""
    if failed.reached in (Reached.ACCEPTED, Reached.UNDECIDED):
        return False
    return isinstance(failed.fault, ProviderError | ProviderTimeout | ServiceUnavailable)
