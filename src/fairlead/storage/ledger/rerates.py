"""Books re-rates of runs: their charges by another rate card, each in an entry that names the run and that card."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from sqlalchemy import Connection, Row, func, select

from fairlead.domain.accounts.callers import Billing
from fairlead.domain.ledger.books import EntryKind, Funds
from fairlead.domain.ledger.corrections import RunSelection
from fairlead.domain.ledger.rates import RateCard
from fairlead.domain.ledger.rerates import (
    FIRST_RERATE_PHASE,
    NotRerateableError,
    RatedRun,
    Rerate,
    RerateObstacle,
    RerateOrder,
    charge_by,
    refuse_rerate,
)
from fairlead.domain.pointers import Captured
from fairlead.domain.runs.states import RunState
from fairlead.storage.db.tables import ledger_entries, runs, workspaces
from fairlead.storage.ledger.corrections import FOUND, Correction, book, lock_runs, selected

FindCard = Callable[[str, str, str], RateCard | None]
"""The card by which a run is priced again: by its model, its provider, and the card it is charged by."""

_BOOKED: Final = ledger_entries.alias("rerates")
_OF_RUN: Final = _BOOKED.c.run_id == runs.c.id, _BOOKED.c.phase <= FIRST_RERATE_PHASE
_RATED: Final = FOUND.add_columns(
    runs.c.provider,
    runs.c.state,
    runs.c.hold,
    runs.c.byok,
    runs.c.price_facts,
    select(func.count()).where(*_OF_RUN).scalar_subquery().label("rerates"),
    select(func.max(_BOOKED.c.created_at)).where(*_OF_RUN).scalar_subquery().label("rerated_at"),
)


class ReratePage(msgspec.Struct, frozen=True):
    """Re-rates of some runs, the runs that could have none and why, and the run after which others follow."""

    rerates: list[Rerate]
    obstacles: dict[str, RerateObstacle]
    after: str | None


def rerate_run(
    connection: Connection, run_id: str, order: RerateOrder, find_card: FindCard, now: int, *, is_dry: bool
) -> Rerate | None:
    """Re-rate a run; None where there is no such run. NotRerateableError, BalanceBoundError."""
    page = _rerate(connection, [run_id], order, find_card, now, is_dry=is_dry)
    if run_id in page.obstacles:
        raise NotRerateableError(page.obstacles[run_id])
    return page.rerates[0] if page.rerates else None


def rerate_selected(
    connection: Connection,
    wanted: RunSelection,
    order: RerateOrder,
    find_card: FindCard,
    after: str | None,
    limit: int,
    now: int,
    *,
    is_dry: bool,
) -> ReratePage:
    """Re-rate up to `limit` ended runs of a selection, after one of them, in the order of their ids."""
    ended = select(runs.c.id).where(*selected(wanted), runs.c.finished_at.is_not(None))
    if after is not None:
        ended = ended.where(runs.c.id > after)
    ids = list(connection.execute(ended.order_by(runs.c.id).limit(limit + 1)).scalars())
    page = _rerate(connection, ids[:limit], order, find_card, now, is_dry=is_dry)
    return msgspec.structs.replace(page, after=ids[limit - 1] if len(ids) > limit else None)


def _rerate(
    connection: Connection,
    run_ids: Sequence[str],
    order: RerateOrder,
    find_card: FindCard,
    now: int,
    *,
    is_dry: bool,
) -> ReratePage:
    """Re-rate some runs; those that are charged by that card already are told, and stay as they are."""
    if not is_dry:
        lock_runs(connection, run_ids)
    rows = connection.execute(_RATED.where(runs.c.id.in_(run_ids))).all()
    available = _available(connection, {row.workspace_id for row in rows})
    rerates: list[Rerate] = []
    booked: list[Correction] = []
    obstacles: dict[str, RerateObstacle] = {}
    for row in rows:
        try:
            told = _rated(row, order, find_card, now, available[row.workspace_id])
        except NotRerateableError as error:
            obstacles[row.id] = error.obstacle
            continue
        rerates.append(told)
        if told.is_new:
            lowered = told.before - told.charge
            available[row.workspace_id] += lowered
            phase = FIRST_RERATE_PHASE - row.rerates
            booked.append(Correction(row, lowered, EntryKind.RERATE, phase, told.rate_version))
    if booked and not is_dry:
        book(connection, booked, order.reason, now)
    return ReratePage(rerates, obstacles, None)


def _rated(row: Row[*tuple[object, ...]], order: RerateOrder, find_card: FindCard, now: int, available: int) -> Rerate:
    """The re-rate of a run whose workspace can pay so much more; NotRerateableError."""
    facts = None if row.price_facts is None else msgspec.json.decode(row.price_facts, type=Captured)
    run = RatedRun(
        id=row.id,
        charge=row.charge,
        hold=row.hold,
        refunded=row.refunded or 0,
        has_succeeded=row.state == RunState.SUCCEEDED,
        is_byok=row.byok,
        facts=facts,
        rerates=row.rerates,
        is_archiving=row.is_archiving,
    )
    refuse_rerate(run)
    card = find_card(row.model_id, row.provider, row.rate_version)
    if card is None:
        raise NotRerateableError(RerateObstacle.NO_CARD)
    is_new = card.label != row.rate_version
    charge = charge_by(run, card, order) if is_new else row.charge
    if charge - row.charge > max(0, available):
        raise NotRerateableError(RerateObstacle.BALANCE)
    at = now if is_new else row.rerated_at or row.finished_at
    return Rerate(row.id, row.workspace_id, row.workspace, row.charge, charge, card.label, at, is_new)


def _available(connection: Connection, workspace_ids: Iterable[str]) -> dict[str, int]:
    """How much more each of some workspaces can pay, in 10^-8 dollars."""
    column = workspaces.c
    figures = select(column.id, column.billing, column.balance, column.held, column.cap)
    found = connection.execute(figures.where(column.id.in_(sorted(workspace_ids))))
    return {row.id: Funds(Billing(row.billing), row.balance, row.held, row.cap, 0, 0).available() for row in found}
