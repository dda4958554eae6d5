"""What a caller may run, and in which order it is refused."""

from typing import Any

import pytest

from fairlead.domain.accounts.callers import Caller, Gate, Patterns, is_organization_id, refuse_model, refuse_provider
from fairlead.domain.faults import Fault, Forbidden, NotEnabled, ServiceUnavailable

REFUSALS: tuple[tuple[dict[str, Any], type], ...] = (
    ({"credential_models": Patterns(())}, Forbidden),
    ({"gates": {"provider:acme": Gate.UNKNOWN}}, ServiceUnavailable),
    ({"providers": Patterns(("other",))}, Forbidden),
)


def caller(**changes: Any) -> Caller:
    """Return a caller who may do everything but for these changes."""
    return Caller("id", "lab", **changes)


@pytest.mark.parametrize(
    ("allowed", "name", "answer"),
    [
        (None, "acme/one", True),
        ((), "acme/one", False),
        (("acme/one",), "acme/one", True),
        (("acme/one",), "acme/one-more", False),
        (("acme/*",), "acme/one", True),
        (("acme/*",), "acme", False),
        (("acme/o*", "b/*"), "b/x", True),
        (("*",), "anything/else", True),
        (("a*e/one",), "acme/one", False),
    ],
)
def test_pattern_is_a_name_or_a_prefix_before_a_star(
    allowed: tuple[str, ...] | None, name: str, *, answer: bool
) -> None:
    """A pattern is a name, or a prefix before a star at its end."""
    assert Patterns(allowed).allow(name) is answer


def refusal_of(who: Caller) -> Fault | None:
    """Why a caller may not run a model on its provider, in the order in which a run is checked."""
    return refuse_model(who, "acme/one") or refuse_provider(who, "acme")


@pytest.mark.req("R-38")
@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, type(None)),
        ({"gates": {"router": Gate.ON, "provider:acme": Gate.ON}}, type(None)),
        ({"gates": {"provider:acme": Gate.OFF}}, NotEnabled),
        ({"gates": {"provider:acme": Gate.UNKNOWN}}, ServiceUnavailable),
        ({"gates": {"provider:other": Gate.OFF}}, type(None)),
        ({"workspace_models": Patterns(("b/*",))}, Forbidden),
        ({"credential_models": Patterns(("b/*",))}, Forbidden),
        ({"providers": Patterns(("b",))}, Forbidden),
    ],
)
def test_each_reason_to_refuse_a_caller_has_its_own_answer(changes: dict[str, Any], kind: type) -> None:
    """Each thing that forbids a run has its own answer."""
    assert type(refusal_of(caller(**changes))) is kind


@pytest.mark.req("R-38")
@pytest.mark.parametrize("first", range(len(REFUSALS) - 1))
def test_earlier_of_two_refusals_is_told(first: int) -> None:
    """With two reasons the earlier one is told, even when the later cannot be evaluated."""
    earlier, later = REFUSALS[first], REFUSALS[first + 1]
    gates = {**earlier[0].get("gates", {}), **later[0].get("gates", {})}
    both = {**later[0], **earlier[0], "gates": gates}
    assert type(refusal_of(caller(**both))) is earlier[1]


@pytest.mark.req("J-11")
@pytest.mark.parametrize(
    "text", ["o", "org_01H8ZK", "0191d3a5-7c5e-7b7e-8f35-0c6f6a4b1c2d", "acme.example/eu", "é" * 100]
)
def test_organization_id_may_have_any_printable_form(text: str) -> None:
    """Anyone who names organizations has names of any form."""
    assert is_organization_id(text)


@pytest.mark.req("J-11")
@pytest.mark.parametrize("text", ["", "o" * 101, "a b", "a\n", "\0", "\u202e", "\ud800", "\u00a0"])
def test_organization_id_that_is_invisible_or_endless_is_refused(text: str) -> None:
    """What cannot be seen, or has no end, is not a name."""
    assert not is_organization_id(text)
