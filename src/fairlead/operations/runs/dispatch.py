"""Asking partners: the first leg, and after a failure that is certainly not the caller's the next one (R-14).

What is relied on is durable first: the handle of work that was taken, and the move to another provider.
"""

from collections.abc import Awaitable, Callable

import jiter
import msgspec

from fairlead.domain.billing.rates import charge
from fairlead.domain.catalog.translations import translate_back
from fairlead.domain.faults import ContentPolicyViolation, Fault
from fairlead.domain.runs.entries import Acceptance, Redirection
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome
from fairlead.domain.runs.retries import is_about_the_form, may_go_elsewhere
from fairlead.observing.observations import AnswerLeftRaw, Observer, RunRedirected
from fairlead.operations.assets import AssetCopier, CopyOrder
from fairlead.operations.clock import Clock
from fairlead.operations.runs.admit import AdmittedRun
from fairlead.operations.runs.plan import LegPlan, plan_leg
from fairlead.providers.attempts import Attempts
from fairlead.providers.classify import Accepted
from fairlead.providers.exchange import Exchange, Order


class Served(msgspec.Struct, frozen=True):
    """What became of a run: how it ended, on which leg, and what it costs (10^-8 dollars)."""

    outcome: Outcome
    plan: LegPlan
    charge: int
    has_fallen_back: bool = False


class Work(msgspec.Struct, frozen=True):
    """Submitted work to go on with: the partner's handle, and the label of the credential it was taken under."""

    handle: str
    credential: str = ""


Record = Callable[[Acceptance | Redirection], Awaitable[Fault | None]]
"""Makes an entry durable; says why where it was refused."""


class Dispatcher:
    """Sees a run through its legs."""

    def __init__(
        self, attempts: Attempts, exchange: Exchange, copier: AssetCopier, clock: Clock, observe: Observer
    ) -> None:
        self._attempts = attempts
        self._exchange = exchange
        self._copier = copier
        self._clock = clock
        self._observe = observe

    async def serve(self, run: AdmittedRun, work: Work | None, record: Record) -> Served:
        """Ask until a leg serves the run or none is left; the first failure is what the caller is told then."""
        first = await self._ask(run, run.plan, work, record)
        if isinstance(first, Completed) or not may_go_elsewhere(first):
            return await self._served(run, run.plan, first)
        plan = run.plan
        for turn, leg in enumerate(run.selection.fallbacks, start=1):
            following = plan_leg(run.request, leg, self._clock.today())
            if following is None or await self._redirect(run, plan, following, turn, record) is not None:
                continue
            plan = following
            outcome = await self._ask(run, plan, None, record)
            if isinstance(outcome, Failed) and is_about_the_form(outcome):
                break
            if isinstance(outcome, Completed) or not may_go_elsewhere(outcome):
                return await self._served(run, plan, outcome)
        return await self._served(run, plan, first)

    async def _redirect(
        self, run: AdmittedRun, plan: LegPlan, following: LegPlan, turn: int, record: Record
    ) -> Fault | None:
        """Make the move to another provider durable; says why where its price cannot be held."""
        entry = Redirection(
            run_id=run.run_id,
            workspace_id=run.workspace_id,
            attempt=run.attempt,
            provider=following.provider,
            rate_version=following.quote.card.version,
            held=plan.hold,
            hold=following.hold,
            turn=turn,
            at=self._clock.now_ms(),
        )
        refusal = await record(entry)
        if refusal is None:
            self._observe(RunRedirected(run.run_id, run.model.id, plan.provider, following.provider))
        return refusal

    async def _ask(self, run: AdmittedRun, plan: LegPlan, work: Work | None, record: Record) -> Outcome:
        """What one leg makes of a run."""
        order = Order(plan.provider, plan.call, plan.name, plan.body, run.run_id, run.credential)
        if work is None:
            reading = await self._attempts.send(order)
            if not isinstance(reading, Accepted):
                was_sent_before = run.attempt > 1
                return reading.in_doubt() if was_sent_before and isinstance(reading, Failed) else reading
            work = Work(reading.handle, reading.credential)
            await record(Acceptance(run.run_id, run.attempt, work.handle, work.credential))
        return await self._exchange.follow(order, work.handle, work.credential)

    async def _served(self, run: AdmittedRun, plan: LegPlan, outcome: Outcome) -> Served:
        """The end of a run. It fell back wherever it was not served as selected, were it for want of a credential."""
        charged = _charge(run, plan, outcome)
        if isinstance(outcome, Completed):
            outcome = await self._finished(run, plan, outcome)
        return Served(outcome, plan, charged, plan.leg is not run.selection.leg)

    async def _finished(self, run: AdmittedRun, plan: LegPlan, outcome: Completed) -> Completed:
        """A result in the form the caller gets it in: translated back (R-12), or with our links in it (R-36)."""
        if plan.leg is run.model.native:
            if outcome.answer is None or not run.model.assets.at:
                return outcome
            order = CopyOrder(run.run_id, run.workspace_id, plan.provider, run.model.id, run.model.assets, run.base_url)
            copied = await self._copier.copy(order, outcome.answer, outcome.content)
            if not copied.copied:
                return outcome
            return msgspec.structs.replace(outcome, content=copied.content, answer=jiter.from_json(copied.content))
        if run.selection.strict or plan.leg.translation is None or outcome.answer is None:
            return outcome
        native = translate_back(plan.leg.translation, outcome.answer)
        if native is None:
            self._observe(AnswerLeftRaw(run.run_id, run.model.id, plan.provider))
            return outcome
        return msgspec.structs.replace(
            outcome, content=msgspec.json.encode(native), content_type="application/json", answer=native
        )


def is_billed(run: AdmittedRun, outcome: Outcome) -> bool:
    """Whether a run is charged: a generation that completed (R-29), or a refusal where the model bills those (R-27)."""
    if isinstance(outcome, Completed):
        return True
    return run.model.bills_refusals and isinstance(outcome.fault, ContentPolicyViolation)


def _charge(run: AdmittedRun, plan: LegPlan, outcome: Outcome) -> int:
    """The price of a run at the rates of the leg that served it, never above what is held for it."""
    if not is_billed(run, outcome):
        return 0
    if isinstance(outcome, Failed):
        return plan.hold
    return min(plan.hold, charge(plan.quote, outcome.answer, outcome.headers))
