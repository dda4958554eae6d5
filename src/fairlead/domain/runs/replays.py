"""What an idempotency key may replay (R-18), for how long, and how a fault is stored for it."""

import hashlib
from typing import Final, get_args

import msgspec

from fairlead.domain.faults import (
    ContentPolicyViolation,
    Fault,
    InputRejected,
    InternalError,
    InvalidInput,
    ProviderError,
    ProviderTimeout,
)
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome, Reached

KEY_MAX: Final = 255
_VALUES_SEEN_MAX: Final = 10_000
_KINDS: Final[dict[str, object]] = {kind.__name__: kind for kind in get_args(Fault)}


def key_id(workspace_id: str, key: str) -> str:
    """The stored form of a caller's key: a digest, which differs between workspaces."""
    return hashlib.sha256(f"{workspace_id}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint(method: str, path: bytes, query: bytes, content: bytes) -> str:
    """The digest of what makes two calls the same: method, path, query and the body's bytes."""
    digest = hashlib.sha256()
    # Lengths in front of the parts, so that no other parts give the same bytes in a row.
    for part in (method.encode(), path, query):
        digest.update(b"%d:" % len(part) + part)
    digest.update(content)
    return digest.hexdigest()


def is_recorded(outcome: Outcome) -> bool:
    """Whether a key stores how a run ended, rather than being free for another attempt.

    Stored is the end of any call that a partner answered or may have worked on; a key is free again if its call never
    reached a partner, or the partner had no room. Undecided work keeps its key without a result: the next call with the
    key asks about it again.
    """
    if isinstance(outcome, Completed) or outcome.reached in (Reached.UNKNOWN, Reached.ACCEPTED, Reached.UNBILLED):
        return True
    return outcome.reached is Reached.REFUSED and _is_of_the_partner(outcome)


def _is_of_the_partner(failed: Failed) -> bool:
    fault: Fault = failed.fault
    if isinstance(fault, ProviderError | ProviderTimeout | InternalError):
        return True
    return isinstance(fault, InvalidInput | InputRejected | ContentPolicyViolation)


def names_links(answer: object, ours: str | None) -> bool:
    """Whether a result names links other than ours (which begin with `ours`): those expire when their owner decides.

    A result with too many values to search counts as one that does.
    """
    waiting, seen = [answer], 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > _VALUES_SEEN_MAX or (isinstance(value, str) and _is_foreign_link(value, ours)):
            return True
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False


def _is_foreign_link(text: str, ours: str | None) -> bool:
    return text[:8].lower().startswith(("http://", "https://")) and not (ours and text.startswith(ours))


def write_fault(fault: Fault) -> bytes:
    """A fault as JSON."""
    return msgspec.json.encode([type(fault).__name__, fault])


def read_fault(text: bytes) -> Fault:
    """The fault that was written; InternalError for one this version does not know."""
    try:
        name, said = msgspec.json.decode(text)
        fault: Fault = msgspec.convert(said, _KINDS[name])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return InternalError()
    return fault
