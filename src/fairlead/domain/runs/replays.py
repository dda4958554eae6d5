"""What an idempotency key may tell again (R-18), for how long, and how a fault is kept for it."""

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
    """What a caller's key is kept as: a digest, one of its own for every workspace."""
    return hashlib.sha256(f"{workspace_id}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint(method: str, path: bytes, query: bytes, content: bytes) -> str:
    """What makes two calls the same call: method, path, query and the body's bytes."""
    digest = hashlib.sha256()
    for part in (method.encode(), path, query):
        digest.update(b"%d:" % len(part) + part)
    digest.update(content)
    return digest.hexdigest()


def is_recorded(outcome: Outcome) -> bool:
    """Whether a key keeps how a run ended, rather than being free for another try.

    Kept is whatever a partner answered or may have worked on; free again is a key whose call never reached one, and
    one that the partner had no room for. Undecided work keeps its key and has nothing to be kept yet: the next call
    with the key asks about it again.
    """
    if isinstance(outcome, Completed) or outcome.reached in (Reached.UNKNOWN, Reached.ACCEPTED):
        return True
    return outcome.reached is Reached.REFUSED and _is_of_the_partner(outcome)


def _is_of_the_partner(failed: Failed) -> bool:
    fault: Fault = failed.fault
    if isinstance(fault, ProviderError | ProviderTimeout | InternalError):
        return True
    return isinstance(fault, InvalidInput | InputRejected | ContentPolicyViolation)


def names_links(answer: object, ours: str | None) -> bool:
    """Whether a result names links that are not ours (`ours` begins those): they die when their owner says so.

    A result of more values than are looked at is taken to name one.
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
