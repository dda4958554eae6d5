"""Calls partners: the first leg, and after a failure that is certainly not the caller's the next one (R-14).

Whatever a later step relies on is durable first: the handle of accepted work, and the move to another provider.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import jiter
import msgspec
from msgspec.structs import asdict

from fairlead.clock import Clock
from fairlead.documents.outline import mark_of
from fairlead.domain.catalog.translations import translate_back
from fairlead.domain.faults import (
    Cancelled,
    ContentPolicyViolation,
    Fault,
    InternalError,
    ProviderError,
    Upstream,
    bucket,
)
from fairlead.domain.ledger.holds import due_by
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.ledger.price_facts import FACTS_MAX
from fairlead.domain.ledger.rates import Charge, Report, charge
from fairlead.domain.pointers import capture
from fairlead.domain.runs.entries import (
    EVENT_DETAIL_MAX,
    PROVIDER_SAID,
    PROVIDER_TOLD_OPERATORS,
    Acceptance,
    Redirection,
    RunEntry,
    TopUp,
)
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome, Reached, Work
from fairlead.domain.runs.retries import is_about_the_form, may_be_waited_for, may_go_elsewhere
from fairlead.observing.observations import (
    AnswerLeftRaw,
    CallRepeated,
    CancelPassedOn,
    Observer,
    PartnerReportedMore,
    RunRedirected,
    UnexpectedError,
)
from fairlead.operations.assets.results import AssetCopier, CopyOrder
from fairlead.operations.runs.admit import AdmittedRun
from fairlead.operations.runs.requests import LegPlan, plan_leg, with_whole_body
from fairlead.providers.answers import Accepted
from fairlead.providers.attempts import Attempts
from fairlead.providers.exchange import Exchange, Order

_encode: Final = msgspec.json.Encoder(enc_hook=mark_of).encode
_CANCELS_MOST: Final = 5
PATIENCE: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Seconds between orders for a run that was taken over: a machine that starts again may wait for its network."""
_TOP_UP_SECONDS: Final = 5.0
"""How long a poll waits for a hold to be raised."""
_ORDINALS: Final = {2: "second", 3: "third"}


class Served(msgspec.Struct, frozen=True):
    """How a run ended, on which leg, what it costs (10^-8 dollars), and whether it is billed.

    `facts` are what its price was made of (price_facts.py).
    """

    outcome: Outcome
    plan: LegPlan
    charge: int
    has_fallen_back: bool = False
    events: tuple[RunEntry, ...] = ()
    is_billed: bool = False
    facts: str | None = None


class SupersededError(Exception):
    """The run was taken over by another server while this one still worked on it."""


Record = Callable[[Acceptance | Redirection | TopUp], Awaitable[Fault | None]]
"""Makes an entry durable; returns the reason if it was refused. SupersededError if the run is another server's by
now."""


class Cancellation(msgspec.Struct, eq=False):
    """A caller's request to stop a run (R-35), passed on to the partner as soon as it has the work."""

    is_requested: bool = False
    _pass_on: Callable[[], object] | None = None
    _tries: int = 0

    def request(self) -> None:
        """Request the stop. Requesting it again retries passing it on, if that has failed."""
        self.is_requested = True
        if self._pass_on is not None and self._tries < _CANCELS_MOST:
            self._tries += 1
            self._pass_on()

    def set_pass_on(self, pass_on: Callable[[], object]) -> None:
        """Set the function that passes the request on."""
        self._pass_on = pass_on
        if self.is_requested:
            self.request()

    def forget_partner(self) -> None:
        """Note that the partner has nothing to stop any more, because the run goes on at another one."""
        self._pass_on, self._tries = None, 0

    def has_been_heard(self) -> None:
        """Note that the partner knows of the request, so that it is not sent again."""
        self._tries = _CANCELS_MOST


class _RunContext(msgspec.Struct):
    """A run on its way through its legs: the leg it is at, with the hold that it has by now, and its timeline.

    `wanted` is the largest hold (10^-8 dollars) that was asked for on this leg, whether it was granted or not.
    """

    run: AdmittedRun
    record: Record
    cancellation: Cancellation
    plan: LegPlan
    events: list[RunEntry] = msgspec.field(default_factory=list)
    wanted: int = 0


class Dispatcher:
    """Takes a run through its legs.

    `patience` are the pauses (seconds) before a partner that may have an order is asked again after a takeover.
    """

    def __init__(
        self,
        attempts: Attempts,
        exchange: Exchange,
        copier: AssetCopier,
        clock: Clock,
        observe: Observer,
        patience: Sequence[float] = PATIENCE,
    ) -> None:
        self._attempts = attempts
        self._exchange = exchange
        self._copier = copier
        self._clock = clock
        self._observe = observe
        self._patience = patience
        self._cancelling = set[asyncio.Task[None]]()

    async def serve(self, run: AdmittedRun, record: Record, cancellation: Cancellation) -> Served:
        """Call legs until one serves the run or none is left; then the first failure is the result.

        A bug on the way must not leave a hold behind, so it ends the run.
        """
        context = _RunContext(run, record, cancellation, run.plan)
        try:
            first = await self._ask(context, run.work)
            if isinstance(first, Completed) or not _goes_elsewhere(context, first):
                return await self._finish(context, first)
            return await self._serve_elsewhere(context, first)
        except SupersededError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it is, the run ends and its money is free again
            self._observe(UnexpectedError(f"execute {run.run_id}", error))
            return Served(Failed(InternalError()), context.plan, 0)

    async def _serve_elsewhere(self, context: _RunContext, first: Failed) -> Served:
        """Serve a run whose first leg has failed, and has certainly not taken the work, or ended it unbilled."""
        run = context.run
        for leg in run.selection.fallbacks:
            following = plan_leg(run.request, leg, self._clock.today())
            if following is not None:
                following = await with_whole_body(following, run.request)
            # A leg whose price cannot be held is skipped: a cheaper one may follow.
            if following is None or await self._redirect(context, following) is not None:
                continue
            outcome = await self._ask(context, None)
            if isinstance(outcome, Failed) and is_about_the_form(outcome):
                break
            if isinstance(outcome, Completed) or not _goes_elsewhere(context, outcome):
                return await self._finish(context, outcome)
            if outcome.reached is Reached.UNBILLED:  # the stored run has a handle: it cannot wait for the first partner
                first = msgspec.structs.replace(first, reached=Reached.UNBILLED)
        return await self._finish(context, first)

    async def _redirect(self, context: _RunContext, following: LegPlan) -> Fault | None:
        """Make the move to another provider durable; returns the reason if its price cannot be held."""
        run, provider = context.run, context.plan.provider
        entry = Redirection(
            run_id=run.run_id,
            workspace_id=run.workspace_id,
            attempt=run.attempt,
            provider=following.provider,
            rate_version=following.quote.card.label,
            hold=following.hold,
            at=self._clock.now_ms(),
        )
        refusal = await context.record(entry)
        if refusal is None:
            context.plan, context.wanted = following, 0
            context.cancellation.forget_partner()
            self._observe(RunRedirected(run.run_id, run.model.id, provider, following.provider))
        return refusal

    async def _ask(self, context: _RunContext, work: Work | None) -> Outcome:
        """The outcome of a run on the leg it is at."""
        run, plan = context.run, context.plan
        provider = plan.leg.provider
        order = Order(provider, plan.call, plan.name, plan.body, run.run_id, run.credential, run.workspace_id)
        if work is None:
            tell_again = partial(self._note_repeat, context, provider)
            may_leave = run.is_queued and self._exchange.may_leave(provider, plan.call)
            send = partial(self._send_or_leave, context) if may_leave else self._attempts.send
            reading = await send(order, tell_again)
            if run.is_taken_over and isinstance(reading, Failed) and not isinstance(reading.fault, Cancelled):
                reading = await self._send_again(order, tell_again, reading)
            if not isinstance(reading, Accepted):
                if isinstance(reading, Failed):
                    self._note_words(context, provider, reading)
                return reading
            work = Work(reading.handle, reading.credential, reading.status)
            # Durable before the first poll: after a crash this work is asked about, and not ordered a second time.
            await context.record(Acceptance(run.run_id, run.attempt, *msgspec.structs.astuple(work)))
        if run.is_queued and self._exchange.can_cancel(provider, plan.call):
            context.cancellation.set_pass_on(partial(self._pass_on, order, work, context.cancellation))
        since, polls = self._clock.now_ms(), itertools.count()
        outcome = await self._exchange.follow(order, work, partial(self._note_poll, context, polls))
        self._note_polls(context, provider, since, next(polls))
        if isinstance(outcome, Failed):
            self._note_words(context, provider, outcome)
        return outcome if context.cancellation.is_requested else _as_provider_stop(outcome)

    async def _send_or_leave(
        self, context: _RunContext, order: Order, tell_again: Callable[[int, float], None]
    ) -> Outcome | Accepted:
        """Send an order that costs nothing without its connection, which is closed when the run is to be cancelled."""
        sending = asyncio.ensure_future(self._attempts.send(order, tell_again))
        context.cancellation.set_pass_on(sending.cancel)
        try:
            return await sending
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if waiting is None or waiting.cancelling():  # this server stops
                raise
            return Failed(Cancelled(), None, Reached.ACCEPTED)
        finally:
            context.cancellation.forget_partner()

    async def _send_again(
        self, order: Order, tell_again: Callable[[int, float], None], failed: Failed
    ) -> Outcome | Accepted:
        """Send an order again after a takeover, if the first answer is a failure.

        The partner may have worked on it before, and returns the result under its key. So it is worth waiting while the
        partner cannot be reached, has no room, or cools down.
        """
        reading: Outcome | Accepted = failed
        for pause in self._patience:
            if not isinstance(reading, Failed) or not may_be_waited_for(reading, repeats_safely=True):
                break
            await asyncio.sleep(pause)
            reading = await self._attempts.send(order, tell_again)
        # The first server may have got through, whatever the last answer says.
        return reading.in_doubt() if isinstance(reading, Failed) else reading

    def _note_repeat(self, context: _RunContext, provider: str, number: int, pause: float) -> None:
        """Observe that a call is sent again, and keep that for the statement of the run."""
        self._observe(CallRepeated(provider, number, pause))
        detail = f"{provider} is asked for the {_ORDINALS.get(number + 1, f'{number + 1}th')} time after {pause:.1f} s"
        context.events.append(RunEntry("call repeated", context.run.attempt, detail, self._clock.now_ms()))

    def _note_words(self, context: _RunContext, provider: str, failed: Failed) -> None:
        """Keep a partner's own words about a failure for the timeline of the run."""
        if failed.words is None:
            return
        run = context.run
        kind = PROVIDER_SAID if failed.are_about_input or run.selection.is_byok else PROVIDER_TOLD_OPERATORS
        detail = f"{provider} {failed.summary}: {failed.words}"[:EVENT_DETAIL_MAX]
        context.events.append(RunEntry(kind, run.attempt, detail, self._clock.now_ms()))

    async def _note_poll(self, context: _RunContext, polls: Iterator[int], told: Mapping[str, str]) -> None:
        """Count a poll that is about to be made, and top the hold up to what the partner has told by now."""
        next(polls)
        plan = context.plan
        if plan.leg.hold_times is None or not told:
            return
        due = due_by(plan.quote, context.run.request.asked, told)
        if due > max(context.wanted, plan.hold):
            with suppress(TimeoutError):  # work goes on while the database is away, and its end asks for the rest
                await asyncio.wait_for(self._top_up(context, due), _TOP_UP_SECONDS)

    async def _top_up(self, context: _RunContext, due: int) -> None:
        """Raise the hold to what is due; where that is refused, the run goes on with the hold it has."""
        run, plan = context.run, context.plan
        context.wanted, now = due, self._clock.now_ms()
        refusal = await context.record(TopUp(run.run_id, run.workspace_id, run.attempt, due, now))
        if refusal is None:
            context.plan = plan.holding(due)
            return
        detail = f"{as_dollars(due)} dollars are due, {as_dollars(plan.hold)} held: {bucket(refusal)}"
        context.events.append(RunEntry("hold not raised", run.attempt, detail, now))

    def _note_polls(self, context: _RunContext, provider: str, since: int, polls: int) -> None:
        """Note for the run's timeline that a partner took the work at `since` and was polled until now."""
        seconds = (self._clock.now_ms() - since) / 1000
        detail = f"{provider} works on it; asked {polls} times in {seconds:.1f} s"
        context.events.append(RunEntry("polled", context.run.attempt, detail, since))

    def _pass_on(self, order: Order, work: Work, cancellation: Cancellation) -> None:
        """Tell a partner that work is no longer wanted. The partner still decides how it ends."""

        async def tell() -> None:
            is_heard = await self._exchange.cancel(order, work)
            self._observe(CancelPassedOn(order.key, order.provider, is_heard))
            if is_heard:
                cancellation.has_been_heard()

        task = asyncio.get_running_loop().create_task(tell())
        # An event loop refers to its tasks weakly: one that nothing holds may disappear before its end.
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _finish(self, context: _RunContext, outcome: Outcome) -> Served:
        """The end of a run, with its charge. It fell back if another leg than the selected one served it.

        A completed generation is charged (R-29), and a refusal if the model bills refusals (R-27).
        """
        run, plan = context.run, context.plan
        model, has_fallen_back = run.request.model, plan.leg is not run.selection.leg
        if isinstance(outcome, Failed):
            is_paid = model.bills_refusals and isinstance(outcome.fault, ContentPolicyViolation)
            return Served(outcome, plan, plan.hold if is_paid else 0, has_fallen_back, tuple(context.events), is_paid)
        report = Report(outcome.answer, outcome.headers, outcome.told)
        if outcome.answer is not None:
            if plan.leg is not model.native:
                outcome = await self._translate_back(run, plan, outcome)
            elif model.assets.at:
                outcome, report = await self._with_links(run, plan, outcome, report)
        # Charged at the rates of the leg that served it, and never more than its hold.
        due = charge(plan.quote, report)
        if due.amount > plan.quote.amount and plan.leg.hold_times is not None:
            await self._top_up(context, due.amount)
            plan = context.plan
        charged = min(plan.quote.amount, due.amount)
        if due.reported > charged:
            self._note_more(context, plan, Charge(charged, due.reported))
        seen = {**asdict(run.request.asked), **asdict(report)}
        facts = None if run.selection.is_byok else capture(plan.quote.card.captures, seen, FACTS_MAX)
        return Served(outcome, plan, charged, has_fallen_back, tuple(context.events), is_billed=True, facts=facts)

    def _note_more(self, context: _RunContext, plan: LegPlan, due: Charge) -> None:
        """Observe that a partner reports more than was held, at our expense, and keep that for the statement."""
        run = context.run
        self._observe(PartnerReportedMore(run.run_id, run.model.id, plan.provider, due.amount, due.reported))
        detail = f"{as_dollars(due.reported)} dollars by what was reported, {as_dollars(due.amount)} charged"
        context.events.append(RunEntry("more reported than held", run.attempt, detail, self._clock.now_ms()))

    async def _with_links(
        self, run: AdmittedRun, plan: LegPlan, outcome: Completed, report: Report
    ) -> tuple[Completed, Report]:
        """A result with our links in it, where the partner's could be copied (R-36), and what its price is made of."""
        order = CopyOrder(run.run_id, run.workspace_id, plan.provider, run.model.id, run.model.assets, run.base_url)
        large = outcome.large
        source = outcome.content if large is None else large.outline
        copied = await self._copier.copy(order, outcome.answer, source)
        if not copied.copied:
            return outcome, report
        if any(line.component.measured and line.component.measured.result for line in plan.quote.lines):
            report = msgspec.structs.replace(report, made=await self._copier.measure(copied.copied[0]))
        if large is None:
            answer = jiter.from_json(copied.content)
            return msgspec.structs.replace(outcome, content=copied.content, answer=answer), report
        content, answer = await asyncio.to_thread(large.fill, copied.content), large.decode(copied.content)
        return msgspec.structs.replace(outcome, content=content, answer=answer, large=None), report

    async def _translate_back(self, run: AdmittedRun, plan: LegPlan, outcome: Completed) -> Completed:
        """A result in the model's own form (R-12); unchanged in strict mode, or if it cannot be translated."""
        if run.selection.is_strict or plan.leg.translation is None:
            return outcome
        native = translate_back(plan.leg.translation, outcome.answer, run.run_id)
        if native is None:
            self._observe(AnswerLeftRaw(run.run_id, run.model.id, plan.provider))
            return outcome
        content = _encode(native)
        if outcome.large is not None:
            content = await asyncio.to_thread(outcome.large.fill, content)
        return msgspec.structs.replace(
            outcome, content=content, content_type="application/json", answer=native, large=None
        )


def _goes_elsewhere(context: _RunContext, failed: Failed) -> bool:
    """Whether another partner may be asked after a failure; none is, for a run that is not wanted any more."""
    return may_go_elsewhere(failed) and not context.cancellation.is_requested


def _as_provider_stop(outcome: Outcome) -> Outcome:
    """The outcome of a run that nobody here cancelled: if its provider says it was, the provider has stopped it."""
    if isinstance(outcome, Failed) and isinstance(outcome.fault, Cancelled):
        fault = ProviderError("The provider stopped the work.", Upstream(outcome.upstream_status))
        return Failed(fault, outcome.upstream_status, outcome.reached)
    return outcome
