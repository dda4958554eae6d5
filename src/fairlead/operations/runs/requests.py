"""Checks a call of a model in two stages (headers, body), and plans what is sent on each leg.

Each entrance passes each stage once: a synchronous run, a queued one, an estimate, and a node of a job that runs a
model. The order of all refusals is in refusals.py.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Final

import msgspec

from fairlead.document_readers import INLINE_BYTES
from fairlead.documents.outline import LargeDocument, mark_of
from fairlead.domain.accounts.callers import ESTIMATE_GATE, ROUTER_GATE, Caller, refuse_gate, refuse_provider
from fairlead.domain.catalog.body import read_body
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.catalog.schema import InputSchema, echo
from fairlead.domain.catalog.strict_forms import RUN_ID
from fairlead.domain.catalog.translations import translate
from fairlead.domain.faults import FaultError, InputRejected, ServiceUnavailable, Violation
from fairlead.domain.ledger.holds import bounded
from fairlead.domain.ledger.quantities import Pricing
from fairlead.domain.ledger.rates import Quote, RateCard, card_in_force, card_named, quote
from fairlead.domain.ledger.strict_rates import beyond_card, quote_strict
from fairlead.domain.runs.selection import Facts, RouteOptions, Selection, select
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.runs.given_files import GivenFiles
from fairlead.operations.runs.large_bodies import LargeBodies, ReadBody
from fairlead.providers.spec import Provider
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.runs.runs import operation_of_work

_encode: Final = msgspec.json.Encoder(enc_hook=mark_of).encode
RUN_GATES: Final = ((ROUTER_GATE, "The model router"),)
ESTIMATE_GATES: Final = (*RUN_GATES, (ESTIMATE_GATE, "The estimate"))


class CheckedCall(msgspec.Struct, frozen=True):
    """A call that has passed the stage of headers, so its body may be read."""

    caller: Caller
    model: Model
    options: RouteOptions


class CheckedBody(msgspec.Struct, frozen=True):
    """A body that has passed its stage: its content, the legs that may serve it, and what its price depends on."""

    read: ReadBody
    selection: Selection
    asked: Pricing


class CallChecks:
    """The two stages of admission, in the order of refusals of docs/router.md. Every refusal is a FaultError."""

    def __init__(
        self,
        catalog: CatalogKeeper,
        providers: Mapping[str, Provider],
        database: Database,
        bodies: LargeBodies,
        files: GivenFiles,
    ) -> None:
        self._catalog = catalog
        self._alternates = frozenset(name for name, one in providers.items() if one.is_alternate)
        self._database = database
        self._bodies = bodies
        self._files = files

    def check_headers(
        self,
        caller: Caller,
        model_id: str,
        read_options: Callable[[], RouteOptions] = RouteOptions,
        gates: Iterable[tuple[str, str]] = RUN_GATES,
    ) -> CheckedCall:
        """Refuse what can be refused before the body is read: rollout, model, entitlement, query, provider.

        `read_options` reads the query, after the caller is known to be entitled to the model.
        """
        if caller.gates:
            for gate, what in gates:
                if fault := refuse_gate(caller, gate, what):
                    raise FaultError(fault)
        model = self._catalog.current.models.get(model_id)
        if caller.is_unrestricted and model is not None and model.retirement is None:  # there is nothing to refuse
            return CheckedCall(caller, model, read_options())
        model = self._catalog.model(model_id, caller)
        options = read_options()
        if options.provider is None and (fault := refuse_provider(caller, model.native.provider)):
            raise FaultError(fault)
        return CheckedCall(caller, model, options)

    async def check_content(self, call: CheckedCall, content: bytes, is_ready: Callable[[str], bool]) -> CheckedBody:
        """Refuse a body that cannot be run: JSON, provider, schema, fields, and the earlier run it continues.

        `is_ready` says whether a provider can be called at all, as a fallback.
        """
        caller, model, options = call.caller, call.model, call.options
        is_small = len(content) <= INLINE_BYTES
        read = (
            ReadBody(read_body(content)) if is_small else await self._bodies.read(caller.workspace_id, content, model)
        )
        schema = model.input_schema
        body = read.value if schema is None or not schema.declares_model else completed_body(model, read.value)
        operation = model.only or model.operation(body)
        selection = select(Facts(caller, model, options, operation, self._alternates, read.value), is_ready)
        if selection.is_strict:
            check_strict_body(selection.leg, read.value)
        # To say that a body is valid is much cheaper than to list what is wrong, and nearly every body is.
        elif schema is not None and (schema.declares_model or not is_small or not schema.is_valid(body)):
            check_body(model, schema, body, read.violations)
        if options.rejects_unknown:
            check_unknown(model, body)
        if selection.is_strict:
            asked = Pricing(read.value, size=len(content), operation=selection.operation.name, is_strict=True)
        else:
            draft = None if model.draft_of is None else model.draft(body)
            billed = None if draft is None else await earlier_operation(self._database, caller, draft)
            if billed is None and model.only is None:
                billed = model.billed_operation(body, operation)
            asked = Pricing(body, {} if schema is None else schema.defaults, len(content), billed)
            if model.measured_files:
                given = await self._files.measure(caller.workspace_id, model, body)
                asked = msgspec.structs.replace(asked, given=given)
        return CheckedBody(read, selection, asked)


def completed_body(model: Model, body: dict[str, object]) -> dict[str, object]:
    """The body with the model's name, if its schema has one and the caller left it to the path."""
    if model.input_schema is None or not model.input_schema.declares_model or body.get("model") is not None:
        return body
    return {**body, "model": model.name}


def _other_model(model: Model, body: dict[str, object]) -> tuple[Violation, ...]:
    """The violation of a body that names another model than the path (decisions: the body's `model` field)."""
    named = body.get("model")
    if named in (model.id, model.name):
        return ()
    message, expected, repeated = f"The path names {model.id}.", {"expected": model.name}, echo(named)
    where = ("body", "model")
    return (Violation(where, message, "model_mismatch", expected, repeated, has_input=repeated is not None),)


def check_body(model: Model, schema: InputSchema, body: dict[str, object], found: Sequence[Violation] | None) -> None:
    """Validate a native body against the model's schema (R-08, R-21); FaultError(InputRejected).

    `found` are the violations, if they are known already.
    """
    violations = schema.violations(body) if found is None else tuple(found)
    if schema.declares_model:
        violations = _other_model(model, body) or violations
    if violations:
        raise FaultError(InputRejected(violations))


def check_unknown(model: Model, body: dict[str, object]) -> None:
    """Refuse fields the model's schema does not declare (R-15); FaultError(InputRejected)."""
    schema = model.input_schema
    if schema is not None and (violations := schema.unknown_fields(body)):
        raise FaultError(InputRejected(violations))


def check_strict_body(leg: Leg, body: dict[str, object]) -> None:
    """Refuse what a body in a provider's own form must not contain (S-01); FaultError(InputRejected)."""
    if leg.strict is not None and (violations := leg.strict.violations(body, leg.fixed)):
        raise FaultError(InputRejected(violations))


def check_within_card(card: RateCard, asked: Pricing) -> None:
    """Refuse a strict body that asks for more than its card can charge; FaultError(InputRejected)."""
    if violations := beyond_card(card, asked):
        raise FaultError(InputRejected(violations))


async def earlier_operation(database: Database, caller: Caller, draft: str) -> str | None:
    """The operation as which the earlier work of a body was priced (R-16); None for unknown work.

    `draft` is the provider's name of that work. FaultError if it cannot be looked up.
    """
    try:
        return await database.read(lambda c: operation_of_work(c, caller.workspace_id, draft))
    except DatabaseUnavailableError as error:
        raise FaultError(ServiceUnavailable("The draft cannot be looked up right now.")) from error


class LegPlan(msgspec.Struct, frozen=True):
    """One leg, prepared: the call, the provider's name of the model, the bytes to send, and the quote.

    `dropped` is what a translation had to leave out. The quote of a run with the caller's own credential is zero.
    """

    leg: Leg
    call: str
    name: str
    body: bytes
    quote: Quote
    dropped: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """The provider that serves it."""
        return self.leg.provider

    @property
    def hold(self) -> int:
        """Its hold, in 10^-8 dollars."""
        return self.quote.amount

    def holding(self, amount: int) -> "LegPlan":
        """The same plan with another hold: the one in the ledger."""
        return msgspec.structs.replace(self, quote=msgspec.structs.replace(self.quote, amount=amount))


class Request(msgspec.Struct, frozen=True):
    """A call, from which each leg is planned: the model, the operation, the body, and what prices depend on.

    Only the outline of a `large` body is used; what prices depend on includes its long texts. `markup` is the
    workspace's own, in percent.
    """

    run_id: str
    model: Model
    operation: str
    content: bytes
    asked: Pricing
    is_byok: bool = False
    large: LargeDocument | None = None
    markup: Decimal | None = None


def plan_leg(request: Request, leg: Leg, today: date, version: str | None = None) -> LegPlan | None:
    """Prepare a leg; None if it does not serve the operation, or no price is in force.

    `version` names the card of a run that was admitted before. The plan of a large body still needs `with_whole_body`.
    """
    call = leg.calls.get(request.operation)
    if version is None:
        card = card_in_force(leg.rate_cards, today, request.markup)
    else:
        card = card_named(leg.rate_cards, version)
    if call is None or card is None:
        return None
    asked = request.asked
    body, dropped = _body(request, leg)
    price = quote_strict if asked.is_strict else quote
    priced = _unpaid(card) if request.is_byok else price(card, asked)
    if leg.hold_times is not None:
        priced = bounded(priced, asked, leg.hold_times)
    return LegPlan(leg, call, leg.names[request.operation], body, priced, dropped)


async def with_whole_body(plan: LegPlan, request: Request) -> LegPlan:
    """A plan with the whole body: the bytes of a large one are joined in a thread."""
    if request.large is None:
        return plan
    return msgspec.structs.replace(plan, body=await asyncio.to_thread(request.large.fill, plan.body))


def _unpaid(card: RateCard) -> Quote:
    """A quote of zero: the caller pays the provider for a BYOK run (R-17)."""
    return Quote(card, (), 0, 0)


def _body(request: Request, leg: Leg) -> tuple[bytes, tuple[str, ...]]:
    """The body for a leg, and the reasons for what could not be expressed in it (R-10, R-12, R-13)."""
    source = request.content if request.large is None else request.large.outline
    if request.asked.is_strict:
        return source, ()
    if leg.translation is not None:
        said = translate(leg.translation, request.asked.body)
        return _encode({**said.body, **_fixed_fields(request, leg)}), said.dropped
    schema = request.model.input_schema
    # The native body may lack the model's name, if its schema has one, and the fixed fields of the provider.
    added = _fixed_fields(request, leg) if leg.fixed else {}
    if schema is not None and schema.declares_model and "model" not in added and _lacks_model(source):
        added["model"] = request.model.name
    return _with(source, added) if added else source, ()


def _lacks_model(source: bytes) -> bool:
    """Whether the bytes themselves name no model; the parsed body was completed with it."""
    return b'"model"' not in source or msgspec.json.decode(source).get("model") is None


def _fixed_fields(request: Request, leg: Leg) -> dict[str, object]:
    return {
        name: value.replace(RUN_ID, request.run_id) if isinstance(value, str) else value
        for name, value in leg.fixed.items()
    }


def _with(content: bytes, added: Mapping[str, object]) -> bytes:
    """An object's bytes with fields added before its own, whose bytes do not change.

    If the object may already have such a field, the whole body is encoded again, so that no field occurs twice.
    """
    if any(_encode(name) in content for name in added):
        return _encode({**msgspec.json.decode(content), **added})
    head, _, rest = content.partition(b"{")
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    return b"".join((head, _encode(added)[:-1], comma, rest))
