"""Stored webhooks: the URL, the next attempt, and the outcome of each attempt."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from fairlead.domain.runs.states import RunState
from fairlead.domain.runs.webhooks import Delivery, DueDelivery, EndedRun, KeptSecrets, Prospect, Try
from fairlead.storage.accounts.sealed_rows import (
    find_origin,
    forget_webhook_secrets,
    keep_webhook_secrets,
    webhook_secrets_of,
)
from fairlead.storage.db.statements import Prepared
from fairlead.storage.db.tables import runs, webhook_deliveries, webhook_tries, workspaces

INSERT_DELIVERY: Final = Prepared(insert(webhook_deliveries), ("run_id", "workspace_id", "url", "tries"))
"""A run with a webhook is admitted."""
DELIVERY_IS_DUE: Final = Prepared(
    update(webhook_deliveries)
    .where(webhook_deliveries.c.run_id == bindparam("run"))
    .values(next_at=bindparam("new_next_at")),
    ("new_next_at", "run"),
    primary_key="run",
)
"""A run has ended: its webhook may be posted from a time (ms) on. Nothing where it has none."""
_CLAIMABLE: Final = (
    select(
        webhook_deliveries.c.run_id,
        webhook_deliveries.c.workspace_id,
        webhook_deliveries.c.url,
        webhook_deliveries.c.tries,
        workspaces.c.webhook_secret,
        workspaces.c.webhook_rotated_at,
        runs.c.model_id,
        runs.c.state,
        runs.c.reason,
        runs.c.finished_at,
        runs.c.base_url,
    )
    .join(runs, runs.c.id == webhook_deliveries.c.run_id)
    .join(workspaces, workspaces.c.id == webhook_deliveries.c.workspace_id)
)


class SecretNumber(NamedTuple):
    """Which secret a workspace signs with: how often it was rotated, and when last (ms)."""

    number: int
    rotated_at: int | None


def next_due(connection: Connection) -> int | None:
    """When the next delivery is due (ms); None where none is pending."""
    found: int | None = connection.execute(
        select(func.min(webhook_deliveries.c.next_at)).where(webhook_deliveries.c.next_at.is_not(None))
    ).scalar()
    return found


def claim_due(connection: Connection, now: int, lease: int, limit: int) -> list[DueDelivery]:
    """Claim up to `limit` deliveries that are due, oldest first; no other server gets them until `lease` (ms).

    A server that claims them and dies leaves them to be claimed again then.
    """
    due = connection.execute(
        _CLAIMABLE.where(webhook_deliveries.c.next_at <= now)
        .order_by(webhook_deliveries.c.next_at)
        .limit(limit)
        .with_for_update(skip_locked=True, of=webhook_deliveries)
    ).all()
    DELIVERY_IS_DUE.run(connection, [(lease, row.run_id) for row in due])
    if not due:
        return []
    sealed, origin = webhook_secrets_of(connection, {row.workspace_id for row in due}), find_origin(connection)
    return [_due_delivery(row, lease, KeptSecrets(sealed[row.workspace_id], origin)) for row in due]


def _due_delivery(row: Any, lease: int, kept: KeptSecrets) -> DueDelivery:
    ended = EndedRun(
        row.run_id, row.model_id, RunState(row.state), row.reason or "", row.finished_at or 0, row.base_url or ""
    )
    return DueDelivery(
        row.workspace_id, row.url, row.tries, lease, row.webhook_secret, row.webhook_rotated_at, ended, kept
    )


def record_try(connection: Connection, due: DueDelivery, done: Try, prospect: Prospect) -> bool:
    """Write an attempt and what is left to do after it; False, and nothing written, where it no longer counts.

    After its lease another server has the delivery, so that a failure does not matter; a success ends it nevertheless.
    """
    mine = webhook_deliveries.c.run_id == due.run.run_id
    found = connection.execute(
        select(webhook_deliveries.c.tries, webhook_deliveries.c.next_at)
        .where(mine, webhook_deliveries.c.next_at.is_not(None))
        .with_for_update()
    ).first()
    if found is None or (found.next_at != due.lease and prospect.delivered_at is None):
        return False
    number = found.tries + 1
    connection.execute(
        insert(webhook_tries).values(
            run_id=due.run.run_id,
            number=number,
            at=done.at,
            milliseconds=done.milliseconds,
            status=done.status,
            error=done.error,
        )
    )
    connection.execute(
        update(webhook_deliveries)
        .where(mine)
        .values(
            tries=number,
            next_at=prospect.next_at,
            delivered_at=prospect.delivered_at,
            gave_up_at=prospect.gave_up_at,
        )
    )
    return True


def delivery_of(connection: Connection, run_id: str) -> Delivery | None:
    """The webhook of a run with its attempts, oldest first; None where it has none, or it is no longer stored."""
    row = connection.execute(select(webhook_deliveries).where(webhook_deliveries.c.run_id == run_id)).first()
    if row is None:
        return None
    tries = connection.execute(
        select(webhook_tries.c.at, webhook_tries.c.milliseconds, webhook_tries.c.status, webhook_tries.c.error)
        .where(webhook_tries.c.run_id == run_id)
        .order_by(webhook_tries.c.number)
    )
    return Delivery(row.url, [Try(*one) for one in tries], Prospect(row.next_at, row.delivered_at, row.gave_up_at))


def secret_number(connection: Connection, workspace_id: str) -> SecretNumber:
    """Which secret a workspace signs with."""
    row = connection.execute(
        select(workspaces.c.webhook_secret, workspaces.c.webhook_rotated_at).where(workspaces.c.id == workspace_id)
    ).one()
    return SecretNumber(*row)


def rotate_secret(connection: Connection, workspace_id: str, now: int) -> SecretNumber:
    """Sign with a new secret from now on."""
    connection.execute(
        update(workspaces)
        .where(workspaces.c.id == workspace_id)
        .values(webhook_secret=workspaces.c.webhook_secret + 1, webhook_rotated_at=now)
    )
    return secret_number(connection, workspace_id)


def kept_secrets(connection: Connection, workspace_id: str) -> tuple[SecretNumber, KeptSecrets]:
    """Which secret a workspace signs with, and its stored secrets."""
    sealed = webhook_secrets_of(connection, [workspace_id])[workspace_id]
    return secret_number(connection, workspace_id), KeptSecrets(sealed, find_origin(connection))


def replace_secret(connection: Connection, workspace_id: str, now: int, seal: Callable[[int], bytes]) -> None:
    """Sign with a new secret from now on, which `seal` makes for its number; those before the last are deleted."""
    number = rotate_secret(connection, workspace_id, now).number
    keep_webhook_secrets(connection, [(workspace_id, number, seal(number))])
    forget_webhook_secrets(connection, workspace_id, number - 1)


def forget_deliveries(connection: Connection, before: int, limit: int) -> int:
    """Delete the logs of deliveries that ended before a time (ms), and return how many went.

    It looks at the `limit` oldest only, which are the first by id (UUIDv7): no table is read whole for it.
    """
    ended_at = func.coalesce(webhook_deliveries.c.delivered_at, webhook_deliveries.c.gave_up_at)
    oldest = (
        select(webhook_deliveries.c.run_id, ended_at.label("ended_at"))
        .order_by(webhook_deliveries.c.run_id)
        .limit(limit)
        .subquery()
    )
    old: Sequence[str] = connection.execute(select(oldest.c.run_id).where(oldest.c.ended_at < before)).scalars().all()
    if old:
        connection.execute(delete(webhook_tries).where(webhook_tries.c.run_id.in_(old)))
        connection.execute(delete(webhook_deliveries).where(webhook_deliveries.c.run_id.in_(old)))
    return len(old)
