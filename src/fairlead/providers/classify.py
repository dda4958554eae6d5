"""Reading a partner's answer: pure, total, and the same for every partner.

The signs of the provider file are looked for first, in their order; what no sign claims is read by its HTTP status.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from fairlead.domain.conditions import all_hold, text_of
from fairlead.domain.faults import (
    Cancelled,
    ContentPolicyViolation,
    Fault,
    InputRejected,
    InvalidInput,
    ProviderError,
    ProviderTimeout,
    ServiceUnavailable,
    Upstream,
    Violation,
)
from fairlead.domain.pointers import MISSING, Pointer, find, find_all, first
from fairlead.domain.runs.outcomes import Completed, Failed, Reached
from fairlead.http_client.outcomes import SUCCESS
from fairlead.providers.answers import ReadReply
from fairlead.providers.spec import Call, Meaning, Polling, Protocol, Provider, Sign

REASON_MAX: Final = 300
HANDLE_MAX: Final = 2048
_JSON: Final = "application/json"
"""The content type of every result in JSON: released clients ask for it to the letter."""
_RETRY_AFTER_MAX: Final = 3600
_OUT_OF_TIME: Final = frozenset({408, 504, 524})
_UNREADABLE: Final = "The provider's answer could not be read as a result."


Handle: TypeAlias = Mapping[str, str]
"""The parts by which a partner names work it has taken; most have one, called `handle`."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The partner took the work and named it; `credential` is the label of ours that it was shown."""

    handle: str
    credential: str = ""
    status: int | None = field(default=None, compare=False)


class Pending(msgspec.Struct, frozen=True):
    """The work goes on."""


class Ended(msgspec.Struct, frozen=True):
    """The work has succeeded, and its result is asked for elsewhere."""


def classify_answer(provider: Provider, call: Call, reply: ReadReply) -> Completed | Failed | Accepted:
    """Read the answer to a call: a result, a failure, or the handle of submitted work."""
    answer = reply.document
    if provider.signs and (failure := _read_sign(provider, call, reply, answer, is_taken=False)):
        return failure
    if reply.status not in SUCCESS:
        return Failed(_by_status(reply), reply.status, _how_far(reply))
    match call.protocol:
        case Protocol.SYNC_JSON:
            return _json_result(call, reply, answer)
        case Protocol.SYNC_BYTES:
            return _bytes_result(call, reply)
        case Protocol.SUBMIT_AND_POLL:
            return _handle(call, reply, answer)


def classify_poll(
    provider: Provider, call: Call, polling: Polling, reply: ReadReply
) -> Completed | Failed | Pending | Ended:
    """Read the answer to a poll: still pending, a result or where to get it, or a failure.

    Work that the partner says was cancelled counts as cancelled, no matter by whom, and costs nothing (R-35).
    """
    answer = reply.document
    if failure := _read_sign(provider, call, reply, answer):
        return _signed_poll(failure, reply)
    if reply.status in polling.pending_status:
        return Pending()
    if reply.status not in SUCCESS:
        return _failed_poll(reply)
    told = find(answer, polling.status)
    status = "absent" if told is MISSING or told is None else text_of(told)
    if status in polling.succeeded:
        return _read_accepted(_json_result(call, reply, answer)) if polling.result is None else Ended()
    return Pending() if status in polling.pending else _without_result(polling, status, reply)


def _without_result(polling: Polling, status: str | None, reply: ReadReply) -> Completed | Failed:
    """How work ended by its status, which means neither success nor that it goes on."""
    if status in polling.cancelled:
        return Failed(Cancelled(), reply.status, Reached.ACCEPTED)
    return _failed_poll(reply) if status in polling.failed else _read_accepted(_unreadable(reply))


def classify_result(provider: Provider, call: Call, reply: ReadReply) -> Completed | Failed:
    """Read the answer that holds the result of work which has ended; how it failed may stand only here."""
    answer = reply.document
    if failure := _read_sign(provider, call, reply, answer):
        return _failed_poll(reply) if isinstance(failure.fault, ServiceUnavailable) else _read_accepted(failure)
    return _read_accepted(_json_result(call, reply, answer)) if reply.status in SUCCESS else _failed_poll(reply)


def _read_accepted(reading: Completed | Failed) -> Completed | Failed:
    """A reading of work that the partner has taken, whatever came of it."""
    if isinstance(reading, Completed):
        return reading
    return Failed(reading.fault, reading.upstream_status, Reached.ACCEPTED)


def _signed_poll(failure: Failed, reply: ReadReply) -> Completed | Failed | Pending:
    """What a sign in the answer to a poll says: of the work, or of the poll itself.

    A poll carries no input of the caller's, so its own 4xx is between the partner and us; a task that was refused for
    its input says so in a 2xx (R-20). A partner that is full still has the work: sending it again would order twice.
    Some say in a 2xx that they have no room for the question, and the work goes on.
    """
    match failure.fault:
        case ServiceUnavailable():
            return Pending() if reply.status in SUCCESS else _failed_poll(reply)
        case InvalidInput() | InputRejected():
            return _read_accepted(failure) if reply.status in SUCCESS else _failed_poll(reply)
        case _:
            return _read_accepted(failure)


def _failed_poll(reply: ReadReply) -> Failed:
    return Failed(ProviderError(upstream=Upstream(reply.status)), reply.status, Reached.ACCEPTED)


def sanitized(text: object) -> str | None:
    """A partner's words made safe to show: one line, no control characters, no URLs with their queries, bounded."""
    if not isinstance(text, str):
        return None
    words = "".join(char if char.isprintable() else " " for char in text[: REASON_MAX * 4]).split()
    plain = " ".join(_without_query(word) for word in words)[:REASON_MAX]
    return plain or None


def _without_query(word: str) -> str:
    """Links lose what may be a secret: their query and fragment."""
    return word.partition("?")[0].partition("#")[0] if "://" in word else word


def _read_sign(
    provider: Provider, call: Call, reply: ReadReply, answer: object, *, is_taken: bool = True
) -> Failed | None:
    """What the first sign that matches says; work that was not taken yet cannot have been cancelled."""
    for sign in provider.signs:
        if sign.status is not None and reply.status not in sign.status:
            continue
        if (sign.calls is not None and call.name not in sign.calls) or not all_hold(sign.when, answer):
            continue
        if is_taken or sign.means is not Meaning.CANCELLED:
            return Failed(_meant(sign, reply, answer), reply.status, _how_far(reply))
    return None


def _how_far(reply: ReadReply) -> Reached:
    """How far a call came whose answer is a failure: one that ran out of time may have been taken all the same."""
    return Reached.UNKNOWN if reply.status in _OUT_OF_TIME else Reached.REFUSED


def _meant(sign: Sign, reply: ReadReply, answer: object) -> Fault:
    reason = _text_at(answer, sign.reason)
    match sign.means:
        case Meaning.INVALID:
            return _invalid(sign, reply, answer, reason)
        case Meaning.REFUSED:
            return ContentPolicyViolation(_subject(sign, answer), Upstream(reply.status))
        case Meaning.FAILED:
            return ProviderError(upstream=Upstream(reply.status))
        case Meaning.TIMEOUT:
            return ProviderTimeout(Upstream(reply.status))
        case Meaning.UNAVAILABLE:
            return _at_capacity(reply)
        case Meaning.CANCELLED:
            return Cancelled()


def _invalid(sign: Sign, reply: ReadReply, answer: object, reason: str | None) -> Fault:
    """A refusal of the input: per field where the partner names one (R-21), with its reason otherwise (R-20)."""
    named = _text_at(answer, sign.field)
    if named is not None:
        loc = ("body", *(int(part) if part.isascii() and part.isdigit() else part for part in named.split(".")))
        kind = _text_at(answer, sign.kind) or "value_error"
        return InputRejected(
            (Violation(loc, reason or "The provider rejected this value.", kind),), Upstream(reply.status)
        )
    return InvalidInput(reason or "The provider rejected the input.", Upstream(reply.status, reason))


def _subject(sign: Sign, answer: object) -> str | None:
    """The refused side, in the closed vocabulary of R-20 only; never the partner's own words."""
    code = MISSING if sign.subject is None else first(answer, sign.subject)
    return sign.side if code is MISSING else sign.subjects.get(text_of(code) or "", sign.side)


def _by_status(reply: ReadReply) -> Fault:
    """What an unsuccessful status means where the provider file says nothing better."""
    match reply.status:
        case 400 | 404 | 405 | 406 | 409 | 410 | 411 | 413 | 414 | 415 | 422:
            return InvalidInput("The provider rejected the input.", Upstream(reply.status))
        case 408 | 504:
            return ProviderTimeout(Upstream(reply.status))
        case 429:
            return _at_capacity(reply)
        case _:
            return ProviderError(upstream=Upstream(reply.status))


def _at_capacity(reply: ReadReply) -> ServiceUnavailable:
    """The partner has no room (R-39): the one kind of unavailability that says when to come back."""
    told = reply.headers.get("retry-after", "")
    seconds = int(told[:9]) if told.isascii() and told.isdigit() else 1  # nine digits are past the bound as it is
    return ServiceUnavailable(
        "The provider is at capacity.", min(max(seconds, 1), _RETRY_AFTER_MAX), Upstream(reply.status)
    )


def _bytes_result(call: Call, reply: ReadReply) -> Completed | Failed:
    content_type = reply.headers.get("content-type", "")
    if not reply.content or content_type.partition(";")[0].strip().lower() not in call.media_types:
        return _unreadable(reply)
    return Completed(reply.content, content_type, reply.status, None, reply.headers)


def _json_result(call: Call, reply: ReadReply, answer: object) -> Completed | Failed:
    if not isinstance(answer, dict):
        return _unreadable(reply)
    for pointer in call.require:
        if first(answer, pointer) is MISSING:
            return _unreadable(reply)
    for pointer in call.assets:
        if not all(found is None or _is_link(found) for _, found in find_all(answer, pointer)):
            return _unreadable(reply)
    return Completed(reply.content, _JSON, reply.status, answer, reply.headers, reply.large)


def _is_link(found: object) -> bool:
    return isinstance(found, str) and found[:8].lower().startswith(("http://", "https://"))


def _handle(call: Call, reply: ReadReply, answer: object) -> Accepted | Failed:
    parts: dict[str, str] = {}
    for name, pointer in call.handle.items():
        found = first(answer, pointer)
        if name in call.optional and (found is MISSING or found is None):
            continue
        if not isinstance(found, str | int) or isinstance(found, bool):
            return _unreadable(reply)
        parts[name] = found[: HANDLE_MAX + 1] if isinstance(found, str) else str(found)
    handle = write_handle(parts)
    if not all(parts.values()) or len(handle) > HANDLE_MAX or not handle.isprintable():
        return _unreadable(reply)
    return Accepted(handle, status=reply.status)


def write_handle(parts: Handle) -> str:
    """A handle as it is kept: the partner's own name of the work where that is all there is, else JSON."""
    return parts["handle"] if parts.keys() == {"handle"} else msgspec.json.encode(parts).decode()


def read_handle(call: Call, text: str) -> Handle:
    """The parts of a handle that was kept; ValueError where it is not one of this call's."""
    if call.handle.keys() == {"handle"}:
        return {"handle": text}
    parts = msgspec.json.decode(text, type=dict[str, str])
    if not call.handle.keys() - call.optional <= parts.keys() <= call.handle.keys():
        raise ValueError("the handle belongs to another form of this call")
    return parts


def _unreadable(reply: ReadReply) -> Failed:
    return Failed(ProviderError(_UNREADABLE, Upstream(reply.status)), reply.status)


def _text_at(answer: object, pointer: Pointer | None) -> str | None:
    return None if pointer is None else sanitized(first(answer, pointer))
