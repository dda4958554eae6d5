"""Re-rates of runs by another rate card: of one, or of a selection in pages, each page in a transaction of its own."""

from collections import defaultdict
from collections.abc import Callable

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.catalog.models import Catalog
from fairlead.domain.ledger.corrections import RunSelection
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.ledger.rates import RateCard
from fairlead.domain.ledger.rerates import NotRerateableError, Rerate, RerateOrder, card_for
from fairlead.operations.ledger.statements import UnknownRunError
from fairlead.storage.accounts.audit_log import Act, record_act
from fairlead.storage.db.database import Database, Transaction
from fairlead.storage.ledger import rerates
from fairlead.storage.ledger.rerates import FindCard, ReratePage

__all__ = ["NotRerateableError", "Rerate", "RerateOrder", "ReratePage", "Rerates", "RunSelection"]


class Rerates(msgspec.Struct, frozen=True):
    """Charges runs by another rate card: a run that has that card stays as it is, so a repeated call changes nothing.

    `catalog` is the one in force, which has the cards.
    """

    database: Database
    clock: Clock
    catalog: Callable[[], Catalog]

    async def rerate(self, run_id: str, order: RerateOrder, by: Actor, *, is_dry: bool = False) -> Rerate:
        """Re-rate a run, or say what it would cost; UnknownRunError, NotRerateableError, BalanceBoundError."""
        now, find = self.clock.now_ms(), self._cards(order)

        def work(connection: Transaction) -> Rerate:
            found = rerates.rerate_run(connection, run_id, order, find, now, is_dry=is_dry)
            if found is None:
                raise UnknownRunError(run_id)
            if found.is_new and not is_dry:
                detail = {**_sums([found]), "rate_version": found.rate_version, "reason": order.reason}
                record_act(connection, by, Act("run.rerated", found.workspace_id, found.run_id, detail), now)
            return found

        return await (self.database.read(work) if is_dry else self.database.write(work))

    async def look(self, wanted: RunSelection, order: RerateOrder, after: str | None, limit: int) -> ReratePage:
        """A page of what `rerate_selected` would do, by the balances of now."""
        now, find = self.clock.now_ms(), self._cards(order)
        return await self.database.read(
            lambda c: rerates.rerate_selected(c, wanted, order, find, after, limit, now, is_dry=True)
        )

    async def rerate_selected(
        self, wanted: RunSelection, order: RerateOrder, after: str | None, limit: int, by: Actor
    ) -> ReratePage:
        """Re-rate up to `limit` ended runs of a selection, after one of them; BalanceBoundError.

        Killed between two pages, a call without `after` finds the runs of before with that card, and goes on.
        """
        now, find = self.clock.now_ms(), self._cards(order)

        def work(connection: Transaction) -> ReratePage:
            page = rerates.rerate_selected(connection, wanted, order, find, after, limit, now, is_dry=False)
            for act in _acts(wanted, order, page):
                record_act(connection, by, act, now)
            return page

        return await self.database.write(work)

    def _cards(self, order: RerateOrder) -> FindCard:
        """How the card of a run is found; a run whose model or provider is gone has none."""
        models, today = self.catalog().models, self.clock.today()

        def find(model_id: str, provider: str, charged_by: str) -> RateCard | None:
            model = models.get(model_id)
            leg = None if model is None else model.leg(provider)
            return None if leg is None else card_for(leg.rate_cards, charged_by, order.to_version, today)

        return find


def _acts(wanted: RunSelection, order: RerateOrder, page: ReratePage) -> list[Act]:
    """An act for each workspace and card."""
    of_cards: dict[tuple[str, str], list[Rerate]] = defaultdict(list)
    for one in page.rerates:
        if one.is_new:
            of_cards[one.workspace_id, one.rate_version].append(one)
    return [
        Act(
            "runs.rerated",
            workspace_id,
            wanted.model_id,
            {
                "runs": len(booked),
                **_sums(booked),
                "rate_version": rate_version,
                "reason": order.reason,
                "first_run": booked[0].run_id,
                "last_run": booked[-1].run_id,
            },
        )
        for (workspace_id, rate_version), booked in of_cards.items()
    ]


def _sums(booked: list[Rerate]) -> dict[str, str]:
    """What some runs were charged before, and are now."""
    before, charge = sum(one.before for one in booked), sum(one.charge for one in booked)
    return {"before": as_dollars(before), "charge": as_dollars(charge)}
