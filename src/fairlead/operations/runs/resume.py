"""Rebuilds a run from its stored record, after a claim or a takeover."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from fairlead.clock import Clock
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.catalog.operations import Operation
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.ledger.quantities import Pricing
from fairlead.domain.runs.entries import IdempotencyKey, LiveRun
from fairlead.domain.runs.selection import Selection
from fairlead.domain.work.entries import DocumentBlob
from fairlead.fair_shares import FairShares
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.runs.admit import AdmittedRun
from fairlead.operations.runs.large_bodies import LargeBodies, ReadBody
from fairlead.operations.runs.requests import Request, completed_body, plan_leg, with_whole_body
from fairlead.operations.work.stored_documents import DocumentLostError, StoredDocuments
from fairlead.providers.credentials import Credential, Credentials

T = TypeVar("T")

_AT_ONCE: Final = 2
_WAITING_MAX: Final = 10_000
_GONE: Final = ServiceUnavailable("The model can no longer be run as it was asked for; nothing was started or charged.")
_LOST: Final = ServiceUnavailable("The stored request body is lost; nothing was started or charged.")


class CannotResumeError(Exception):
    """A run can no longer be rebuilt; `fault` is the result for its collectors if nothing was started."""

    def __init__(self, fault: ServiceUnavailable = _GONE) -> None:
        super().__init__(fault.detail)
        self.fault = fault


class Resumer(msgspec.Struct, frozen=True):
    """Rebuilds runs.

    `keys_kept_ms` is how long idempotency keys are kept, `base_url` the base of links if that of the caller was not
    stored. `patience` are the pauses (seconds) between attempts to read what is unavailable now: the body, and a
    credential of the caller's own. Few `large` bodies are read at once, and workspaces take turns; how many runs wait
    for that is bounded only by the number of workers.
    """

    catalog: CatalogKeeper
    credentials: Credentials
    own_keys: ProviderKeys
    bodies: LargeBodies
    stored: StoredDocuments
    clock: Clock
    keys_kept_ms: int
    base_url: str
    patience: Sequence[float] = (1.0, 2.0, 4.0, 8.0)
    large: FairShares = msgspec.field(default_factory=lambda: FairShares(_AT_ONCE, _WAITING_MAX, 1))

    async def resume(self, found: LiveRun) -> AdmittedRun:
        """The run as it was admitted.

        CannotResumeError if its model, leg, card, body or own credential is no longer available. A run with its
        caller's own credential continues with that one or not at all: ours is never used in its place (R-17).
        """
        model = self.catalog.current.models.get(found.model_id)
        leg = None if model is None else model.leg(found.provider)
        if model is None or leg is None:
            raise CannotResumeError
        content, read, credential = await self._fetch(found)
        body = read.value if found.strict else completed_body(model, read.value)
        operation = _operation(model, leg, body, found)
        if operation is None:
            raise CannotResumeError
        defaults = model.input_schema.defaults if model.input_schema and not found.strict else {}
        asked = Pricing(body, defaults, len(content), found.operation, found.strict)
        request = Request(found.run_id, model, operation.name, content, asked, found.byok, read.large)
        plan = plan_leg(request, leg, self.clock.today(), found.rate_version)
        if plan is None:
            raise CannotResumeError
        return AdmittedRun(
            run_id=found.run_id,
            workspace_id=found.workspace_id,
            workspace=found.workspace,
            request=request,
            plan=(await with_whole_body(plan, request)).holding(found.hold),
            selection=Selection(_selected_leg(model, leg, found), operation, (), found.strict, found.byok),
            started_at_ns=self.clock.now_ns(),
            attempt=found.attempt,
            key=self._key(found),
            base_url=found.base_url or self.base_url,
            credential=credential,
            is_queued=found.is_queued,
            is_unwanted=found.cancel_requested_at is not None,
            postponed=found.postponed,
            tries=found.tries,
        )

    async def _fetch(self, found: LiveRun) -> tuple[bytes, ReadBody, Credential | None]:
        """The body, its content, and the caller's own credential if the run has one; CannotResumeError."""
        try:
            content, read = await self._body(found)
            return content, read, await self._patiently(partial(self._own, found)) if found.byok else None
        except DocumentLostError as error:
            raise CannotResumeError(_LOST) from error
        except FaultError as error:
            raise CannotResumeError from error

    async def _body(self, found: LiveRun) -> tuple[bytes, ReadBody]:
        """The body, and its content; DocumentLostError, FaultError."""
        if not isinstance(found.request, DocumentBlob):
            return found.request, await self.bodies.read(found.workspace_id, found.request)
        async with self.large.place(found.workspace_id):
            content = await self._patiently(partial(self.stored.read, found.run_id, found.request))
            return content, await self._patiently(partial(self.bodies.read, found.workspace_id, content))

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of an attempt that is repeated within the patience; FaultError if the last one fails."""
        for pause in self.patience:
            try:
                return await attempt()
            except FaultError as error:
                if not isinstance(error.fault, ServiceUnavailable):
                    raise
            await asyncio.sleep(pause)
        return await attempt()

    async def _own(self, found: LiveRun) -> Credential:
        """The caller's own credential; FaultError."""
        text = await self.own_keys.open(found.workspace_id, found.provider)
        return self.credentials.own(found.provider, text)

    def _key(self, found: LiveRun) -> IdempotencyKey | None:
        """The idempotency key of a run: its result is kept as long as that of a key that is used now."""
        if found.key_id is None:
            return None
        # The fingerprint is in the row of the run since its admission, and is not written again.
        return IdempotencyKey(found.key_id, "", self.clock.now_ms() + self.keys_kept_ms)


def _operation(model: Model, leg: Leg, body: dict[str, object], found: LiveRun) -> Operation | None:
    """The operation of a body; None for a strict one that its leg no longer accepts, and that was not sent yet."""
    if not found.strict:
        return model.operation(body)
    if leg.strict is None or (found.handle is None and leg.strict.violations(body, leg.fixed)):
        return None
    return leg.strict.operation(body)


def _selected_leg(model: Model, leg: Leg, found: LiveRun) -> Leg:
    """The leg for which a run was selected: if it was redirected, any other than its present one."""
    if not found.redirected:
        return leg
    return next((other for other in model.legs if other is not leg), leg)
