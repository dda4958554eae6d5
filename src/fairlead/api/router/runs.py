"""The synchronous run route, as a raw ASGI application: it is the hot path, and a framework would double its cost."""

import asyncio
import functools
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import unquote

import msgspec

from fairlead.api.http.asgi import (
    REQUEST_ID,
    CallerLeftError,
    Headers,
    Receive,
    Refused,
    Scope,
    Send,
    answer,
    has_left,
    header,
    read_whole,
)
from fairlead.api.http.credentials import CredentialReader
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.headers import (
    CONTENT_TYPE,
    LABELS,
    REPLAYED,
    RESPONSE_COST,
    TOTAL_TOKENS,
    HeaderNames,
    read_labels,
)
from fairlead.api.router.errors import committed_headers, error_response
from fairlead.api.router.generations import Generation
from fairlead.api.router.wire import dropped_text, read_route_options
from fairlead.document_readers import INLINE_BYTES
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.catalog.identifiers import is_model_segment, is_provider_segment
from fairlead.domain.faults import FaultError, InvalidInput, ModelNotFound
from fairlead.domain.ledger.money import as_credits, as_dollars
from fairlead.domain.runs.entries import Committed, IdempotencyKey
from fairlead.domain.runs.outcomes import Completed
from fairlead.domain.runs.replays import KEY_MAX, fingerprint, key_id
from fairlead.domain.runs.selection import RouteOptions
from fairlead.fair_shares import FairShares
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.runs.admit import AdmittedRun, Admitter, RunCommand
from fairlead.operations.runs.execute import Executor
from fairlead.operations.runs.places import RunPlaces
from fairlead.operations.runs.requests import CheckedCall
from fairlead.operations.runs.results import Answer

RunPath: TypeAlias = tuple[Generation, str, str]
"""Where a run is asked for: the generation, and the segments of the path that name the provider and the model."""

_TRACEPARENT_MAX: Final = 64
_HASHED_BYTES: Final = 256 * 1024
PLAIN_JSON: Final = (b"application/json", None)
"""The content types that need no parsing; an absent one stands for JSON."""


def model_id_of(provider: str, model: str) -> str:
    """The model id of two path segments; FaultError(ModelNotFound) for what cannot be one (R-01)."""
    if not (is_provider_segment(provider) and is_model_segment(model)):
        raise FaultError(ModelNotFound(f"{provider[:64]}/{model[:128]}"))
    return f"{provider}/{model}"


@functools.lru_cache(maxsize=1024)
def _model_id_at(provider: str, model: str) -> str:
    """The model id of two raw path segments; only valid ones are cached."""
    return model_id_of(unquote(provider), unquote(model))


class RunHandler(msgspec.Struct, frozen=True):
    """Answers `POST /v?/models/{provider}/{model}`: one model run, its native output forwarded untouched (R-10)."""

    authenticator: Authenticator
    windows: RateWindows
    admitter: Admitter
    executor: Executor
    places: RunPlaces
    names: HeaderNames
    native_aliases: frozenset[str]
    credentials: CredentialReader
    body_limit: int
    body_values: int
    deadline_seconds: float
    base_urls: BaseUrls
    keys_kept_ms: int
    now_ms: Callable[[], int]
    refusals: dict[str, Refused] = msgspec.field(default_factory=dict)
    """The answer under pressure, by the prefix of the generation."""

    async def run(self, scope: Scope, receive: Receive, send: Send, path: RunPath) -> None:
        """Answer one call; FaultError, which the application turns into the answer."""
        generation, provider, name = path
        credential = generation.credential(self.credentials, scope)
        caller = self.authenticator.recall(credential) or await self.authenticator.authenticate(credential)
        self.windows.count(caller.workspace_id, caller.rate_limits)
        query = scope["query_string"] if generation.has_controls else b""
        read_options = partial(read_route_options, query, self.native_aliases) if query else RouteOptions
        call = self.admitter.checks.check_headers(caller, _model_id_at(provider, name), read_options)
        if (content_type := header(scope, b"content-type")) not in PLAIN_JSON:
            check_content_type(content_type)
        content = await read_whole(scope, receive, self.body_limit, self.body_values)
        workspace_id, places = caller.workspace_id, self.places
        if not places.in_progress.try_take(workspace_id):
            await self._wait(places.in_progress, workspace_id, scope, receive)
        try:
            admitted = await self._admit(scope, receive, generation, call, content)
            if isinstance(admitted, AdmittedRun):
                execution = self.executor.start(admitted, has_left=partial(has_left, scope, receive))
                answered = await self.executor.answer_in_time(execution, self.deadline_seconds)
                # The run is settled already; only its answer has nobody to go to.
                if has_left(scope, receive):
                    raise CallerLeftError
                headers, content = self._response(answered, admitted.committed)
            else:
                headers, content = self._response(admitted, None)
        finally:
            places.in_progress.give_back(workspace_id)
        await answer(scope, send, 200, headers, content)

    async def _admit(
        self, scope: Scope, receive: Receive, generation: Generation, call: CheckedCall, content: bytes
    ) -> AdmittedRun | Answer:
        """Admit a run in one of the places for that; FaultError, or CallerLeftError."""
        caller = call.caller
        # A large body waits for a process that reads it, and must not hold up other admissions meanwhile.
        admissions = self.places.admissions if len(content) <= INLINE_BYTES else None
        if admissions is not None and not admissions.try_take(caller.workspace_id):
            await self._wait(admissions, caller.workspace_id, scope, receive)
        try:
            key = None
            if generation.has_controls and (named := header(scope, b"idempotency-key")) is not None:
                key = await idempotency_key_of(named, scope, caller, content, self.now_ms() + self.keys_kept_ms)
            # The base URL by which the caller reached us, if links are to be made, or distinguished from a partner's.
            base_url = self.base_urls.of(scope) if key is not None or call.model.assets.at else ""
            traceparent = None if (trace := header(scope, b"traceparent")) is None else traceparent_of(trace)
            labels = None
            if generation.has_controls and (named := header(scope, LABELS)) is not None:
                labels = labels_of(named)
            command = RunCommand(scope[REQUEST_ID], content, key, base_url, traceparent, labels)
            return await self.admitter.admit(call, command)
        finally:
            if admissions is not None:
                admissions.give_back(caller.workspace_id)

    async def _wait(self, places: FairShares, workspace_id: str, scope: Scope, receive: Receive) -> None:
        """Wait for one of the places; FaultError, or CallerLeftError where the caller has left meanwhile."""
        await self.places.wait(places, workspace_id)
        if has_left(scope, receive):
            places.give_back(workspace_id)
            raise CallerLeftError

    def refuse_at_once(self, scope: Scope, generation: Generation) -> Refused | None:
        """The refusal of a run by its head alone, where the server is under pressure; None where it goes on.

        Thousands a second may be refused like this, so the answer is made once, and no refusal is logged.
        """
        try:
            caller = self.authenticator.recall(generation.credential(self.credentials, scope))
        except FaultError:
            return None
        if caller is None or not self.places.refuses(caller.workspace_id):
            return None
        if (refusal := self.refusals.get(generation.prefix)) is None:
            status, headers, content = error_response(self.places.refusal, generation, self.names)
            refusal = status, [*headers, (b"content-length", b"%d" % len(content))], content
            self.refusals[generation.prefix] = refusal
        return refusal

    def _response(self, answered: Answer, committed: Committed | None) -> tuple[Headers, bytes]:
        """The headers and the body of a success; FaultError for anything else."""
        outcome = answered.outcome
        if not isinstance(outcome, Completed):
            raise FaultError(outcome.fault, is_replay=answered.is_replay)
        names = self.names
        headers: Headers = [(CONTENT_TYPE, outcome.content_type.encode("latin-1", "replace"))]
        if answered.charge is not None:
            headers.append((names.credits_used, as_credits(answered.charge).encode()))
            if not answered.is_replay:  # which a gateway in front would count again
                headers += ((RESPONSE_COST, as_dollars(answered.charge).encode()), TOTAL_TOKENS)
        if answered.dropped:
            headers.append((names.router_dropped_params, dropped_text(answered.dropped)))
        if answered.fallback_provider is not None:
            headers.append((names.router_fallback_provider, answered.fallback_provider.encode()))
        if answered.is_replay:
            headers.append(REPLAYED)
        if committed is not None:
            headers += committed_headers(committed.limit, committed.committed)
        return headers, outcome.content


def check_content_type(value: bytes | None) -> None:
    """Take JSON only: a form or a text that happens to parse was not meant for this API. FaultError(InvalidInput)."""
    if value in PLAIN_JSON:
        return
    media_type = value.partition(b";")[0].strip().lower()
    if media_type != b"application/json" and not media_type.endswith(b"+json"):
        shown = media_type[:80].decode("latin-1")
        raise FaultError(InvalidInput(f"Send the body as application/json, not {shown}."))


async def idempotency_key_of(
    value: bytes, scope: Scope, caller: Caller, content: bytes, expires_at: int
) -> IdempotencyKey:
    """The idempotency key that a call names (R-18), kept until a time (ms); FaultError(InvalidInput) for a bad one."""
    if not 1 <= len(value) <= KEY_MAX:
        raise FaultError(InvalidInput(f"Idempotency-Key must have 1 to {KEY_MAX} characters."))
    parts = (scope["method"], scope["raw_path"], scope["query_string"], content)
    # The digest of a large body is computed in a thread, without the interpreter lock.
    digest = fingerprint(*parts) if len(content) <= _HASHED_BYTES else await asyncio.to_thread(fingerprint, *parts)
    return IdempotencyKey(key_id(caller.workspace_id, value.decode("latin-1")), digest, expires_at)


def labels_of(value: bytes) -> str | None:
    """The labels that a call gives its run, as JSON, None for none; FaultError(InvalidInput)."""
    labels = read_labels(value)
    return msgspec.json.encode(dict(sorted(labels.items()))).decode() if labels else None


def traceparent_of(value: bytes | None) -> str | None:
    """The trace a call belongs to, where its `traceparent` names one (W3C Trace Context)."""
    return value.decode("ascii", "replace") if value is not None and len(value) <= _TRACEPARENT_MAX else None
