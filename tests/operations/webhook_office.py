"""What posts webhooks, without its HTTP face, and a verifier of them that shares no line with what signs."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Any, Final

from fairlead.clock import Clock
from fairlead.domain.runs.webhooks import DueDelivery
from fairlead.http_client.addresses import Resolver, resolve
from fairlead.identity.master_secret import MasterSecret
from fairlead.observing.observations import Observation
from fairlead.operations.accounts.webhook_secrets import WebhookSecrets
from fairlead.operations.runs.webhooks import DeliveryLog, Webhooks, allowed_addresses
from fairlead.storage.db.database import Database
from fake_partner import Request
from operations.servers import WatchedTransport
from storage.bookings import NOW

WEEK_MS: Final = 7 * 24 * 3600 * 1000
SLOW_SECONDS: Final = 0.6
"""For those who must not be waited for; any other answer has all the time that a busy machine needs."""
_PATIENT_SECONDS: Final = 30.0
MINUTE_MS: Final = 60_000
_TOLERANCE: Final = 300


class NotVerifiedError(Exception):
    """A message that its receiver must not believe."""


def verify(request: Request, secret: str, now_seconds: int) -> None:
    """Do what the Standard Webhooks specification asks of a receiver; NotVerifiedError."""
    kind, _, encoded = secret.partition("_")
    if kind != "whsec":
        raise NotVerifiedError("no secret")
    name, timestamp = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    if abs(now_seconds - int(timestamp)) > _TOLERANCE:
        raise NotVerifiedError("too old, or of the future")
    mac = hmac.new(base64.b64decode(encoded, validate=True), digestmod=hashlib.sha256)
    for part in (name.encode(), b".", timestamp.encode(), b".", request.body):
        mac.update(part)
    for signature in request.headers["webhook-signature"].split(" "):
        version, _, text = signature.partition(",")
        if version == "v1" and hmac.compare_digest(base64.b64decode(text, validate=True), mac.digest()):
            return
    raise NotVerifiedError("signed by somebody else")


class Office:
    """Webhooks as the server wires them, at a time that stands still until it is moved."""

    def __init__(
        self,
        database: Database,
        *,
        private: bool = True,
        resolver: Resolver = resolve,
        seconds: float = _PATIENT_SECONDS,
    ) -> None:
        """Wire the parts together; most receivers of the tests are on this machine."""
        self.now = NOW + 1000
        self.seen: list[Observation] = []
        self.jitter = 0.0
        self.clock = Clock(lambda: self.now * 1_000_000)
        allows = allowed_addresses(private=private)
        self.transport = WatchedTransport(allows=allows, resolver=resolver)
        self.secrets = WebhookSecrets(database, MasterSecret(bytes(32)), self.clock)
        self.webhooks = Webhooks(
            database, self.transport, allows, self.secrets, self.clock, self.seen.append,
            kept_ms=WEEK_MS, seconds=seconds, jitter=lambda: self.jitter,
        )  # fmt: skip
        self.log = DeliveryLog(database)

    async def round(self, limit: int = 10) -> Sequence[DueDelivery]:
        """Claim what is due, make one try of each, and return what was claimed."""
        claimed = await self.webhooks.claim(limit)
        for due in claimed:
            await self.webhooks.deliver(due)
        return claimed

    def observations_of(self, kind: type) -> list[Any]:
        """Return what was observed of one kind."""
        return [seen for seen in self.seen if type(seen) is kind]

    def move(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now += milliseconds


MakeOffice = Callable[..., Office]
