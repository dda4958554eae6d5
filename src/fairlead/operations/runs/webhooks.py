"""Webhooks: posts the end of a queued run to the URL that its caller named, with retries.

A delivery is claimed for a time, posted, and recorded. When a server dies in between, it is posted again with the same
id: receivers get it at least once, and recognize duplicates by the id.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller, refuse_model
from fairlead.domain.faults import FaultError, RequestNotFound
from fairlead.domain.runs.queue import is_request_id
from fairlead.domain.runs.webhooks import (
    Delivery,
    DueDelivery,
    IPAddress,
    Prospect,
    Try,
    after_try,
    is_of_own_network,
    message_of,
    refuse_url,
    signed_headers,
)
from fairlead.http_client.addresses import is_public
from fairlead.http_client.transport import TooSlowError, Transport, TransportError, UnreachableError
from fairlead.observing.deliveries import WebhookGivenUp, WebhookTried
from fairlead.observing.observations import DatabaseTrouble, Observer, UnexpectedError
from fairlead.operations.accounts.webhook_secrets import WebhookSecrets, available
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.runs import webhooks
from fairlead.storage.runs.queue import queued_run

T = TypeVar("T")

TRY_SECONDS: Final = 15.0
"""How long a receiver has for its whole answer."""
LEASE_MS: Final = 60_000
"""The lease of a claimed delivery: an attempt, and time to record it even on a slow database."""
_ANSWER_BYTES: Final = 64 * 1024
_FORGOTTEN_AT_ONCE: Final = 500


def allowed_addresses(*, private: bool) -> Callable[[IPAddress], bool]:
    """Whether webhooks may be posted to an address: a public one, or also one of a `private` network."""
    return _public_or_own if private else is_public


def _public_or_own(address: IPAddress) -> bool:
    return is_public(address) or is_of_own_network(address)


class Webhooks:
    """Posts deliveries that are due, and reports their outcome.

    `transport` refuses the addresses that `allows` refuses: it connects to the very address it has checked. `kept_ms`
    is how long logs are kept after a delivery's end, `seconds` what a receiver has for its whole answer.
    """

    def __init__(
        self,
        database: Database,
        transport: Transport,
        allows: Callable[[IPAddress], bool],
        secrets: WebhookSecrets,
        clock: Clock,
        observe: Observer,
        *,
        kept_ms: int,
        seconds: float = TRY_SECONDS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._transport = transport
        self._allows = allows
        self._secrets = secrets
        self._clock = clock
        self._observe = observe
        self._kept_ms = kept_ms
        self._seconds = seconds
        self._jitter = jitter

    def check_url(self, url: str) -> None:
        """Refuse a URL that a submit names and that cannot be posted to; FaultError(InvalidInput)."""
        if fault := refuse_url(url, self._allows):
            raise FaultError(fault)

    async def claim(self, limit: int) -> Sequence[DueDelivery]:
        """Claim up to `limit` deliveries that are due, for LEASE_MS. None while the database is away."""
        now = self._clock.now_ms()
        try:
            # This is called every second; a read comes first because it takes no write lock.
            due_at = await self._database.read(webhooks.next_due)
            if due_at is None or due_at > now:
                return ()
            return await self._database.write(lambda c: webhooks.claim_due(c, now, now + LEASE_MS, limit))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("claim webhooks", str(error)))
            return ()

    async def deliver(self, due: DueDelivery) -> None:
        """Make one attempt of a claimed delivery and record it. Raises nothing but cancellation."""
        done = await self._post(due)
        prospect = after_try(due.tries + 1, done, self._clock.now_ms(), self._jitter())
        try:
            if await self._database.write(lambda c: webhooks.record_try(c, due, done, prospect)):
                self._tell(due, done, prospect)
        except DatabaseUnavailableError as error:  # posted again after its lease has run out
            self._observe(DatabaseTrouble("record a webhook", str(error)))
        except Exception as error:  # noqa: BLE001 -- a bug in one delivery must not prevent the others
            self._observe(UnexpectedError(f"record the webhook of {due.run.run_id}", error))

    async def forget(self) -> int:
        """Delete a batch of logs that were kept long enough; how many, 0 when there are none left."""
        before = self._clock.now_ms() - self._kept_ms
        try:
            return await self._database.write(lambda c: webhooks.forget_deliveries(c, before, _FORGOTTEN_AT_ONCE))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("forget webhooks", str(error)))
            return 0

    async def _post(self, due: DueDelivery) -> Try:
        """Post the message once. The receiver's answer is discarded, except for its status."""
        began, loop = self._clock.now_ms(), asyncio.get_running_loop()
        started, status, word = loop.time(), None, None
        try:
            status = await self._status(due, began)
        except TransportError as error:
            word = _word(error)
        except Exception as error:  # noqa: BLE001 -- it counts as an attempt, or it would be repeated forever
            word = "internal_error"
            self._observe(UnexpectedError(f"post the webhook of {due.run.run_id}", error))
        return Try(began, round((loop.time() - started) * 1000), status, word)

    async def _status(self, due: DueDelivery, now: int) -> int:
        body = message_of(due.run)
        headers = signed_headers(self._secrets.signing(due, now), due.run.run_id, now // 1000, body)
        reply = await self._transport.send(
            "POST", due.url, headers, body, seconds=self._seconds, limit=_ANSWER_BYTES, guarded=True
        )
        return reply.status

    def _tell(self, due: DueDelivery, done: Try, prospect: Prospect) -> None:
        run_id, number = due.run.run_id, due.tries + 1
        self._observe(WebhookTried(run_id, number, done.milliseconds, done.status, done.error, done.is_delivered))
        if prospect.gave_up_at is not None:
            self._observe(WebhookGivenUp(run_id, number, done.status, done.error))


class DeliveryLog:
    """The logs of webhooks, for those who operate a receiver. FaultError(ServiceUnavailable) from each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_caller(self, caller: Caller, model_id: str, request_id: str) -> Delivery | None:
        """The webhook of a queued run of the caller's workspace; None if it named none, or the log was deleted.

        FaultError: Forbidden for a model the caller may not run, RequestNotFound for a run that is not of their
        workspace or not of this model.
        """
        if fault := refuse_model(caller, model_id):
            raise FaultError(fault)
        if not is_request_id(request_id):
            raise FaultError(RequestNotFound())
        found = await available(self._database.read(lambda c: queued_run(c, caller.workspace_id, request_id)))
        if found is None or found.model_id != model_id:
            raise FaultError(RequestNotFound())
        return await self.of_run(request_id)

    async def of_run(self, run_id: str) -> Delivery | None:
        """The webhook of a run of any workspace, for operators."""
        return await available(self._database.read(lambda c: webhooks.delivery_of(c, run_id)))


def _word(error: TransportError) -> str:
    """The kind of a failure for the log, without its message, which may have an address of the operator's network."""
    match error:
        case UnreachableError():
            return "unreachable"
        case TooSlowError():
            return "too_slow"
        case _:
            return "broken_off"
