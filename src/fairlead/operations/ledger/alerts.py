"""Alerts: the channels of workspaces, and the delivery of each alert, with a bounded number of attempts.

A delivery is claimed for a time, made, and recorded, like webhooks of runs (`operations/runs/webhooks.py`). If a server
dies in between, it is made again under the same name.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.days import DAY_MS
from fairlead.domain.ledger.alerts import (
    CHANNELS_MAX,
    TARGET_CHARACTERS_MAX,
    Alert,
    AlertKind,
    ChannelKind,
    document_of_alert,
    is_email,
    message_of_alert,
    unusual_day,
    usual_days,
)
from fairlead.domain.runs.webhooks import IPAddress, Try, after_try, refuse_url, signed_headers
from fairlead.http_client.transport import TooSlowError, Transport, TransportError, UnreachableError
from fairlead.identity.master_secret import Secrets
from fairlead.identity.sealing import CannotOpenError, Sealer
from fairlead.mail import Mailer, MailError
from fairlead.observing.deliveries import AlertGivenUp, AlertTried
from fairlead.observing.observations import DatabaseTrouble, Observer, UnexpectedError
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.ledger import alerts
from fairlead.storage.ledger.alerts import (
    Channel,
    DueAlert,
    NewAlert,
    TellingResult,
    ToldAlert,
    TooManyChannelsError,
    UnknownChannelError,
)

__all__ = [
    "AlertChannels",
    "AlertTeller",
    "BadChannelError",
    "Channel",
    "DueAlert",
    "TellingResult",
    "ToldAlert",
    "UnknownChannelError",
]

SignWith: TypeAlias = Callable[[str, int], Awaitable[Sequence[bytes]]]
"""Returns the secrets that sign a workspace's webhooks (by its id) at a time (ms), the newest first."""
LEASE_MS: Final = 120_000
"""The lease of a claimed delivery: an attempt, and time to record it even on a slow database."""
_SECONDS: Final = 15.0
_KEPT_MS: Final = 400 * DAY_MS
_ANSWER_BYTES: Final = 64 * 1024
_FORGOTTEN_AT_ONCE: Final = 500
_WATCHED_AT_ONCE: Final = 100
_ENDING: Final = 4


class BadChannelError(Exception):
    """An alert channel is not valid; `field` says what is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class AlertChannels:
    """The alert channels of workspaces, as their owners see and change them.

    `allows` says which addresses webhooks may lead to; `can_mail` whether there is a mail server.
    """

    def __init__(
        self, database: Database, secrets: Secrets, allows: Callable[[IPAddress], bool], clock: Clock, *, can_mail: bool
    ) -> None:
        self._database = database
        self._sealer = Sealer(secrets)
        self._allows = allows
        self._clock = clock
        self._can_mail = can_mail

    async def list_channels(self, workspace_id: str) -> list[Channel]:
        """The channels of a workspace, the oldest first."""
        return await self._database.read(lambda c: alerts.list_channels(c, workspace_id))

    async def add(self, workspace_id: str, kind: ChannelKind, target: str, by: Actor) -> Channel:
        """Add a channel, whose address is stored sealed; BadChannelError."""
        shown, id_ = self._check(kind, target), new_id()
        sealed = self._sealer.seal(workspace_id, name_of(id_), target)
        channel = Channel(id_, workspace_id, kind, sealed, shown, self._clock.now_ms())
        act = Act("alert_channel.created", workspace_id, id_, {"kind": kind.value, "shown": shown})
        work = partial(alerts.add_channel, channel=channel, most=CHANNELS_MAX)
        try:
            await self._database.write(with_entry(work, by, lambda _: act, channel.created_at))
        except TooManyChannelsError as error:
            raise BadChannelError("kind", f"A workspace has at most {CHANNELS_MAX} alert channels.") from error
        return channel

    async def delete(self, workspace_id: str, channel_id: str, by: Actor) -> None:
        """Delete a channel and its pending deliveries; UnknownChannelError."""
        work = partial(alerts.delete_channel, workspace_id=workspace_id, channel_id=channel_id)
        act = Act("alert_channel.deleted", workspace_id, channel_id)
        await self._database.write(with_entry(work, by, lambda _: act, self._clock.now_ms()))

    async def test(self, workspace_id: str, channel_id: str, by: Actor) -> None:
        """Send a test alert by one channel; its outcome is listed with the alerts. UnknownChannelError."""
        if not any(one.id == channel_id for one in await self.list_channels(workspace_id)):
            raise UnknownChannelError(channel_id)
        now = self._clock.now_ms()
        test = NewAlert(workspace_id, AlertKind.TEST, None, f"test {new_id()}", "{}", now)
        act = Act("alert_channel.tested", workspace_id, channel_id)
        work = partial(alerts.tell, new=[test], channel_id=channel_id)
        await self._database.write(with_entry(work, by, lambda _: act, now))

    async def list_alerts(self, workspace_id: str, before: int | None, limit: int) -> list[ToldAlert]:
        """Up to `limit` alerts of a workspace with their deliveries, the newest first, before a given one."""
        return await self._database.read(lambda c: alerts.list_alerts(c, workspace_id, before, limit))

    def _check(self, kind: ChannelKind, target: str) -> str:
        """The part of an address that may be shown; BadChannelError for an address that cannot be used."""
        if len(target) > TARGET_CHARACTERS_MAX:
            raise BadChannelError("target", f"An address has at most {TARGET_CHARACTERS_MAX} characters.")
        if kind is ChannelKind.EMAIL:
            if not self._can_mail:
                raise BadChannelError("kind", "This server has no mail server (FAIRLEAD_SMTP_HOST).")
            if not is_email(target):
                raise BadChannelError("target", "This is not an e-mail address.")
            return target
        if fault := refuse_url(target, self._allows, "target"):
            raise BadChannelError("target", fault.detail)
        parts = urlsplit(target)
        return f"{parts.scheme}://{parts.netloc}/…{target[-_ENDING:]}"


class AlertTeller:
    """Delivers alerts that are due, and finds days with unusual spending.

    `transport` refuses addresses that are not public, as for webhooks of runs; `sign` returns the secrets of a
    workspace.
    """

    def __init__(
        self,
        database: Database,
        transport: Transport,
        mailer: Mailer | None,
        secrets: Secrets,
        sign: SignWith,
        clock: Clock,
        observe: Observer,
        *,
        seconds: float = _SECONDS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._transport = transport
        self._mailer = mailer
        self._sealer = Sealer(secrets)
        self._sign = sign
        self._clock = clock
        self._observe = observe
        self._seconds = seconds
        self._jitter = jitter

    async def claim(self, limit: int) -> Sequence[DueAlert]:
        """Claim up to `limit` deliveries that are due, for LEASE_MS. None while the database is unavailable."""
        now = self._clock.now_ms()
        try:
            # This is called every second; a read comes first because it takes no write lock.
            due_at = await self._database.read(alerts.next_due)
            if due_at is None or due_at > now:
                return ()
            return await self._database.write(lambda c: alerts.claim_due(c, now, now + LEASE_MS, limit))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("claim alerts", str(error)))
            return ()

    async def deliver(self, due: DueAlert) -> None:
        """Make one attempt at a claimed delivery and record it. Raises nothing but cancellation."""
        try:
            done = await self._try(due)
            left = after_try(due.tries + 1, done, self._clock.now_ms(), self._jitter())
            result = TellingResult(done.status, done.error, left.next_at, left.delivered_at, left.gave_up_at)
            if await self._database.write(lambda c: alerts.record_try(c, due, result)):
                self._report(due, result)
        except DatabaseUnavailableError as error:  # sent again after its lease has run out
            self._observe(DatabaseTrouble("record an alert", str(error)))
        except Exception as error:  # noqa: BLE001 -- a bug in one delivery must not prevent the others
            self._observe(UnexpectedError(f"tell alert {due.alert.id}", error))

    async def forget(self) -> int:
        """Delete a batch of alerts that were kept long enough; returns how many, 0 when none are left."""
        before = self._clock.now_ms() - _KEPT_MS
        try:
            return await self._database.write(lambda c: alerts.forget_alerts(c, before, _FORGOTTEN_AT_ONCE))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("forget alerts", str(error)))
            return 0

    async def look_for_unusual_days(self) -> None:
        """Once a day, make an alert for each workspace with a channel that has spent far more than usual."""
        try:
            after = ""
            while found := await self._database.read(
                partial(alerts.watched_workspaces, after=after, limit=_WATCHED_AT_ONCE)
            ):
                for workspace_id in found:
                    await self._look_at(workspace_id)
                after = found[-1]
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("look for unusual days", str(error)))

    async def _look_at(self, workspace_id: str) -> None:
        now = self._clock.now_ms()
        today, first = usual_days(now)
        spent = await self._database.read(lambda c: alerts.spending_by_day(c, workspace_id, first))
        figures = unusual_day(today, spent.pop(today.isoformat(), 0), list(spent.values()))
        if figures is None:
            return
        once, text = f"{workspace_id} {figures.day} anomaly", msgspec.json.encode(figures).decode()
        alert = NewAlert(workspace_id, AlertKind.ANOMALY, None, once, text, now)
        await self._database.write(lambda c: alerts.tell(c, [alert]))

    async def _try(self, due: DueAlert) -> Try:
        """Make one attempt. The receiver's answer is discarded, except for its status."""
        began, status, word = self._clock.now_ms(), None, None
        try:
            target = self._sealer.open(due.channel.workspace_id, name_of(due.channel.id), due.channel.sealed)
            status = await self._send(due, target, began)
        except CannotOpenError:
            word = "unreadable_address"
        except MailError as error:
            status, word = error.code, error.word
        except UnreachableError:
            word = "unreachable"
        except TooSlowError:
            word = "too_slow"
        except TransportError:
            word = "broken_off"
        return Try(began, self._clock.now_ms() - began, status, word)

    async def _send(self, due: DueAlert, target: str, now: int) -> int:
        alert, name = due.alert, f"alert-{due.alert.id}"
        match due.channel.kind:
            case ChannelKind.EMAIL:
                if self._mailer is None:
                    raise MailError(None, "no_mail_server")
                text = f"{message_of_alert(alert)}\n\n{document_of_alert(alert)['timestamp']}\n"
                return await self._mailer.send(target, _subject(alert), text, f"{name}-{due.channel.id}")
            case ChannelKind.SLACK:
                body = msgspec.json.encode({"text": message_of_alert(alert)})
                headers = {"Content-Type": "application/json"}
            case ChannelKind.WEBHOOK:
                body = msgspec.json.encode(document_of_alert(alert))
                secrets = await self._sign(due.channel.workspace_id, now)
                headers = {**signed_headers(secrets, name, now // 1000, body)}
        reply = await self._transport.send(
            "POST", target, headers, body, seconds=self._seconds, limit=_ANSWER_BYTES, guarded=True
        )
        return reply.status

    def _report(self, due: DueAlert, result: TellingResult) -> None:
        number, kind, delivered = due.tries + 1, due.channel.kind.value, result.delivered_at is not None
        self._observe(AlertTried(due.alert.id, kind, number, result.status, result.error, delivered))
        if result.gave_up_at is not None:
            self._observe(AlertGivenUp(due.alert.id, kind, number, result.status, result.error))


def name_of(channel_id: str) -> str:
    """The name under which a channel's address is sealed (`storage/accounts/sealed_rows.py`)."""
    return f"alert channel {channel_id}"


def _subject(alert: Alert) -> str:
    what = {
        AlertKind.THRESHOLD: "a budget has come to a threshold",
        AlertKind.REFUSAL: "a budget refuses runs",
        AlertKind.ANOMALY: "an unusual day",
        AlertKind.TEST: "a test",
    }
    return f"Fairlead, {alert.workspace}: {what[alert.kind]}"
