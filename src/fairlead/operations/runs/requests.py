"""What a call asks for: its body made whole and checked, and what its price depends on."""

from collections.abc import Sequence
from typing import Any

from fairlead.domain.billing.rates import Pricing, RateCard
from fairlead.domain.billing.strict_rates import beyond_card
from fairlead.domain.callers import Caller
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.catalog.operations import Operation
from fairlead.domain.catalog.schema import echo
from fairlead.domain.faults import FaultError, InputRejected, ServiceUnavailable, Violation
from fairlead.storage.database import Database, DatabaseUnavailableError
from fairlead.storage.runs import operation_of_work


def completed_body(model: Model, body: dict[str, Any]) -> dict[str, Any]:
    """The body with the model's name, where its schema has one and the caller left it to the path."""
    if model.input_schema is None or not model.input_schema.declares_model or body.get("model") is not None:
        return body
    return {**body, "model": model.name}


def _other_model(model: Model, body: dict[str, Any]) -> tuple[Violation, ...]:
    """What is wrong with a body that names another model than the path (decisions: the body's `model` field)."""
    named = body.get("model")
    if named in (model.id, model.name):
        return ()
    message, expected, repeated = f"The path names {model.id}.", {"expected": model.name}, echo(named)
    where = ("body", "model")
    return (Violation(where, message, "model_mismatch", expected, repeated, has_input=repeated is not None),)


def check_body(model: Model, body: dict[str, Any], found: Sequence[Violation] | None = None) -> None:
    """Hold a native body against the model's schema (R-08, R-21); FaultError(InputRejected).

    `found` is what is wrong by the schema, where that is known already.
    """
    schema = model.input_schema
    if schema is None:
        return
    violations = schema.violations(body) if found is None else tuple(found)
    if schema.declares_model:
        violations = _other_model(model, body) or violations
    if violations:
        raise FaultError(InputRejected(violations))


def check_unknown(model: Model, body: dict[str, Any]) -> None:
    """Refuse fields the model's schema does not declare (R-15); FaultError(InputRejected)."""
    schema = model.input_schema
    if schema is not None and (violations := schema.unknown_fields(body)):
        raise FaultError(InputRejected(violations))


def pricing_of(model: Model, body: dict[str, Any], size: int, operation: Operation, earlier: str | None) -> Pricing:
    """What the price of a body of so many bytes depends on; `earlier` as `earlier_operation` says."""
    return Pricing(
        body=body,
        defaults=model.input_schema.defaults if model.input_schema else {},
        size=size,
        operation=model.billed_operation(body, operation) if earlier is None else earlier,
    )


def check_strict_body(leg: Leg, body: dict[str, Any]) -> None:
    """Refuse what a body in a provider's own form must not say, as it was sent (S-01); FaultError(InputRejected)."""
    if leg.strict is not None and (violations := leg.strict.violations(body, leg.fixed)):
        raise FaultError(InputRejected(violations))


def strict_pricing_of(body: dict[str, Any], size: int, operation: Operation) -> Pricing:
    """What the price of a body in a provider's own form depends on: nothing but what is in it."""
    return Pricing(body, size=size, operation=operation.name, is_strict=True)


def check_within_card(card: RateCard, asked: Pricing) -> None:
    """Refuse a strict body that asks for more than its card can charge; FaultError(InputRejected)."""
    if violations := beyond_card(card, asked):
        raise FaultError(InputRejected(violations))


async def earlier_operation(database: Database, caller: Caller, draft: str) -> str | None:
    """What the earlier work was priced as that a body goes on with (R-16); None for work that is not known here.

    `draft` is the provider's name of that work. FaultError when it cannot be looked up.
    """
    try:
        return await database.read(lambda c: operation_of_work(c, caller.workspace_id, draft))
    except DatabaseUnavailableError as error:
        raise FaultError(ServiceUnavailable("The draft cannot be looked up right now.")) from error
