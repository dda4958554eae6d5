"""Which leg serves a run: the six refusals in their order, and which legs may serve after the first."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from fairlead.domain.accounts.callers import Caller, Gate, Patterns
from fairlead.domain.catalog.models import Document, Leg, Model
from fairlead.domain.catalog.operations import Operation
from fairlead.domain.catalog.strict_forms import StrictField, StrictForm
from fairlead.domain.faults import (
    Fault,
    FaultError,
    Forbidden,
    InvalidInput,
    KeyConflict,
    NotEnabled,
    ServiceUnavailable,
)
from fairlead.domain.pointers import Condition
from fairlead.domain.runs.selection import BYOK_PREFIX, EDIT_PREFIX, REFUSALS, Facts, RouteOptions, Selection, select

EDIT: Final = Operation("edit", (Condition(("image",)),), is_edit=True)
GENERATE: Final = Operation("generate")


def leg(provider: str, *operations: str) -> Leg:
    """Return a leg that serves some operations."""
    calls = dict.fromkeys(operations, "call")
    served = tuple(one for one in (EDIT, GENERATE) if one.name in operations)
    return Leg(provider, calls, calls, (), strict=StrictForm([StrictField(("text",))], served))


BOTH: Final = ("edit", "generate")
LEGS: Final = (leg("acme", *BOTH), leg("fal", *BOTH), leg("wavespeed", *BOTH), leg("runware", "generate"))
FREE: Final = Facts(
    Caller("id", "lab"),
    Model("acme/x", LEGS, "no", Document(b"{}", '"x"'), operations=(EDIT, GENERATE)),
    RouteOptions("fal"),
    GENERATE,
    frozenset({"fal", "wavespeed", "runware"}),
)


def change(facts: Facts, *, caller: dict[str, Any] | None = None, legs: tuple[Leg, ...] = (), **others: Any) -> Facts:
    """Return facts of which something is otherwise."""
    return msgspec.structs.replace(
        facts,
        caller=msgspec.structs.replace(facts.caller, **(caller or {})),
        model=dataclasses.replace(facts.model, legs=legs or facts.model.legs),
        **others,
    )


def _cannot_edit(facts: Facts) -> Facts:
    kept = tuple(leg("fal", "generate") if one.provider == "fal" else one for one in facts.model.legs)
    return change(facts, operation=EDIT, legs=kept)


_SPOILT: Final[dict[str, tuple[Callable[[Facts], Facts], type[Fault], str]]] = {
    "unregistered": (
        lambda facts: change(facts, alternates=frozenset({"wavespeed"})),
        InvalidInput,
        "model_provider 'fal' does not serve this model.",
    ),
    "edit": (_cannot_edit, KeyConflict, EDIT_PREFIX),
    "byok": (lambda facts: change(facts, caller={"own_keys": frozenset({"acme"})}), KeyConflict, BYOK_PREFIX),
    "gate": (lambda facts: change(facts, caller={"gates": {"provider:fal": Gate.OFF}}), NotEnabled, "The provider fal"),
    "no leg": (
        lambda facts: change(facts, legs=tuple(one for one in facts.model.legs if one.provider != "fal")),
        InvalidInput,
        "model_provider 'fal' does not serve this model.",
    ),
    "policy": (lambda facts: change(facts, caller={"providers": Patterns(("acme",))}), Forbidden, "The policy"),
}
"""How each refusal comes about, its fault and how its detail begins; in the order of the specification."""

_ORDER: Final = tuple(_SPOILT)


def spoilt(*names: str) -> Facts:
    """Return facts for which some refusals hold at once."""
    facts = FREE
    for name in _ORDER:
        if name in names:
            facts = _SPOILT[name][0](facts)
    return facts


def refusal(facts: Facts) -> Fault:
    """Return what a selection is refused with."""
    with pytest.raises(FaultError) as caught:
        select(facts, ready)
    return caught.value.fault


def ready(_provider: str) -> bool:
    """Say that every provider can be called."""
    return True


def answers(fault: Fault, name: str) -> bool:
    """Whether a fault is the answer of a refusal."""
    _, kind, begins = _SPOILT[name]
    return type(fault) is kind and str(getattr(fault, "detail", "")).startswith(begins)


def names(selection: Selection) -> tuple[str, ...]:
    """Return the providers of a selection's legs, in their order."""
    return (selection.leg.provider, *(one.provider for one in selection.fallbacks))


@pytest.mark.req("R-11")
@pytest.mark.parametrize("name", _ORDER)
def test_each_refusal_answers_alone(name: str) -> None:
    """Each refusal answers alone, with its fault and, where it is a contract, its detail."""
    assert names(select(FREE, ready))[0] == "fal"
    assert answers(refusal(spoilt(name)), name)


@pytest.mark.req("R-11")
@pytest.mark.parametrize(("earlier", "later"), list(itertools.combinations(_ORDER, 2)))
def test_earlier_of_two_refusals_answers(earlier: str, later: str) -> None:
    """Of two refusals that hold at once the earlier answers."""
    facts = spoilt(earlier, later)
    both = [REFUSALS[_ORDER.index(name)](facts) for name in (earlier, later)]
    assert None not in both
    assert refusal(facts) == both[0]
    assert answers(refusal(facts), earlier)


@pytest.mark.req("R-11")
def test_first_refusal_in_the_specified_order_answers() -> None:
    """Whatever refusals hold at once, the first of them in the order of the specification answers."""
    for count in range(1, len(_ORDER) + 1):
        for held in itertools.combinations(_ORDER, count):
            assert answers(refusal(spoilt(*held)), held[0]), held


@pytest.mark.req("R-11", "R-38")
def test_unreadable_gate_is_503_without_a_wait() -> None:
    """A gate that cannot be evaluated is 503, and asks nobody to wait for capacity."""
    fault = refusal(change(FREE, caller={"gates": {"provider:fal": Gate.UNKNOWN}}))
    assert isinstance(fault, ServiceUnavailable)
    assert fault.retry_after is None


@pytest.mark.req("R-11")
def test_edit_is_taken_where_the_leg_carries_it() -> None:
    """A named leg that serves the edit proceeds normally."""
    chosen = select(change(FREE, operation=EDIT), ready)
    assert (chosen.leg.provider, chosen.operation) == ("fal", EDIT)


@pytest.mark.req("R-11")
def test_leg_that_does_not_serve_the_operation_is_refused() -> None:
    """A provider that serves the model but not what the body asks for does not serve it."""
    facts = change(FREE, legs=(LEGS[0], leg("fal", "edit")))
    assert answers(refusal(facts), "no leg")


@pytest.mark.req("R-11", "R-17")
def test_stored_key_answers_although_the_named_provider_has_no_leg() -> None:
    """The stored key of the path's provider answers whether or not the named provider serves the model."""
    assert answers(refusal(spoilt("byok", "no leg")), "byok")
    assert names(select(change(FREE, caller={"own_keys": frozenset({"fal"})}), ready))[0] == "fal"


@pytest.mark.req("R-11")
def test_native_run_is_refused_for_none_of_the_six_reasons() -> None:
    """None of the six is asked without an explicit provider: the native leg serves, with or without a stored key."""
    for name in _ORDER:
        chosen = select(msgspec.structs.replace(spoilt(name), options=RouteOptions()), ready)
        assert chosen.leg.provider == "acme"
        assert chosen.is_byok is (name == "byok")
        assert not chosen.is_strict


@pytest.mark.req("R-13")
def test_strict_run_is_strict_only_on_a_named_provider() -> None:
    """Strict is a run whose body is the named provider's own form; on native dispatch the option has no effect."""
    assert select(change(FREE, options=RouteOptions("fal", is_strict=True)), ready).is_strict
    assert not select(change(FREE, options=RouteOptions("fal")), ready).is_strict
    assert not select(change(FREE, options=RouteOptions(is_strict=True)), ready).is_strict


@pytest.mark.req("R-14")
def test_every_other_leg_may_serve_after_a_failure() -> None:
    """Every other leg that serves the operation may serve it next, in the order of the model."""
    assert names(select(FREE, ready)) == ("fal", "acme", "wavespeed", "runware")
    assert names(select(change(FREE, options=RouteOptions()), ready)) == ("acme", "fal", "wavespeed", "runware")


_INERT: Final[dict[str, Facts]] = {
    "false": change(FREE, options=RouteOptions(may_fall_back=False)),
    "false at an alternate": change(FREE, options=RouteOptions("fal", may_fall_back=False)),
    "a stored key": change(FREE, options=RouteOptions(), caller={"own_keys": frozenset({"acme"})}),
    "an edit": change(FREE, options=RouteOptions(), operation=EDIT),
    "an edit at an alternate": change(FREE, operation=EDIT),
    "strict": change(FREE, options=RouteOptions("fal", is_strict=True)),
    "strict at its own provider": change(FREE, options=RouteOptions(is_strict=True)),
    "a model of one leg": change(FREE, options=RouteOptions(), legs=LEGS[:1]),
}


@pytest.mark.req("R-14")
@pytest.mark.parametrize("facts", _INERT.values(), ids=_INERT.keys())
def test_run_does_not_fall_back_where_fallback_is_inert(facts: Facts) -> None:
    """Fallback is inert, never a refusal, on a stored key, on an edit, under strict mode and when it is off."""
    assert select(facts, ready).fallbacks == ()


_UNFIT: Final[dict[str, Facts]] = {
    "gated": change(FREE, options=RouteOptions(), caller={"gates": {"provider:fal": Gate.OFF}}),
    "behind a gate nobody can read": change(
        FREE, options=RouteOptions(), caller={"gates": {"provider:fal": Gate.UNKNOWN}}
    ),
    "ruled out by policy": change(
        FREE, options=RouteOptions(), caller={"providers": Patterns(("acme", "wave*", "runware"))}
    ),
    "without the operation": change(FREE, options=RouteOptions(), legs=(LEGS[0], leg("fal", "edit"), *LEGS[2:])),
}


@pytest.mark.req("R-14", "R-38")
@pytest.mark.parametrize("facts", _UNFIT.values(), ids=_UNFIT.keys())
def test_fallback_skips_providers_the_caller_may_not_use(facts: Facts) -> None:
    """A leg that is gated, ruled out or does not serve the operation is passed over, and the others stay."""
    assert names(select(facts, ready)) == ("acme", "wavespeed", "runware")


@pytest.mark.req("R-14")
def test_fallback_skips_providers_that_cannot_be_called() -> None:
    """A leg whose provider is not ready (no key of ours, or at rest) is passed over."""
    chosen = select(change(FREE, options=RouteOptions()), lambda provider: provider == "wavespeed")
    assert names(chosen) == ("acme", "wavespeed")
