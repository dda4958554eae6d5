"""Partners' answers: without our credentials, decoded, and read as a result or a fault.

A partner may repeat what it was shown: in the text of an error, in a link, in a header, even in a result. All answers
of partners pass here, so that nothing after this point, such as a caller's answer, a log, a trace or the database, has
to know what is secret (S-10). An answer without a secret is passed on as it is, without a copy. Large ones are decoded
by readers of their own (document_readers.py).

What an answer means is read by pure, total functions, the same for every partner: the signs of the provider file are
looked for first, in their order; what no sign claims is read by its HTTP status.
"""

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import jiter
import msgspec

from fairlead.document_readers import INLINE_BYTES, DocumentReaders, NoReaderError, UnreadableDocumentError
from fairlead.documents.examining import ExaminedAnswer, OfAnswer
from fairlead.documents.outline import LargeDocument, LongText
from fairlead.documents.redaction import Redactor
from fairlead.documents.values import has_more_values
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
from fairlead.domain.pointers import MISSING, Pointer, all_hold, find, find_all, first, number_of, text_of
from fairlead.domain.runs.outcomes import Completed, Failed, Reached
from fairlead.http_client.outcomes import SUCCESS, Reply
from fairlead.providers.partner_words import sanitize, words_of
from fairlead.providers.spec import Call, Meaning, Polling, Protocol, Provider, Sign

HANDLE_MAX: Final = 2048
_JSON: Final = "application/json"
"""The content type of every result in JSON: released clients compare it literally."""
_RETRY_AFTER_MAX: Final = 3600
_OUT_OF_TIME: Final = frozenset({408, 504, 524})
_UNREADABLE: Final = "The provider's answer could not be read as a result."


Handle: TypeAlias = Mapping[str, str]
"""The parts by which a partner names work it has taken; most have one, called `handle`."""
SECRET_CHARACTERS_MIN: Final = 8
"""Shorter texts are not secrets, and would be found in ordinary words."""
_SEARCHED_CHARACTERS: Final = 64 * 1024
_UNREAD: Final = ExaminedAnswer(is_uneven=True)


class ReplyRedactor(Redactor):
    """Takes some secrets out of answers, from their headers as well as from their content.

    Texts that are too short to be secrets are ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__(
            text.encode("utf-8", "surrogatepass") for text in secrets if len(text) >= SECRET_CHARACTERS_MIN
        )

    def clean(self, reply: Reply) -> Reply:
        """A small answer without the secrets: the same one where it has none of them.

        An answer that a secret cannot be taken out of keeps its status alone.
        """
        if not self.secrets:
            return reply
        # Nearly all have a single layer and no trace of a secret. Texts are searched in half the time of bytes.
        head = "\n".join(reply.headers.values())
        text = reply.content.decode("latin-1") + "\n" + head
        if "\\" not in text and "%" not in text and head.isascii():
            for hint in self.hint_texts:  # in half the time of `any`
                if hint in text:
                    break
            else:
                return reply
        return self.with_content(reply, self.redact(reply.content))

    def with_content(self, reply: Reply, content: bytes | None) -> Reply:
        """An answer with its redacted content, and its headers redacted too; its status alone where content is None."""
        if content is None:
            return Reply(reply.status, {}, b"")
        if self.may_hold("\n".join(reply.headers.values()).encode("utf-8", "surrogatepass")):
            headers = {name: self._header(value) for name, value in reply.headers.items()}
            return msgspec.structs.replace(reply, headers=headers, content=content)
        return reply if content is reply.content else msgspec.structs.replace(reply, content=content)

    def _header(self, value: str) -> str:
        given = value.encode("utf-8", "surrogatepass")
        cleaned = self.redact(given)
        if cleaned is given:
            return value
        return "" if cleaned is None else cleaned.decode("utf-8", "replace")


_NO_SECRETS: Final = ReplyRedactor()


class _AnswerText(LongText):
    """A long text of an answer. Signs are searched only in its beginning."""

    __slots__ = ()

    def lower(self) -> str:
        return self[:_SEARCHED_CHARACTERS].lower()


class LargeAnswer(LargeDocument):
    """A large answer, by its outline."""

    __slots__ = ()

    def decode(self, outline: bytes) -> object:
        """The decoded outline, or a changed one, with the long texts."""
        return self.with_texts(_decode(outline), _AnswerText)


class ReadReply(Reply, frozen=True):
    """An answer, and the document in it: MISSING where it is not JSON. The long texts of a `large` one stay in it."""

    document: Any = MISSING
    large: LargeAnswer | None = None


def is_json(reply: Reply) -> bool:
    """Whether an answer says that it is JSON."""
    return "json" in reply.headers.get("content-type", "").lower()


def read_here(reply: Reply) -> ReadReply:
    """An answer that is small enough to be decoded on the event loop."""
    return ReadReply(reply.status, reply.headers, reply.content, _decode(reply.content) if is_json(reply) else MISSING)


class AnswerDecoder:
    """Takes our credentials out of partners' answers, and decodes them.

    The readers must take any number of them: a result that is not read may have been paid for.
    """

    def __init__(self, readers: DocumentReaders) -> None:
        self._readers = readers

    async def read(
        self, owner_id: str, reply: Reply, redactor: ReplyRedactor = _NO_SECRETS, values_max: int | None = None
    ) -> ReadReply:
        """An answer for an owner, such as a workspace, without the secrets of a redactor.

        One that cannot be read counts as no answer, and so does JSON with more than `values_max` values.
        """
        if len(reply.content) <= INLINE_BYTES:
            # A value takes a byte: most answers need no counting.
            if values_max is not None and len(reply.content) > values_max and is_json(reply):
                content = b"" if has_more_values(reply.content, values_max) else reply.content
                reply = Reply(reply.status, reply.headers, content)
            return read_here(redactor.clean(reply))
        asked = OfAnswer(secrets.token_hex(16), is_json(reply), redactor.secrets, values_max)
        if not (asked.is_json or asked.secrets):
            return read_here(reply)
        try:
            found, redacted = await self._readers.ask(owner_id, asked, reply.content, ExaminedAnswer)
        except (NoReaderError, UnreadableDocumentError):
            if not asked.is_json:  # it need not be decoded, and may have been paid for
                clean = redactor.with_content(reply, await asyncio.to_thread(redactor.redact, reply.content))
                return ReadReply(clean.status, clean.headers, clean.content)
            found, redacted = _UNREAD, ()
        if found.is_secret or found.is_uneven:
            return read_here(redactor.with_content(reply, None if found.is_secret else b""))
        clean = redactor.with_content(reply, redacted[0] if redacted else reply.content)
        if not found.is_json:
            return ReadReply(clean.status, clean.headers, clean.content)
        large = LargeAnswer(clean.content, found.outline.encode(), found.spans, asked.nonce)
        return ReadReply(clean.status, clean.headers, clean.content, large.decode(large.outline), large)


def _decode(content: bytes) -> object:
    """The decoded bytes, MISSING where they are not JSON; of several members of one name the last counts."""
    try:
        return jiter.from_json(content, allow_inf_nan=False, cache_mode="keys")
    except ValueError:
        return MISSING


@dataclass(frozen=True, slots=True)
class Accepted:
    """The partner took the work and named it; `credential` is the label of ours that it was shown."""

    handle: str
    credential: str = ""
    status: int | None = field(default=None, compare=False)


class Pending(msgspec.Struct, frozen=True):
    """The work goes on."""


class Ended(msgspec.Struct, frozen=True):
    """The work has succeeded, and its result is fetched elsewhere."""


def classify_answer(provider: Provider, call: Call, reply: ReadReply) -> Completed | Failed | Accepted:
    """Read the answer to a call: a result, a failure, or the handle of submitted work."""
    answer = reply.document
    if provider.signs and (failure := _read_sign(provider, call, reply, answer, is_taken=False)):
        return failure
    if reply.status not in SUCCESS:
        words = words_of(reply, answer)
        return Failed(_by_status(reply, words), reply.status, _how_far(reply), words)
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
        signed = _signed_poll(failure, reply)
        if isinstance(signed, Failed) and reply.status in SUCCESS and _status_text(polling, answer) in polling.unbilled:
            return msgspec.structs.replace(signed, reached=Reached.UNBILLED)
        return signed
    if reply.status in polling.pending_status:
        return Pending()
    if reply.status not in SUCCESS:
        return _failed_poll(reply)
    status = _status_text(polling, answer)
    if status in polling.succeeded:
        return _read_accepted(_json_result(call, reply, answer)) if polling.result is None else Ended()
    return Pending() if status in polling.pending else _without_result(polling, status, reply)


def _without_result(polling: Polling, status: str | None, reply: ReadReply) -> Completed | Failed:
    """How work ended by its status, which means neither success nor that it goes on."""
    if status in polling.cancelled:
        return Failed(Cancelled(), reply.status, Reached.ACCEPTED)
    if status not in polling.failed:
        return _read_accepted(_unreadable(reply))
    failed = _failed_poll(reply)
    if failed.words is not None:  # they are about the work, as the poll itself has succeeded
        fault = ProviderError(f"The provider says that the work failed: {failed.words}", Upstream(reply.status))
        failed = msgspec.structs.replace(failed, fault=fault)
    return msgspec.structs.replace(failed, reached=Reached.UNBILLED) if status in polling.unbilled else failed


def _status_text(polling: Polling, answer: object) -> str | None:
    """The status of work by an answer to a poll, as the lists of a provider file name it."""
    told = find(answer, polling.status)
    return "absent" if told is MISSING or told is None else text_of(told)


def classify_result(provider: Provider, call: Call, reply: ReadReply) -> Completed | Failed:
    """Read the answer that holds the result of work which has ended; only it may say how the work failed."""
    answer = reply.document
    if failure := _read_sign(provider, call, reply, answer):
        return _failed_poll(reply) if isinstance(failure.fault, ServiceUnavailable) else _read_accepted(failure)
    return _read_accepted(_json_result(call, reply, answer)) if reply.status in SUCCESS else _failed_poll(reply)


def _read_accepted(reading: Completed | Failed) -> Completed | Failed:
    """A reading about work that the partner has taken."""
    if isinstance(reading, Completed):
        return reading
    return msgspec.structs.replace(reading, reached=Reached.ACCEPTED)


def _signed_poll(failure: Failed, reply: ReadReply) -> Completed | Failed | Pending:
    """The meaning of a sign in the answer to a poll: about the work, or about the poll itself.

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
    fault = ProviderError(upstream=Upstream(reply.status))
    return Failed(fault, reply.status, Reached.ACCEPTED, words_of(reply, reply.document))


def _read_sign(
    provider: Provider, call: Call, reply: ReadReply, answer: object, *, is_taken: bool = True
) -> Failed | None:
    """The meaning of the first sign that matches; work that was not taken yet cannot have been cancelled."""
    for sign in provider.signs:
        if sign.status is not None and reply.status not in sign.status:
            continue
        if (sign.calls is not None and call.name not in sign.calls) or not all_hold(sign.when, answer):
            continue
        if is_taken or sign.means is not Meaning.CANCELLED:
            words = words_of(reply, answer, sign.reason)
            return Failed(_fault_of_sign(sign, reply, answer), reply.status, _how_far(reply), words)
    return None


def _how_far(reply: ReadReply) -> Reached:
    """How far a failed call came: one that ran out of time may still have been taken."""
    return Reached.UNKNOWN if reply.status in _OUT_OF_TIME else Reached.REFUSED


def _fault_of_sign(sign: Sign, reply: ReadReply, answer: object) -> Fault:
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


def _by_status(reply: ReadReply, words: str | None) -> Fault:
    """What an unsuccessful status means where the provider file says nothing better.

    The partner's words are for the caller only where they are certainly about its input (R-20).
    """
    match reply.status:
        case 400 | 413 | 415 | 422 if words is not None:
            return InvalidInput(words, Upstream(reply.status, words))
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
    seconds = int(told[:9]) if told.isascii() and told.isdigit() else 1  # nine digits exceed the bound in any case
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
    parts |= told_in(call, answer)
    handle = write_handle(parts)
    if not all(parts.values()) or len(handle) > HANDLE_MAX or not handle.isprintable():
        return _unreadable(reply)
    return Accepted(handle, status=reply.status)


def told_in(call: Call, answer: object) -> Handle:
    """The figures for prices that an answer to a submit or a poll has; one that is no number is no figure."""
    found = ((name, number_of(first(answer, pointer))) for name, pointer in call.told.items())
    return {name: str(number) for name, number in found if number is not None}


def write_handle(parts: Handle) -> str:
    """The stored form of a handle: the partner's own name of the work where it has one part, else JSON."""
    return parts["handle"] if parts.keys() == {"handle"} else msgspec.json.encode(parts).decode()


def read_handle(call: Call, text: str) -> dict[str, str]:
    """The parts of a stored handle; ValueError where it is not one of this call's."""
    if call.handle.keys() == {"handle"}:
        return {"handle": text}
    parts = msgspec.json.decode(text, type=dict[str, str])
    if not call.handle.keys() - call.optional <= parts.keys() <= call.handle.keys() | call.told.keys():
        raise ValueError("the handle belongs to another form of this call")
    return parts


def _unreadable(reply: ReadReply) -> Failed:
    fault = ProviderError(_UNREADABLE, Upstream(reply.status))
    return Failed(fault, reply.status, words=words_of(reply, reply.document))


def _text_at(answer: object, pointer: Pointer | None) -> str | None:
    return None if pointer is None else sanitize(first(answer, pointer))
