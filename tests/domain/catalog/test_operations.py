"""What a body asks for: the operation that serves it, and the one it is priced as."""

from typing import Any

import pytest

from fairlead.domain.catalog.models import Document, Leg, Model
from fairlead.domain.catalog.operations import SOLE, Operation
from fairlead.domain.pointers import Condition, parse_pointer


def when(at: str, *equals: str) -> tuple[Condition, ...]:
    """Return the condition that something, or one of some texts, stands at a place."""
    return (Condition(parse_pointer(at), frozenset(equals) or None),)


EDIT = Operation("edit", when("/image"), is_edit=True)
MASK = Operation("mask", when("/mask"))
GENERATE = Operation("generate")
LEG = Leg("acme", {"run": "image"}, {"run": "image"}, ())
ROLE = "/content/*/role"
FILMS = (
    Operation("reference-to-video", when(ROLE, "reference_image")),
    Operation("image-to-video", when(ROLE, "first_frame", "last_frame")),
    Operation("text-to-video"),
)
KINDS = (Operation("from-video", when("/content/*/type", "video_url")), Operation("from-nothing"))


def model(**changes: Any) -> Model:
    """Return a model with nothing to it but its operations."""
    return Model("acme/x", (LEG,), "no", Document(b"{}", '"x"'), **changes)


@pytest.mark.req("R-16")
@pytest.mark.parametrize(
    ("body", "operation"),
    [
        ({"prompt": "x"}, GENERATE),
        ({"image": "data:,"}, EDIT),
        ({"image": "data:,", "mask": "data:,"}, EDIT),
        ({"mask": "data:,"}, MASK),
        ({"image": None}, GENERATE),
        ({"image": ""}, GENERATE),
        ({"image": []}, GENERATE),
    ],
)
def test_first_operation_whose_conditions_hold_is_meant(body: dict[str, Any], operation: Operation) -> None:
    """The first operation whose conditions hold is meant, the last one where none does."""
    editable = model(operations=(EDIT, MASK, GENERATE))
    assert editable.operation(body) is operation
    assert editable.billed_operation(body, editable.operation(body)) == operation.name


@pytest.mark.req("R-16")
def test_last_operation_is_meant_when_no_conditions_hold() -> None:
    """A model whose every operation has conditions means the last one where none holds."""
    assert model(operations=(EDIT, MASK)).operation({}) is MASK


@pytest.mark.req("R-16")
@pytest.mark.parametrize(
    ("content", "operation", "billed"),
    [
        ([{"type": "text"}], "text-to-video", "from-nothing"),
        ([{"type": "image_url", "role": "first_frame"}], "image-to-video", "from-nothing"),
        ([{"type": "video_url", "role": "first_frame"}], "image-to-video", "from-video"),
        ([{"type": "video_url"}], "text-to-video", "from-video"),
        ([{"role": "first_frame"}, {"role": "reference_image"}], "reference-to-video", "from-nothing"),
    ],
)
def test_roles_select_the_operation_and_media_kinds_the_price(
    content: list[dict[str, Any]], operation: str, billed: str
) -> None:
    """Roles select the operation, and kinds of media the price, each on its own."""
    family = model(operations=FILMS, billed_as=KINDS)
    meant = family.operation({"content": content})
    assert (meant.name, family.billed_operation({"content": content}, meant)) == (operation, billed)


@pytest.mark.req("R-16")
def test_model_with_one_operation_is_priced_by_it() -> None:
    """Where there is only one, prices know no operations."""
    assert model().operation({"image": "x"}) is SOLE
    assert model().billed_operation({}, SOLE) is None


@pytest.mark.req("R-16")
@pytest.mark.parametrize(
    ("body", "draft"),
    [
        ({"content": [{"type": "text"}, {"type": "draft_task", "draft_task": {"id": "cgt-1"}}]}, "cgt-1"),
        ({"content": [{"type": "draft_task", "draft_task": {"id": 7}}]}, "7"),
        ({"content": [{"type": "draft_task", "draft_task": {"id": None}}]}, None),
        ({"content": [{"type": "text", "draft_task": {"id": "cgt-1"}}]}, None),
        ({}, None),
    ],
)
def test_draft_is_found_in_a_body_that_goes_on_with_one(body: dict[str, Any], draft: str | None) -> None:
    """A body that goes on with a draft names its work; one that does not, none."""
    pointer = parse_pointer("/content/*[type=draft_task]/draft_task/id")
    assert model(draft_of=pointer).draft(body) == draft
    assert model().draft(body) is None


def test_leg_is_found_by_its_provider() -> None:
    """The first leg is the native one; each is found by its provider, and its calls by operation."""
    other = Leg("fal", {"edit": "queue"}, {"edit": "x"}, ())
    both = Model("acme/x", (LEG, other), "yes", Document(b"{}", '"x"'))
    assert (both.native, both.leg("fal"), both.leg("nobody")) == (LEG, other, None)
    assert (other.call("edit"), other.call("generate")) == ("queue", None)
    assert both.bills_refusals
