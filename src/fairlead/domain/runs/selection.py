"""Which leg serves a run, and why one is refused: pure, in the fixed order of the specification (R-11).

The six refusals of an explicit `model_provider` are checked one after another; an earlier one answers whether or not
a later one would. What a check needs is given as a value; a gate that cannot be read is `unknown`
(domain/accounts/callers.py).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from fairlead.domain.accounts.callers import Caller, provider_gate, refuse_gate, refuse_policy
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.catalog.operations import Operation
from fairlead.domain.faults import Fault, FaultError, InvalidInput, KeyConflict

EDIT_PREFIX: Final = "this request's image selects the edit operation"
BYOK_PREFIX: Final = "this request resolved a BYOK credential"
"""Both are contracts: callers recognize these two conflicts by the beginning of their detail."""


class RouteOptions(msgspec.Struct, frozen=True):
    """The options of a run, from its address. `provider` None is native dispatch, however it was spelled."""

    provider: str | None = None
    is_strict: bool = False
    may_fall_back: bool = True
    rejects_unknown: bool = False


class Selection(msgspec.Struct, frozen=True):
    """The leg that serves a run, those that may after it, and how.

    `is_strict`: the body is in the provider's own form, and `operation` is what it means there. `is_byok`: with the
    caller's own credential, unbilled (R-17).
    """

    leg: Leg
    operation: Operation
    fallbacks: tuple[Leg, ...] = ()
    is_strict: bool = False
    is_byok: bool = False


class Facts(msgspec.Struct, frozen=True):
    """What a selection depends on. `alternates` are the providers that `model_provider` may name.

    `operation` is that of the body, read as a native one; `body` is as it was sent.
    """

    caller: Caller
    model: Model
    options: RouteOptions
    operation: Operation
    alternates: Collection[str]
    body: Mapping[str, object] = {}


Check = Callable[[Facts], Fault | None]


def select(facts: Facts, is_ready: Callable[[str], bool]) -> Selection:
    """Choose the legs of a run; FaultError with the first refusal. `is_ready`: a provider can be called at all."""
    options, model = facts.options, facts.model
    native = model.native
    byok = native.provider in facts.caller.own_keys
    if options.provider is None:
        fallbacks = () if byok or len(model.legs) == 1 else _fallbacks(facts, native, is_ready)
        return Selection(native, facts.operation, fallbacks, is_byok=byok)
    for check in REFUSALS:
        if fault := check(facts):
            raise FaultError(fault)
    leg = model.leg(options.provider)
    if leg is None:
        raise FaultError(_not_served(options.provider))
    if not _is_strict(facts, leg):
        return Selection(leg, facts.operation, _fallbacks(facts, leg, is_ready))
    if leg.strict is None:
        raise FaultError(InvalidInput(f"{options.provider[:64]} takes no bodies in its own form for {model.id}."))
    return Selection(leg, leg.strict.operation(facts.body), is_strict=True)


def _fallbacks(facts: Facts, first: Leg, is_ready: Callable[[str], bool]) -> tuple[Leg, ...]:
    """The other legs that may serve a run after the first has failed (R-14); none where fallback is inert."""
    options = facts.options
    if not options.may_fall_back or options.is_strict or facts.operation.is_edit:
        return ()
    return tuple(
        leg
        for leg in facts.model.legs
        if leg is not first
        and leg.call(facts.operation.name) is not None
        and is_ready(leg.provider)
        and refuse_gate(facts.caller, provider_gate(leg.provider), "") is None
        and facts.caller.providers.allow(leg.provider)
    )


def _is_strict(facts: Facts, leg: Leg) -> bool:
    """Whether the body is in the form of a leg's provider; the native leg takes native bodies in any mode."""
    return facts.options.is_strict and leg is not facts.model.native


def _refuse_unregistered(facts: Facts) -> Fault | None:
    wanted = str(facts.options.provider)
    return None if wanted in facts.alternates else _not_served(wanted)


def _cannot_edit(facts: Facts) -> Fault | None:
    if not facts.operation.is_edit:
        return None
    leg = facts.model.leg(str(facts.options.provider))
    if leg is not None and leg.call(facts.operation.name) is not None:
        return None
    return KeyConflict(f"{EDIT_PREFIX}, which {str(facts.options.provider)[:64]} does not serve for {facts.model.id}.")


def _has_own_key(facts: Facts) -> Fault | None:
    provider = facts.model.native.provider
    if provider not in facts.caller.own_keys:
        return None
    return KeyConflict(f"{BYOK_PREFIX} for {provider}; leave out model_provider, or delete the stored key.")


def _refuse_gated(facts: Facts) -> Fault | None:
    provider = str(facts.options.provider)
    return refuse_gate(facts.caller, provider_gate(provider), f"The provider {provider}")


def _no_leg(facts: Facts) -> Fault | None:
    leg = facts.model.leg(str(facts.options.provider))
    serves = leg is not None and (_is_strict(facts, leg) or leg.call(facts.operation.name) is not None)
    return None if serves else _not_served(str(facts.options.provider))


def _policy(facts: Facts) -> Fault | None:
    return refuse_policy(facts.caller, str(facts.options.provider))


REFUSALS: Final[tuple[Check, ...]] = (_refuse_unregistered, _cannot_edit, _has_own_key, _refuse_gated, _no_leg, _policy)
"""The six refusals, in their order."""


def _not_served(provider: str) -> InvalidInput:
    return InvalidInput(f"model_provider {provider[:64]!r} does not serve this model.")
