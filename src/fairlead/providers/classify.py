"""Reading a partner's answer: pure, total, and the same for every partner.

The signs of the provider file are looked for first, in their order; what no sign claims is read by its HTTP status.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jiter
import msgspec

from fairlead.domain.faults import (
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
from fairlead.domain.pointers import MISSING, Pointer, find
from fairlead.domain.runs.outcomes import Completed, Failed
from fairlead.providers.spec import Call, Meaning, Polling, Protocol, Provider, Sign

REASON_MAX: Final = 300
HANDLE_MAX: Final = 512
_RETRY_AFTER_MAX: Final = 3600
_UNREADABLE: Final = "The provider's answer could not be read as a result."


class Reply(msgspec.Struct, frozen=True):
    """An HTTP answer of a partner; its headers are asked for lower-case names."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is of HTTP's class of success."""
        return self.status // 100 == 2  # noqa: PLR2004 -- 2xx


@dataclass(frozen=True, slots=True)
class Accepted:
    """The partner took the work and named it."""

    handle: str


@dataclass(frozen=True, slots=True)
class Pending:
    """The work goes on."""


def classify_answer(provider: Provider, call: Call, reply: Reply) -> Completed | Failed | Accepted:
    """Read the answer to a call: a result, a failure, or the handle of submitted work."""
    answer = _json_of(reply)
    if failure := _failure(provider, reply, answer):
        return failure
    match call.protocol:
        case Protocol.SYNC_BYTES:
            return _bytes_result(call, reply)
        case Protocol.SYNC_JSON:
            return _json_result(call, reply, answer)
        case Protocol.SUBMIT_AND_POLL:
            return _handle(call, reply, answer)


def classify_poll(provider: Provider, call: Call, polling: Polling, reply: Reply) -> Completed | Failed | Pending:
    """Read the answer to a poll: still pending, a result, or a failure."""
    answer = _json_of(reply)
    if failure := _signed(provider, reply, answer):
        return failure if _is_about_the_work(failure, reply) else _failed_poll(reply)
    if not reply.is_success:
        return _failed_poll(reply)
    told = find(answer, polling.status)
    status = told if isinstance(told, str) else None
    if status in polling.pending:
        return Pending()
    if status in polling.succeeded:
        return _json_result(call, reply, answer)
    if status in polling.failed:
        return _failed_poll(reply)
    return _unreadable(reply)


def _is_about_the_work(failure: Failed, reply: Reply) -> bool:
    """Whether a failed poll tells of the task, and not of the poll itself.

    A poll carries no input of the caller's, so its own 4xx is between the partner and us; a task that was refused for
    its input says so in a 2xx (R-20). A partner that is full still has the work: sending it again would order twice.
    """
    match failure.fault:
        case InvalidInput() | InputRejected():
            return reply.is_success
        case ServiceUnavailable():
            return False
        case _:
            return True


def _failed_poll(reply: Reply) -> Failed:
    return Failed(ProviderError(upstream=Upstream(reply.status)), reply.status)


def sanitized(text: Any) -> str | None:
    """A partner's words made safe to show: one line, no control characters, no URLs with their queries, bounded."""
    if not isinstance(text, str):
        return None
    words = "".join(char if char.isprintable() else " " for char in text[: REASON_MAX * 4]).split()
    plain = " ".join(_without_query(word) for word in words)[:REASON_MAX]
    return plain or None


def _without_query(word: str) -> str:
    """Links lose what may be a secret: their query and fragment."""
    return word.partition("?")[0].partition("#")[0] if "://" in word else word


def _json_of(reply: Reply) -> Any:
    """The decoded body where it is JSON, else MISSING: signs and results are looked for in it alike."""
    if "json" not in reply.headers.get("content-type", "").lower():
        return MISSING
    try:
        return jiter.from_json(reply.content, allow_inf_nan=False, cache_mode="keys")
    except ValueError:
        return MISSING


def _failure(provider: Provider, reply: Reply, answer: Any) -> Failed | None:
    """The failure an answer reports, by a sign of the provider file or by its status; None for a success."""
    if failure := _signed(provider, reply, answer):
        return failure
    return None if reply.is_success else Failed(_by_status(reply), reply.status)


def _signed(provider: Provider, reply: Reply, answer: Any) -> Failed | None:
    for sign in provider.signs:
        if _matches(sign, reply, answer):
            return Failed(_meant(sign, reply, answer), reply.status)
    return None


def _matches(sign: Sign, reply: Reply, answer: Any) -> bool:
    if sign.status is not None and reply.status not in sign.status:
        return False
    if sign.at is None or sign.equals is None:
        return sign.status is not None
    found = find(answer, sign.at)
    return isinstance(found, str | int) and str(found) in sign.equals


def _meant(sign: Sign, reply: Reply, answer: Any) -> Fault:
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


def _invalid(sign: Sign, reply: Reply, answer: Any, reason: str | None) -> Fault:
    """A refusal of the input: per field where the partner names one (R-21), with its reason otherwise (R-20)."""
    named = _text_at(answer, sign.field)
    if named is not None:
        loc = ("body", *(int(part) if part.isascii() and part.isdigit() else part for part in named.split(".")))
        kind = _text_at(answer, sign.kind) or "value_error"
        return InputRejected(
            (Violation(loc, reason or "The provider rejected this value.", kind),), Upstream(reply.status)
        )
    return InvalidInput(reason or "The provider rejected the input.", Upstream(reply.status, reason))


def _subject(sign: Sign, answer: Any) -> str | None:
    """The refused side, in the closed vocabulary of R-20 only; never the partner's own words."""
    code = find(answer, sign.subject) if sign.subject is not None else MISSING
    return sign.subjects.get(str(code)) if code is not MISSING else None


def _by_status(reply: Reply) -> Fault:
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


def _at_capacity(reply: Reply) -> ServiceUnavailable:
    """The partner has no room (R-39): the one kind of unavailability that says when to come back."""
    told = reply.headers.get("retry-after", "")
    seconds = int(told[:9]) if told.isascii() and told.isdigit() else 1  # nine digits are past the bound as it is
    return ServiceUnavailable("The provider is at capacity.", min(max(seconds, 1), _RETRY_AFTER_MAX))


def _bytes_result(call: Call, reply: Reply) -> Completed | Failed:
    content_type = reply.headers.get("content-type", "")
    if not reply.content or content_type.partition(";")[0].strip().lower() not in call.media_types:
        return _unreadable(reply)
    return Completed(reply.content, content_type, reply.status, None, reply.headers)


def _json_result(call: Call, reply: Reply, answer: Any) -> Completed | Failed:
    if not isinstance(answer, dict) or any(find(answer, pointer) is MISSING for pointer in call.require):
        return _unreadable(reply)
    if not all(_is_link(find(answer, pointer)) for pointer in call.assets):
        return _unreadable(reply)
    return Completed(reply.content, reply.headers["content-type"], reply.status, answer, reply.headers)


def _is_link(found: Any) -> bool:
    return isinstance(found, str) and found[:8].lower().startswith(("http://", "https://"))


def _handle(call: Call, reply: Reply, answer: Any) -> Accepted | Failed:
    found = find(answer, call.handle) if call.handle is not None else MISSING
    if not isinstance(found, str | int) or isinstance(found, bool):
        return _unreadable(reply)
    handle = str(found)
    return Accepted(handle) if 0 < len(handle) <= HANDLE_MAX and handle.isprintable() else _unreadable(reply)


def _unreadable(reply: Reply) -> Failed:
    return Failed(ProviderError(_UNREADABLE, Upstream(reply.status)), reply.status)


def _text_at(answer: Any, pointer: Pointer | None) -> str | None:
    return None if pointer is None else sanitized(find(answer, pointer))
