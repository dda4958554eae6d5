"""Refunds of runs: of one, or of a selection in pages, each page in a transaction of its own."""

from collections import defaultdict

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.ledger.corrections import (
    NotRefundableError,
    Refund,
    RefundOrder,
    RunSelection,
)
from fairlead.domain.ledger.money import as_dollars
from fairlead.operations.ledger.statements import UnknownRunError
from fairlead.storage.accounts.audit_log import Act, record_act
from fairlead.storage.db.database import Database, Transaction
from fairlead.storage.ledger import corrections
from fairlead.storage.ledger.corrections import RefundPage, RefundSums

__all__ = [
    "NotRefundableError",
    "Refund",
    "RefundOrder",
    "RefundPage",
    "RefundSums",
    "Refunds",
    "RunSelection",
]


class Refunds(msgspec.Struct, frozen=True):
    """Gives back what runs were charged: each once, so that a call that is repeated changes nothing."""

    database: Database
    clock: Clock

    async def refund(self, run_id: str, order: RefundOrder, by: Actor, *, is_dry: bool = False) -> Refund:
        """Refund a run, or say what it would give back; UnknownRunError, NotRefundableError, BalanceBoundError."""
        now = self.clock.now_ms()

        def work(connection: Transaction) -> Refund:
            found = corrections.refund_run(connection, run_id, order, now, is_dry=is_dry)
            if found is None:
                raise UnknownRunError(run_id)
            if found.is_new and not is_dry:
                detail = {"amount": as_dollars(found.amount), "reason": order.reason}
                record_act(connection, by, Act("run.refunded", found.workspace_id, found.run_id, detail), now)
            return found

        return await (self.database.read(work) if is_dry else self.database.write(work))

    async def look(self, wanted: RunSelection, order: RefundOrder, after: str | None, limit: int) -> RefundPage:
        """A page of what `refund_selected` would do."""
        now = self.clock.now_ms()
        return await self.database.read(
            lambda c: corrections.refund_selected(c, wanted, order, after, limit, now, is_dry=True)
        )

    async def sums(self, wanted: RunSelection) -> RefundSums:
        """What a selection adds up to; it is counted run by run."""
        return await self.database.read(lambda c: corrections.refund_sums(c, wanted))

    async def refund_selected(
        self, wanted: RunSelection, order: RefundOrder, after: str | None, limit: int, by: Actor
    ) -> RefundPage:
        """Refund up to `limit` runs of a selection, those without a refund, after one of them; BalanceBoundError.

        Killed between two pages, a call without `after` goes on where the one before ended.
        """
        now = self.clock.now_ms()

        def work(connection: Transaction) -> RefundPage:
            page = corrections.refund_selected(connection, wanted, order, after, limit, now, is_dry=False)
            for act in _acts(wanted, order, page):
                record_act(connection, by, act, now)
            return page

        return await self.database.write(work)


def _acts(wanted: RunSelection, order: RefundOrder, page: RefundPage) -> list[Act]:
    """An act for each workspace."""
    of_workspaces: dict[str, list[Refund]] = defaultdict(list)
    for one in page.refunds:
        if one.is_new:
            of_workspaces[one.workspace_id].append(one)
    return [
        Act(
            "runs.refunded",
            workspace_id,
            wanted.model_id,
            {
                "runs": len(refunds),
                "amount": as_dollars(sum(one.amount for one in refunds)),
                "reason": order.reason,
                "first_run": refunds[0].run_id,
                "last_run": refunds[-1].run_id,
            },
        )
        for workspace_id, refunds in of_workspaces.items()
    ]
