"""Trials of models at their vendors, with the operator's own keys: the cheapest call of each, compared with its files.

A trial is a run like any other: it is admitted, held for, executed and settled, in a workspace that is named for it.
"""

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

import fairlead
from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.catalog.schema import InputSchema
from fairlead.domain.catalog.trial_bodies import NoTrialBodyError, trial_body
from fairlead.domain.faults import Fault, FaultError
from fairlead.domain.ledger.estimates import Estimate, Source, estimate
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.ledger.quantities import Pricing
from fairlead.domain.ledger.rates import Quote, RateCard, Report, card_in_force, quote
from fairlead.domain.ledger.rates import charge as charge_of
from fairlead.domain.runs.outcomes import Completed
from fairlead.domain.runs.selection import RouteOptions
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.accounts.workspaces import NameTakenError, NewWorkspace, create_workspace
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.runs.admit import AdmittedRun, Admitter, RunCommand
from fairlead.operations.runs.execute import Executor
from fairlead.operations.runs.requests import CheckedCall, completed_body
from fairlead.operations.runs.results import Answer
from fairlead.providers.exchange import Exchange
from fairlead.storage.db.database import Database
from fairlead.storage.verifications import Verification, read_verifications, write_verification

__all__ = ["Verification"]

_SUBJECT: Final = "trials of models"
_SHOWN: Final = 200
"""How many characters of a fault or a violation are told."""


class TrialResult(enum.StrEnum):
    """How a trial ended."""

    VERIFIED = "verified"
    """The answer fits the model's schema, and its charge what was expected."""
    DIFFERS = "differs"
    """The run succeeded, but its answer or its charge is another than the files say."""
    FAILED = "failed"
    NOT_TRIED = "not tried"
    """No run was made: there is no body for it, or it might have cost more than was left."""


class Trial(msgspec.Struct, frozen=True):
    """A trial of a model at a provider; amounts in 10^-8 dollars.

    `detail` says what is wrong; `least` and `most` are what it was expected to cost, `charge` what it did cost.
    """

    model_id: str
    result: TrialResult
    detail: str | None = None
    least: int | None = None
    most: int | None = None
    charge: int = 0
    run_id: str | None = None


class ProviderNotReadyError(Exception):
    """No trial can be made at a provider; the text says why."""


class _Plan(msgspec.Struct, frozen=True):
    """A trial that can be made: its checked call, its body, and what it may cost."""

    call: CheckedCall
    content: bytes
    expected: Estimate
    quote: Quote


class ModelTrials:
    """Tries the models of a provider, one after another.

    `addresses` are those of the providers' APIs, `base_url` is that of links to results. Where the providers are
    simulated, nothing is recorded: no vendor was called.
    """

    def __init__(
        self,
        database: Database,
        catalog: CatalogKeeper,
        authenticator: Authenticator,
        admitter: Admitter,
        executor: Executor,
        exchange: Exchange,
        clock: Clock,
        addresses: Mapping[str, str],
        base_url: str,
        *,
        is_simulated: bool,
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._authenticator = authenticator
        self._admitter = admitter
        self._executor = executor
        self._exchange = exchange
        self._clock = clock
        self._addresses = addresses
        self._base_url = base_url
        self.is_simulated = is_simulated

    async def open_workspace(self, name: str, by: Actor) -> Caller:
        """A caller of the workspace of that name, which is made where there is none; BadNameError, FaultError."""
        with suppress(NameTakenError):
            await create_workspace(self._database, NewWorkspace(name=name), self._clock, by)
        return await self._authenticator.caller_of_workspace(name, _SUBJECT)

    async def try_models(
        self, caller: Caller, provider: str, spend: int, bodies: Mapping[str, object]
    ) -> AsyncIterator[Trial]:
        """Try each model that a provider serves while it can cost no more than is left of `spend` (10^-8 dollars).

        `bodies` are an operator's own, by model; for the others one is made of their schemas. ProviderNotReadyError.
        """
        if provider not in self._addresses:
            raise ProviderNotReadyError(f"there is no provider {provider}")
        if provider not in self._exchange.configured:
            raise ProviderNotReadyError(f"{provider} has no key here, or another setting of it is missing")
        catalog = self._catalog.current
        left = spend
        for model_id in catalog.visible_ids(caller, self._catalog.today()):
            model = catalog.models[model_id]
            leg = model.leg(provider)
            if leg is not None:
                trial = await self._try(caller, model, leg, left, bodies.get(model_id))
                # A vendor may bill for a run that failed, so as much of the bound is gone.
                left -= trial.charge if trial.result is not TrialResult.FAILED else trial.most or 0
                yield trial

    async def _try(self, caller: Caller, model: Model, leg: Leg, left: int, body: object) -> Trial:
        try:
            plan = await self._plan(caller, model, leg, body)
        except NoTrialBodyError as error:
            return Trial(model.id, TrialResult.NOT_TRIED, f"no body can be made: {error}; give one with --bodies")
        except FaultError as error:
            return Trial(model.id, TrialResult.NOT_TRIED, _words(error.fault))
        least, most = _bounds(plan)
        if plan.quote.amount > left:
            told = f"it may cost {as_dollars(plan.quote.amount)} dollars, and {as_dollars(left)} are left"
            return Trial(model.id, TrialResult.NOT_TRIED, told, least, most)
        command = RunCommand(new_id(), plan.content, base_url=self._base_url)
        try:
            admitted = await self._admitter.admit(plan.call, command)
            answer = await self._executor.start(admitted).task if isinstance(admitted, AdmittedRun) else admitted
        except FaultError as error:
            return Trial(model.id, TrialResult.FAILED, _words(error.fault), least, most, 0, command.run_id)
        return await self._compare(model, leg, plan, answer, command.run_id)

    async def _plan(self, caller: Caller, model: Model, leg: Leg, body: object) -> _Plan:
        """The call with the given body, or the cheapest that can be made; NoTrialBodyError, FaultError."""
        today = self._catalog.today()
        card = card_in_force(leg.rate_cards, today, caller.markup)
        if card is None:
            raise NoTrialBodyError("no rate card is in force")
        if body is None:
            body = trial_body(model, partial(_hold_of, model, leg, card))
        named = None if leg is model.native else leg.provider
        options = RouteOptions(provider=named, may_fall_back=False)
        call = self._admitter.checks.check_headers(caller, model.id, lambda: options)
        content = msgspec.json.encode(body)
        checked = await self._admitter.checks.check_content(call, content, lambda _: False)
        return _Plan(call, content, estimate(card, checked.asked), quote(card, checked.asked))

    async def _compare(self, model: Model, leg: Leg, plan: _Plan, answer: Answer, run_id: str) -> Trial:
        """What the run shows of the model's files; a model that keeps to them is recorded."""
        outcome, charge = answer.outcome, answer.charge or 0
        least, most = _bounds(plan)
        if not isinstance(outcome, Completed):
            return Trial(model.id, TrialResult.FAILED, _words(outcome.fault), least, most, charge, run_id)
        wrong = _wrong_answer(model, outcome)
        due = _reported(plan, outcome) if leg is model.native else charge
        if not least <= due <= most or due > charge:
            wrong = f"{as_dollars(due)} dollars by the answer, {as_dollars(least)} to {as_dollars(most)} expected"
        if wrong is not None:
            return Trial(model.id, TrialResult.DIFFERS, wrong, least, most, charge, run_id)
        if not self.is_simulated:
            now, address = self._clock.now_ms(), self._addresses[leg.provider][:300]
            found = Verification(model.id, leg.provider, now, fairlead.__version__, address, run_id, charge)
            await self._database.write(partial(write_verification, verification=found))
        return Trial(model.id, TrialResult.VERIFIED, None, least, most, charge, run_id)


def _reported(plan: _Plan, outcome: Completed) -> int:
    """What a run costs by the vendor's own report, in 10^-8 dollars."""
    return charge_of(plan.quote, Report(outcome.answer, outcome.headers, outcome.told)).reported


async def list_verifications(database: Database, model_id: str | None = None) -> Sequence[Verification]:
    """When models were last verified at their vendors, all or those of one model, by model and provider."""
    return await database.read(partial(read_verifications, model_id=model_id))


def _hold_of(model: Model, leg: Leg, card: RateCard, body: dict[str, object]) -> int | None:
    """The most that a body may cost on a leg; None where the leg does not serve it."""
    whole = completed_body(model, body)
    operation = model.operation(whole)
    if leg.call(operation.name) is None:
        return None
    defaults = {} if model.input_schema is None else model.input_schema.defaults
    asked = Pricing(whole, defaults, len(msgspec.json.encode(body)), model.billed_operation(whole, operation))
    return quote(card, asked).amount


def _bounds(plan: _Plan) -> tuple[int, int]:
    """What a trial is expected to cost; where no estimate can be made, from nothing to its hold."""
    if plan.expected.source is Source.UNKNOWN:
        return 0, plan.quote.amount
    return plan.expected.least, plan.expected.most


def _wrong_answer(model: Model, outcome: Completed) -> str | None:
    """What of an answer does not fit the model's output schema; None where it fits, or there is no schema."""
    if not outcome.content:
        return "the answer is empty"
    schema = _output_schema(model)
    if schema is None:
        return None
    try:
        violations = schema.violations(msgspec.json.decode(outcome.content))
    except msgspec.DecodeError:
        return "the answer is not JSON"
    if not violations:
        return None
    return f"the answer differs at /{'/'.join(map(str, violations[0].loc[1:]))}: {violations[0].msg[:_SHOWN]}"


def _output_schema(model: Model) -> InputSchema | None:
    """The schema of a model's answers, out of its document; None where it has none."""
    document = msgspec.json.decode(model.openapi.content, type=_Document)
    for path in document.paths.values():
        answer = path.post.responses.get("200")
        for media in () if answer is None else answer.content.values():
            if media.schema:
                return InputSchema(media.schema)
    return None


class _Media(msgspec.Struct):
    schema: dict[str, object] = {}


class _Described(msgspec.Struct):
    content: dict[str, _Media] = {}


class _Operation(msgspec.Struct):
    responses: dict[str, _Described]


class _Path(msgspec.Struct):
    post: _Operation


class _Document(msgspec.Struct):
    """What is read of a model's document: where the schemas of its answers are."""

    paths: dict[str, _Path]


def _words(fault: Fault) -> str:
    """A fault in a line."""
    violations = getattr(fault, "violations", ())
    detail = getattr(fault, "detail", "") or (violations[0].msg if violations else "")
    return f"{type(fault).__name__}: {detail[:_SHOWN]}" if detail else type(fault).__name__
