"""Wiring of deliveries: webhooks of runs, alerts about money, and invitations."""

from contextlib import AsyncExitStack
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.runs.webhooks import DueDelivery
from fairlead.http_client.transport import Transport
from fairlead.identity.master_secret import Secrets
from fairlead.mail import Mailer, MailServer
from fairlead.operations.accounts.invitations import Invitations
from fairlead.operations.accounts.webhook_secrets import WebhookSecrets
from fairlead.operations.ledger.alerts import AlertChannels, AlertTeller, DueAlert
from fairlead.operations.outages import AnsweringDatabase
from fairlead.operations.runs.webhooks import Webhooks, allowed_addresses
from fairlead.server.base import Base, start_background
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database
from fairlead.workers.deliveries import Poster
from fairlead.workers.periodic import run_periodically

HOUR_MS: Final = 3_600_000
_UNUSUAL_SECONDS: Final = 300.0
"""How often the spending of this day is compared with the usual."""


class Posting(msgspec.Struct, frozen=True):
    """The senders of webhooks and alerts, and their logs."""

    webhooks: Webhooks
    webhook_secrets: WebhookSecrets
    webhook_poster: Poster[DueDelivery]
    channels: AlertChannels
    teller: AlertTeller
    alert_poster: Poster[DueAlert]
    mailer: Mailer | None

    def start(self, base: Base, stack: AsyncExitStack) -> None:
        """Begin to post; the stack ends it."""
        looks = run_periodically(
            self.teller.look_for_unusual_days, _UNUSUAL_SECONDS, "look for unusual days", base.observe
        )
        for work in (self.webhook_poster.work(), self.alert_poster.work(), looks):
            start_background(stack, work)


def ready_posting(settings: Settings, base: Base, stack: AsyncExitStack) -> Posting:
    """Wire the deliveries; the stack closes their connections."""
    allows = allowed_addresses(private=settings.webhook_private_addresses)
    transport = Transport(allows=allows)
    stack.push_async_callback(transport.close)
    database, clock, observe = base.database, base.clock, base.observe
    secrets, mailer = WebhookSecrets(database, base.secret, clock), mailer_of(settings)
    kept_ms = int(settings.results_hours * HOUR_MS)
    webhooks = Webhooks(database, transport, allows, secrets, clock, observe, kept_ms=kept_ms)
    teller = AlertTeller(database, transport, mailer, base.secret, secrets.signing_of, clock, observe)
    return Posting(
        webhooks=webhooks,
        webhook_secrets=secrets,
        webhook_poster=Poster(webhooks, "webhooks", observe),
        channels=alert_channels(settings, AnsweringDatabase(database), base.secret, clock),
        teller=teller,
        alert_poster=Poster(teller, "alerts", observe),
        mailer=mailer,
    )


def alert_channels(
    settings: Settings, database: Database | AnsweringDatabase, secret: Secrets, clock: Clock
) -> AlertChannels:
    """The alert channels of an installation, for its servers and its commands."""
    allows = allowed_addresses(private=settings.webhook_private_addresses)
    return AlertChannels(database, secret, allows, clock, can_mail=settings.smtp_host is not None)


def invitations_of(
    settings: Settings, database: Database | AnsweringDatabase, clock: Clock, mailer: Mailer | None
) -> Invitations:
    """The invitations of an installation, for its servers and its commands."""
    lasts_ms = round(settings.invitation_hours * HOUR_MS)
    return Invitations(database, clock, lasts_ms, mailer, settings.public_base_url)


def mailer_of(settings: Settings) -> Mailer | None:
    """What sends e-mail to the mail server of the settings, where there is one."""
    if settings.smtp_host is None:
        return None
    return Mailer(
        MailServer(
            settings.smtp_host,
            settings.smtp_port,
            settings.smtp_security,
            settings.smtp_sender,
            settings.smtp_user,
            settings.smtp_password,
        )
    )
