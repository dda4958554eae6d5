"""Observations of deliveries: webhooks of runs, alerts about money, and messages between servers."""

from typing import TypeAlias

import msgspec


class WebhookTried(msgspec.Struct, frozen=True):
    """A webhook was posted: the number of the attempt, how long it took, the receiver's status or why there is none."""

    run_id: str
    number: int
    milliseconds: int
    status: int | None
    error: str | None
    delivered: bool


class WebhookGivenUp(msgspec.Struct, frozen=True):
    """A webhook was not delivered and is not tried again; the status or the error of its last attempt."""

    run_id: str
    number: int
    status: int | None
    error: str | None


class AlertTried(msgspec.Struct, frozen=True):
    """An alert was sent by a channel: its kind, the number of the attempt, the answer, or why there is none."""

    alert_id: int
    channel: str
    number: int
    status: int | None
    error: str | None
    delivered: bool


class AlertGivenUp(msgspec.Struct, frozen=True):
    """An alert was not delivered by a channel and is not tried again; the status or the error of the last attempt."""

    alert_id: int
    channel: str
    number: int
    status: int | None
    error: str | None


class MessengerConnected(msgspec.Struct, frozen=True):
    """Messages of other servers come, and go to them, over a NATS server."""

    server: str


class MessengerLost(msgspec.Struct, frozen=True):
    """No NATS server can be used; servers read each other's events from the database until one can."""

    reason: str


Delivery: TypeAlias = WebhookTried | WebhookGivenUp | AlertTried | AlertGivenUp | MessengerConnected | MessengerLost
