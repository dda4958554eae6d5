"""One exchange for every partner: send, wait, poll, and read the answer. No code per partner.

All answers of partners arrive here; our credentials are removed from them (answers.py).
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote

import msgspec

from fairlead.domain.catalog.identifiers import provider_setting
from fairlead.domain.faults import InvalidInput, ProviderError, ProviderTimeout, ServiceUnavailable, Upstream
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome, Reached, Work
from fairlead.http_client.outcomes import SUCCESS, Reply
from fairlead.http_client.transport import BrokenOffError, TooSlowError, Transport, TransportError, UnreachableError
from fairlead.providers.address_fields import address_fields, with_query
from fairlead.providers.answers import (
    Accepted,
    AnswerDecoder,
    Ended,
    Handle,
    Pending,
    ReadReply,
    classify_answer,
    classify_poll,
    classify_result,
    read_handle,
    told_in,
)
from fairlead.providers.credentials import OWN, BadCredentialError, Credential, Credentials
from fairlead.providers.forms import UnusableFileError, write_form
from fairlead.providers.request_signatures import OutgoingRequest
from fairlead.providers.spec import Asking, Call, Polling, Protocol, Provider, Scheme
from fairlead.providers.storage import address_of, with_storage

ANSWER_VALUES: Final = 50_000
"""The most values in a partner's answer, by default."""
_JSON: Final = "application/json"
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
_POLL_ANSWER_SECONDS: Final = 30.0
_FILE_SECONDS: Final = 60.0
_FILE_MAX: Final = 64 * 1024 * 1024
_POLLS_A_SECOND: Final = 1000
"""The polls of all waiting runs together: ten thousand of them must take only a part of a core."""
_OF_A_CREDENTIAL: Final = frozenset({401, 402, 403})
"""The statuses of a partner that are about the credential: unknown, unpaid, not allowed."""
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


async def _note_nothing(_told: Mapping[str, str]) -> None:
    """The default for callers that do not follow polls."""


class Order(msgspec.Struct, frozen=True):
    """Work for a partner: which call, of which of its models, with which body, under which idempotency key.

    The key is the run's id. `credential` is the caller's own (R-17), or absent for one of ours. `owner_id` is the
    workspace, which shares the reading of large answers with others.
    """

    provider: str
    call: str
    model: str
    body: bytes
    key: str
    credential: Credential | None = None
    owner_id: str = ""


class Exchange:
    """Speaks to every partner that has a file. An answer in JSON may hold `answer_values`, or it cannot be read.

    `tell_refused` is called with each credential of ours that a partner refuses: its provider, its label, the status.
    """

    def __init__(
        self,
        providers: Mapping[str, Provider],
        transport: Transport,
        credentials: Credentials,
        answers: AnswerDecoder,
        answer_values: int = ANSWER_VALUES,
        tell_refused: Callable[[str, str, int], None] = lambda _provider, _label, _status: None,
    ) -> None:
        self._tell_refused = tell_refused
        self._answers = answers
        self._answer_values = answer_values
        self.providers = providers
        self._transport = transport
        self._credentials = credentials
        self._headers = {
            (name, label): _headers_of(provider, call)
            for name, provider in providers.items()
            for label, call in provider.calls.items()
        }
        self._following = 0
        self.addressed: Final = frozenset(name for name, provider in providers.items() if not provider.missing)
        """The partners whose whole address we have: a caller's own credential is enough to call them."""
        self.configured: Final = frozenset(name for name in self.addressed if credentials.all(name))
        """The partners that can be called with a credential of ours."""

    def missing_settings(self, provider: str) -> tuple[str, ...]:
        """The settings that an operator must make before a partner can be called."""
        lacking = () if self._credentials.all(provider) else ("key",)
        return tuple(provider_setting(provider, option) for option in (*lacking, *self.providers[provider].missing))

    def repeats_safely(self, provider: str) -> bool:
        """Whether a partner honours an idempotency key, so that the same order may be sent again after a crash."""
        found = self.providers.get(provider)
        return found is not None and found.idempotency_header is not None

    def answers_bytes(self, provider: str, call: str) -> bool:
        """Whether the result of a call is bytes of its own, and no JSON document (R-32)."""
        found = self._call(provider, call)
        return found is not None and found.protocol is Protocol.SYNC_BYTES

    def locate_stored(self, provider: str, place: str) -> tuple[str, Mapping[str, str]] | None:
        """The address and the headers for reading what a partner has written to the operator's storage."""
        found = self.providers[provider]
        address = None if found.storage is None else address_of(found.storage, place)
        if found.storage is None or address is None:
            return None
        try:
            return address, self._credentials.storage_headers(found)
        except BadCredentialError:
            return None

    def can_cancel(self, provider: str, call: str) -> bool:
        """Whether a partner can be asked to stop the submitted work of a call (R-35)."""
        found = self._call(provider, call)
        return found is not None and found.cancel is not None

    def may_leave(self, provider: str, call: str) -> bool:
        """Whether closing the connection of a call ends its work and costs nothing (R-35)."""
        found = self._call(provider, call)
        return found is not None and found.is_free_when_left

    def _call(self, provider: str, call: str) -> Call | None:
        found = self.providers.get(provider)
        return None if found is None else found.calls.get(call)

    async def send(self, order: Order, credential: Credential) -> Outcome | Accepted:
        """Send an order and return its outcome, or the handle under which the partner goes on with it.

        A handle must be made durable before it is followed.
        """
        provider = self.providers[order.provider]
        call, body, parts, query = provider.calls[order.call], order.body, {"model": order.model}, None
        if call.in_path or call.in_query:
            addressed = address_fields(call, body)
            if isinstance(addressed, Failed):
                return addressed
            body, parts, query = addressed.body, {**addressed.path, **parts}, addressed.query
        try:
            headers = {**self._headers[order.provider, order.call]}
            if provider.idempotency_header is not None:
                headers[provider.idempotency_header] = order.key
            if provider.storage is not None and order.credential is None:  # a caller's own key may not write there
                body = with_storage(provider.storage, body, order.key)
            body = b"[%b]" % body if call.is_in_array else body
            if call.form is not None:
                written = await write_form(call.form, body, self._download)
                if isinstance(written, Failed):
                    return written
                headers["Content-Type"], body = written
            path = _fill_in(call.path, parts) if "{" in call.path else call.path
            url = provider.base_url + (with_query(path, query) if query else path)
            shown = credential.fixed
            headers |= self._credential_headers(credential, "POST", url, headers, body) if shown is None else shown
            sending = self._transport.send("POST", url, headers, body, seconds=call.timeout, limit=call.answer_limit)
            answered = await sending
        except BadCredentialError as error:
            return _bad_credential(provider, credential, error)
        except TransportError as error:
            return _failure_of(error)
        redactor = self._credentials.redactor(order.provider, credential)
        reply = await self._answers.read(order.owner_id, answered, redactor, self._answer_values)
        reading = classify_answer(provider, call, reply)
        if isinstance(reading, Accepted):
            return replace(reading, credential=credential.label)
        return reading if type(reading) is Completed else self._of_credential(provider, credential, reading)

    async def follow(
        self, order: Order, work: Work, note_poll: Callable[[Mapping[str, str]], Awaitable[None]] = _note_nothing
    ) -> Outcome:
        """Poll submitted work until it ends, or until the provider file says to give up.

        Before each poll `note_poll` is called with what the partner has told of the work, its figures for prices
        among it. Work that is given up on is undecided: it may be followed again.
        """
        known = self._find_polling(order, work)
        if isinstance(known, Failed):
            return known
        polling, parts, shown = known
        self._following += 1
        try:
            outcome = await self._poll(order, polling, parts, shown, work.status, note_poll)
            if isinstance(outcome, Completed):
                names = self.providers[order.provider].calls[order.call].told
                outcome = msgspec.structs.replace(outcome, told={one: parts[one] for one in names if one in parts})
            return self._of_credential(self.providers[order.provider], shown, outcome)
        except BadCredentialError as error:
            return _of_accepted(_bad_credential(self.providers[order.provider], shown, error))
        finally:
            self._following -= 1

    async def cancel(self, order: Order, work: Work) -> bool:
        """Ask a partner to stop work it has taken: whether it agreed, or the work has ended anyway (R-35).

        Asked once, within the bounds of a poll, under the same credential as `follow`. It is never an error, and never
        says how the work ends: the next poll does, and a partner that finished all the same is paid.
        """
        cancel = self.providers[order.provider].calls[order.call].cancel
        known = self._find_polling(order, work)
        if cancel is None or isinstance(known, Failed):
            return False
        polling, parts, shown = known
        try:
            if cancel.method == "DELETE":  # after the end of the work, it would delete the result that is to be paid
                reading, _ = await self._ask(order, polling.asking, parts, shown)
                if not isinstance(reading, Pending):
                    return not (isinstance(reading, Failed) and _may_pass(reading, polling))
            reply = await self._reply(order, cancel, parts, shown)
        except BadCredentialError:
            return False
        return isinstance(reply, Reply) and reply.status in SUCCESS

    def _find_polling(self, order: Order, work: Work) -> tuple[Polling, dict[str, str], Credential] | Failed:
        """What it takes to ask about work that was taken, or why that cannot be done."""
        provider = self.providers[order.provider]
        call = provider.calls[order.call]
        shown = order.credential or self._credentials.find_by_label(order.provider, work.credential)
        if shown is None:
            return _of_accepted(_not_configured(provider))
        if call.polling is None:
            return Failed(ProviderError(), None, Reached.ACCEPTED)
        try:
            return call.polling, read_handle(call, work.handle), shown
        except ValueError:
            return Failed(ProviderError("The provider's name of the work cannot be read."), None, Reached.ACCEPTED)

    async def _poll(
        self,
        order: Order,
        polling: Polling,
        parts: dict[str, str],
        credential: Credential,
        answered: int | None,
        note_poll: Callable[[Mapping[str, str]], Awaitable[None]],
    ) -> Outcome:
        """Ask until the work has ended; `answered` is the last status the partner answered with before."""
        give_up_at = time.monotonic() + polling.give_up_after
        pause, misses, asking = polling.every, 0, polling.asking
        while time.monotonic() < give_up_at:
            await asyncio.sleep(max(pause, self._following / _POLLS_A_SECOND))
            pause = min(pause * polling.slower_by, polling.at_most_every)
            # Only the meaning of an answer is kept, as thousands of runs may wait.
            await note_poll(parts)
            reading, status = await self._ask(order, asking, parts, credential)
            answered = answered if status is None else status
            if status is None and isinstance(reading, Failed):
                reading = reading.after(answered)
            if isinstance(reading, Ended):
                asking, pause = polling.result or asking, 0.0
            elif isinstance(reading, Completed | Failed):
                misses += 1
                if isinstance(reading, Completed) or not _may_pass(reading, polling):
                    return reading
                if misses > polling.patience:
                    # The partner is overloaded or away, so the work may still end well.
                    is_open = reading.upstream_status in _TRANSIENT
                    return msgspec.structs.replace(reading, reached=Reached.UNDECIDED) if is_open else reading
                # What failed is not repeated at once, not even the question for a result that is ready.
                pause = max(pause, polling.every)
            else:
                misses = 0
        return Failed(ProviderTimeout(Upstream(answered)), answered, Reached.UNDECIDED)

    async def _ask(
        self, order: Order, asking: Asking, parts: dict[str, str], credential: Credential
    ) -> tuple[Completed | Failed | Pending | Ended, int | None]:
        """Ask once about work, or for its result; what the answer says, and its status where there was one."""
        reply = await self._reply(order, asking, parts, credential)
        if isinstance(reply, Failed):
            return reply, None
        parts.update(told_in(self.providers[order.provider].calls[order.call], reply.document))
        return self._read(order, asking, reply), reply.status

    def _read(self, order: Order, asking: Asking, reply: ReadReply) -> Completed | Failed | Pending | Ended:
        """What an answer says of work that was taken, or of its result."""
        provider = self.providers[order.provider]
        call = provider.calls[order.call]
        if call.polling is not None and asking is call.polling.asking:
            return classify_poll(provider, call, call.polling, reply)
        return classify_result(provider, call, reply)

    async def _reply(self, order: Order, asking: Asking, parts: Handle, credential: Credential) -> ReadReply | Failed:
        """The answer to one request about work that was taken, or why there is none."""
        provider = self.providers[order.provider]
        call = provider.calls[order.call]
        filled = {**parts, "model": order.model}
        path = _path(asking, filled)
        url = _address(provider, path, filled)
        if url is None:
            return Failed(ProviderError("The provider names an address it may not send us to."), None, Reached.ACCEPTED)
        headers, body = {**self._headers[order.provider, order.call], **asking.headers}, _body(asking.body, filled)
        if body is None and asking.method != "GET":  # some servers refuse a type without a body, others no length
            headers.pop("Content-Type", None)
            body = b""
        headers |= self._credential_headers(credential, asking.method, url, headers, body)
        try:
            answered = await self._transport.send(
                asking.method,
                url,
                headers,
                body,
                seconds=_POLL_ANSWER_SECONDS,
                limit=call.answer_limit,
                # An address that an answer named is as foreign as one from a caller.
                guarded=not path.startswith("/"),
            )
        except TransportError as error:
            return msgspec.structs.replace(_failure_of(error), reached=Reached.UNDECIDED)
        redactor = self._credentials.redactor(order.provider, credential)
        return await self._answers.read(order.owner_id, answered, redactor, self._answer_values)

    def _of_credential(self, provider: Provider, credential: Credential, outcome: Outcome) -> Outcome:
        """The outcome of a call that may be about its credential: a problem of the operator, or of the caller."""
        if not isinstance(outcome, Failed) or not isinstance(outcome.fault, ProviderError):
            return outcome
        status = outcome.upstream_status
        if status not in _OF_A_CREDENTIAL:
            return outcome
        if credential.label != OWN:
            self._tell_refused(provider.name, credential.label, status)
            return outcome
        detail = f"The provider refused your own key for {provider.name} with status {status}."
        return msgspec.structs.replace(outcome, fault=msgspec.structs.replace(outcome.fault, detail=detail))

    def _credential_headers(
        self, credential: Credential, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> dict[str, str]:
        """The headers that show a credential with a request that is otherwise complete; BadCredentialError."""
        request = None
        if credential.auth.scheme is Scheme.TC3:  # it signs the request
            request = OutgoingRequest(method, url, headers.get("Content-Type"), body or b"")
        return self._credentials.headers(credential, request)

    async def _download(self, url: str) -> tuple[str, bytes]:
        """A file that a caller names by a link, from public addresses only, and of bounded size."""
        pieces: list[bytes] = []
        try:
            received = await self._transport.fetch(
                url, {}, seconds=_FILE_SECONDS, limit=_FILE_MAX, sink=pieces.append, guarded=True
            )
        except TransportError as error:
            raise UnusableFileError("the link cannot be read") from error
        if received.status // 100 != 2:  # noqa: PLR2004 -- HTTP's class of success
            raise UnusableFileError(f"the link answers {received.status}")
        media_type = received.headers.get("content-type", "").partition(";")[0].strip().lower()
        return media_type, b"".join(pieces)


def _headers_of(provider: Provider, call: Call) -> Mapping[str, str]:
    """The headers of a call that are the same for every request."""
    accepted = {} if call.accept is None else {"Accept": call.accept}
    return {"Content-Type": _JSON, **provider.headers, **call.headers, **accepted}


def _fill_in(template: str, parts: Mapping[str, str]) -> str:
    """A path with its placeholders filled in; a name may hold slashes, a handle's part may not lead elsewhere."""
    if "{" not in template:
        return template
    return _PLACEHOLDER.sub(lambda found: quote(parts[found[1]], safe="/:@" if found[1] == "model" else ""), template)


def _path(asking: Asking, parts: Mapping[str, str]) -> str:
    """The path to poll: the address that the partner named, or the path to use where it named none."""
    named = asking.path[1:].partition("}")[0]
    return asking.path if asking.otherwise is None or named in parts else asking.otherwise


def _address(provider: Provider, path: str, parts: Mapping[str, str]) -> str | None:
    """The URL to poll: below the partner's own address, or one from its answer that may be followed."""
    if path.startswith("/"):
        return provider.base_url + _fill_in(path, parts)
    part, _, rest = path[1:].partition("}")
    url = parts[part] + _fill_in(rest, parts)
    return url if provider.may_follow(url, with_credential=True) else None


def _body(template: str | None, parts: Mapping[str, str]) -> bytes | None:
    """A JSON body with its placeholders filled in, escaped as the texts they stand in need it."""
    if template is None:
        return None
    return _PLACEHOLDER.sub(lambda found: msgspec.json.encode(parts[found[1]]).decode()[1:-1], template).encode()


def _of_accepted(failed: Failed) -> Failed:
    """A failure to ask about work that the partner has taken."""
    return Failed(failed.fault, failed.upstream_status, Reached.ACCEPTED)


def _not_configured(provider: Provider) -> Failed:
    return Failed(
        ServiceUnavailable(f"The provider {provider.name} is not configured on this server."), None, Reached.NOTHING
    )


def _bad_credential(provider: Provider, credential: Credential, error: BadCredentialError) -> Failed:
    if credential.label == OWN:
        return Failed(InvalidInput(f"Your key for {provider.name} cannot be used: {error}."), None, Reached.NOTHING)
    return _not_configured(provider)


def _failure_of(error: TransportError) -> Failed:
    """What a request without a whole answer means to the caller (R-24, R-26)."""
    upstream = Upstream(error.status)
    match error:
        case TooSlowError():
            return Failed(ProviderTimeout(upstream))
        case UnreachableError():
            return Failed(ProviderError("The provider could not be reached."), None, Reached.NOTHING)
        case BrokenOffError():
            detail = "The connection to the provider broke off before its answer was complete."
            return Failed(ProviderError(detail, upstream))
        case _:
            return Failed(ProviderError("The provider's answer could not be read.", upstream))


def _may_pass(failed: Failed, polling: Polling) -> bool:
    """Whether a failed poll says nothing about the task: the next one may succeed."""
    return (
        failed.upstream_status is None
        or failed.upstream_status in _TRANSIENT
        or failed.upstream_status in polling.retried_status
    )
