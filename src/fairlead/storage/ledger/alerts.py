"""Stored alerts, their channels, and the deliveries of each."""

import datetime
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, literal, select, update

from fairlead.domain.ledger.alerts import Alert, AlertKind, ChannelKind, read_figures
from fairlead.storage.db.budget_tables import alert_channels, alert_deliveries, alerts
from fairlead.storage.db.statements import insert_into
from fairlead.storage.db.tables import usage_days, workspaces

_UNDONE: Final = alert_deliveries.c.next_at.is_not(None)


class TooManyChannelsError(Exception):
    """The workspace has as many alert channels as it may."""


class UnknownChannelError(Exception):
    """The workspace has no alert channel of this id."""


class NewAlert(NamedTuple):
    """An alert to be sent; `once` is the key of what is sent only once, `figures` is JSON."""

    workspace_id: str
    kind: AlertKind
    budget_id: str | None
    once: str
    figures: str
    at: int


class Channel(msgspec.Struct, frozen=True):
    """A channel of a workspace: its sealed address, and what may be shown of it."""

    id: str
    workspace_id: str
    kind: ChannelKind
    sealed: bytes
    shown: str
    created_at: int


class DueAlert(msgspec.Struct, frozen=True):
    """A delivery that a server has claimed until `lease` (ms): its alert and channel, after `tries` attempts."""

    id: int
    alert: Alert
    channel: Channel
    tries: int
    lease: int


class TellingResult(NamedTuple):
    """The outcome of one attempt, and what is left to do after it."""

    status: int | None
    error: str | None
    next_at: int | None
    delivered_at: int | None
    gave_up_at: int | None


class Telling(msgspec.Struct, frozen=True):
    """The delivery of an alert by a channel; of a deleted channel only the id is known."""

    channel_id: str
    kind: str | None
    shown: str | None
    tries: int
    result: TellingResult


class ToldAlert(msgspec.Struct, frozen=True):
    """An alert, the budget that it is about where there is one, and its deliveries."""

    alert: Alert
    budget_id: str | None
    deliveries: list[Telling]


def tell(connection: Connection, new: Sequence[NewAlert], channel_id: str | None = None) -> int:
    """Store alerts, to be sent by every channel of their workspace, or by one; returns how many are new.

    An alert is durable with the transaction that found its reason.
    """
    kept = 0
    for one in new:
        alert_id = connection.scalar(
            insert_into(connection, alerts)
            .values(one._asdict())
            .on_conflict_do_nothing(index_elements=[alerts.c.once])
            .returning(alerts.c.id)
        )
        if alert_id is None:
            continue
        kept += 1
        due = select(literal(alert_id), alert_channels.c.id, literal(one.at)).where(
            alert_channels.c.workspace_id == one.workspace_id
        )
        if channel_id is not None:
            due = due.where(alert_channels.c.id == channel_id)
        connection.execute(insert(alert_deliveries).from_select(["alert_id", "channel_id", "next_at"], due))
    return kept


def list_alerts(connection: Connection, workspace_id: str, before: int | None, limit: int) -> list[ToldAlert]:
    """Up to `limit` alerts of a workspace, the newest first, each with its deliveries; those before one of them."""
    mine = (
        select(alerts, workspaces.c.name)
        .join(workspaces, workspaces.c.id == alerts.c.workspace_id)
        .where(alerts.c.workspace_id == workspace_id)
    )
    if before is not None:
        mine = mine.where(alerts.c.id < before)
    rows = connection.execute(mine.order_by(alerts.c.id.desc()).limit(limit)).all()
    deliveries: dict[int, list[Telling]] = {row.id: [] for row in rows}
    told = (
        select(alert_deliveries, alert_channels.c.kind, alert_channels.c.shown)
        .outerjoin(alert_channels, alert_channels.c.id == alert_deliveries.c.channel_id)
        .where(alert_deliveries.c.alert_id.in_(deliveries))
        .order_by(alert_deliveries.c.id)
    )
    for row in connection.execute(told):
        result = TellingResult(row.status, row.error, row.next_at, row.delivered_at, row.gave_up_at)
        deliveries[row.alert_id].append(Telling(row.channel_id, row.kind, row.shown, row.tries, result))
    return [ToldAlert(_alert(row), row.budget_id, deliveries[row.id]) for row in rows]


def add_channel(connection: Connection, channel: Channel, most: int) -> None:
    """Add a channel; TooManyChannelsError where the workspace has as many as it may."""
    have = select(func.count()).where(alert_channels.c.workspace_id == channel.workspace_id)
    connection.execute(select(workspaces.c.id).where(workspaces.c.id == channel.workspace_id).with_for_update())
    if connection.execute(have).scalar_one() >= most:
        raise TooManyChannelsError(most)
    connection.execute(insert(alert_channels).values(msgspec.structs.asdict(channel)))


def delete_channel(connection: Connection, workspace_id: str, channel_id: str) -> None:
    """Delete a channel with its pending deliveries; UnknownChannelError."""
    mine = alert_channels.c.id == channel_id, alert_channels.c.workspace_id == workspace_id
    if connection.execute(delete(alert_channels).where(*mine)).rowcount == 0:
        raise UnknownChannelError(channel_id)
    connection.execute(
        update(alert_deliveries).where(alert_deliveries.c.channel_id == channel_id, _UNDONE).values(next_at=None)
    )


def list_channels(connection: Connection, workspace_id: str) -> list[Channel]:
    """The channels of a workspace, the oldest first."""
    mine = select(alert_channels).where(alert_channels.c.workspace_id == workspace_id)
    return [_channel(row) for row in connection.execute(mine.order_by(alert_channels.c.id))]


def next_due(connection: Connection) -> int | None:
    """When the next delivery is due (ms); None where none is pending."""
    found: int | None = connection.execute(select(func.min(alert_deliveries.c.next_at)).where(_UNDONE)).scalar()
    return found


def claim_due(connection: Connection, now: int, lease: int, limit: int) -> list[DueAlert]:
    """Claim up to `limit` deliveries that are due, oldest first; no other server gets them until `lease` (ms).

    A server that claims them and dies leaves them to be claimed again then.
    """
    due = connection.execute(
        select(
            alert_deliveries.c.id.label("delivery_id"),
            alert_deliveries.c.alert_id,
            alert_deliveries.c.tries,
            alerts.c.kind.label("alert_kind"),
            alerts.c.figures,
            alerts.c.at,
            workspaces.c.name,
            alert_channels,
        )
        .join(alerts, alerts.c.id == alert_deliveries.c.alert_id)
        .join(alert_channels, alert_channels.c.id == alert_deliveries.c.channel_id)
        .join(workspaces, workspaces.c.id == alerts.c.workspace_id)
        .where(alert_deliveries.c.next_at <= now)
        .order_by(alert_deliveries.c.next_at)
        .limit(limit)
        .with_for_update(skip_locked=True, of=alert_deliveries)
    ).all()
    for row in due:
        connection.execute(
            update(alert_deliveries).where(alert_deliveries.c.id == row.delivery_id).values(next_at=lease)
        )
    return [_due(row, lease) for row in due]


def record_try(connection: Connection, due: DueAlert, result: TellingResult) -> bool:
    """Write the outcome of an attempt; False, and nothing written, where another server has the delivery by now.

    A success ends it nevertheless.
    """
    mine = [alert_deliveries.c.id == due.id, _UNDONE]
    if result.delivered_at is None:
        mine.append(alert_deliveries.c.next_at == due.lease)
    done = connection.execute(
        update(alert_deliveries).where(*mine).values(**result._asdict(), tries=alert_deliveries.c.tries + 1)
    )
    return done.rowcount > 0


def forget_alerts(connection: Connection, before: int, limit: int) -> int:
    """Delete alerts from before a time (ms) without pending deliveries; returns how many."""
    oldest = select(alerts.c.id, alerts.c.at).order_by(alerts.c.id).limit(limit).subquery()
    waits = select(alert_deliveries.c.alert_id).where(_UNDONE, alert_deliveries.c.alert_id == oldest.c.id).exists()
    old = connection.execute(select(oldest.c.id).where(oldest.c.at < before, ~waits)).scalars().all()
    if old:
        connection.execute(delete(alert_deliveries).where(alert_deliveries.c.alert_id.in_(old)))
        connection.execute(delete(alerts).where(alerts.c.id.in_(old)))
    return len(old)


def watched_workspaces(connection: Connection, after: str, limit: int) -> list[str]:
    """Up to `limit` workspaces with alert channels, after one of them, in the order of their ids."""
    found = select(alert_channels.c.workspace_id).where(alert_channels.c.workspace_id > after).distinct()
    return list(connection.execute(found.order_by(alert_channels.c.workspace_id).limit(limit)).scalars())


def spending_by_day(connection: Connection, workspace_id: str, first: datetime.date) -> dict[str, int]:
    """What a workspace was charged on each day from one on, where it was anything."""
    sums = (
        select(usage_days.c.day, func.sum(usage_days.c.charge))
        .where(usage_days.c.workspace_id == workspace_id, usage_days.c.day >= first.isoformat())
        .group_by(usage_days.c.day)
    )
    return {day: int(charge) for day, charge in connection.execute(sums) if charge}


def _due(row: Row[*tuple[object, ...]], lease: int) -> DueAlert:
    kind = AlertKind(row.alert_kind)
    alert = Alert(row.alert_id, row.name, kind, read_figures(kind, row.figures), row.at)
    return DueAlert(row.delivery_id, alert, _channel(row), row.tries, lease)


def _alert(row: Row[*tuple[object, ...]]) -> Alert:
    kind = AlertKind(row.kind)
    return Alert(row.id, row.name, kind, read_figures(kind, row.figures), row.at)


def _channel(row: Row[*tuple[object, ...]]) -> Channel:
    return Channel(row.id, row.workspace_id, ChannelKind(row.kind), row.sealed, row.shown, row.created_at)
