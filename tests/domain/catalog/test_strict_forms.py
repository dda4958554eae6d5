"""Bodies in a provider's own form: what a leg does not name never reaches the provider."""

from typing import Any, Final

import pytest

from fairlead.domain.catalog.operations import Operation
from fairlead.domain.catalog.schema import VIOLATIONS_MAX
from fairlead.domain.catalog.strict_forms import StrictField, StrictForm
from fairlead.domain.pointers import Condition

EDIT: Final = Operation("edit", (Condition(("pictures",)),), is_edit=True)
GENERATE: Final = Operation("generate")
FORM: Final = StrictForm(
    (
        StrictField(("prompt",)),
        StrictField(("size",)),
        StrictField(("size", "width")),
        StrictField(("sync",), values=frozenset({"false"})),
        StrictField(("pictures", "*"), at_most=2),
        StrictField(("shots", "*", "prompt")),
    ),
    (EDIT, GENERATE),
)
FIXED: Final = {"model": "maker:5@1", "task": "{run}", "cost": True, "more": {"a": [1]}}
UUID: Final = "0190D3c8-1111-7222-8333-944445555666"
GOOD: Final = {"model": "maker:5@1", "task": UUID, "cost": True, "more": {"a": [1]}}


def refusal_of(body: dict[str, Any], fixed: dict[str, Any] | None = None) -> list[tuple[tuple[str | int, ...], str]]:
    """Return where a body is refused, and for which kind of mistake."""
    return [(one.loc, one.type) for one in FORM.violations(body, {} if fixed is None else fixed)]


@pytest.mark.req("S-01", "R-13")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": "a", "size": "large", "sync": False, "pictures": ["x", "y"]},
        {"prompt": None, "size": None, "pictures": None, "shots": None},
        {"size": {"width": 5}, "pictures": [], "shots": [{"prompt": "a"}, {}]},
    ],
)
def test_named_fields_pass(body: dict[str, Any]) -> None:
    """A body of fields that the leg names is taken, whatever stands in them; null is as good as nothing."""
    assert refusal_of(body) == []


@pytest.mark.req("S-01")
@pytest.mark.parametrize(
    ("body", "place", "kind"),
    [
        ({"webhook": "https://x.example"}, ("webhook",), "extra_forbidden"),
        ({"Prompt": "a"}, ("Prompt",), "extra_forbidden"),
        ({"*": "a"}, ("*",), "extra_forbidden"),
        ({"size": {"height": 5}}, ("size", "height"), "extra_forbidden"),
        ({"size": ["5"]}, ("size",), "type"),
        ({"prompt": {"a": 1}}, ("prompt",), "type"),
        ({"prompt": []}, ("prompt",), "type"),
        ({"pictures": "one"}, ("pictures",), "type"),
        ({"pictures": {"0": "one"}}, ("pictures",), "type"),
        ({"pictures": {"*": "one"}}, ("pictures",), "type"),
        ({"pictures": [["one"]]}, ("pictures", 0), "type"),
        ({"pictures": ["1", "2", "3"]}, ("pictures",), "too_long"),
        ({"shots": [{"prompt": "a", "seconds": 9}]}, ("shots", 0, "seconds"), "extra_forbidden"),
        ({"shots": ["a"]}, ("shots", 0), "type"),
        ({"sync": True}, ("sync",), "enum"),
        ({"sync": "false"}, ("sync",), "enum"),
        ({"sync": 0}, ("sync",), "enum"),
    ],
)
def test_unnamed_places_and_values_are_refused(body: dict[str, Any], place: tuple[str | int, ...], kind: str) -> None:
    """What the leg does not name has no price, at any depth, in any spelling and in any other shape."""
    assert refusal_of(body) == [(("body", *place), kind)]


@pytest.mark.req("S-01")
def test_fixed_fields_must_have_their_values() -> None:
    """The fixed values pass, with a UUID of the caller's own where the run's id would stand."""
    assert refusal_of(GOOD, FIXED) == []
    assert refusal_of({}, FIXED) == [(("body", name), "missing") for name in FIXED]


@pytest.mark.req("S-01")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "maker:6@1"),
        ("model", ["maker:5@1"]),
        ("model", None),
        ("task", "run-1"),
        ("task", f"{UUID}\n"),
        ("task", None),
        ("cost", 1),
        ("cost", "true"),
        ("more", {"a": [1, 2]}),
        ("more", {"a": [True]}),
    ],
)
def test_another_value_of_a_fixed_field_is_refused(name: str, value: Any) -> None:
    """A fixed field with anything but its own value, of its own type, is named."""
    assert refusal_of({**GOOD, name: value}, FIXED) == [(("body", name), "const")]


@pytest.mark.req("R-21")
def test_violations_are_bounded() -> None:
    """A body of nonsense makes no larger answer than any other."""
    assert len(refusal_of({f"f{number}": 1 for number in range(1000)})) == VIOLATIONS_MAX
    ((_, name), _) = refusal_of({"x" * 5000: 1})[0]
    assert len(str(name)) == 200


@pytest.mark.req("R-16")
def test_operation_follows_from_the_providers_own_fields() -> None:
    """What a strict body means is read in the provider's words."""
    assert FORM.operation({"pictures": ["a"], "image": "b"}) is EDIT
    assert FORM.operation({"pictures": [], "image": "b"}) is GENERATE
