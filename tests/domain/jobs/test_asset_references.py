"""References to assets in workflows: found where they can stand, and nothing else changed (J-14)."""

import json
from typing import Any

import pytest

from fairlead.domain.jobs.asset_references import (
    REFERENCES_MAX,
    AssetReference,
    references_in,
    refusal_of_assets,
    with_names,
)

ID = "0191d3a5-7c5e-7b7e-8f35-0c6f6a4b1c2d"


def reference(**info: Any) -> dict[str, Any]:
    """Return a reference."""
    return {"__type": "core/ASSET", "info": info}


def workflow(**inputs: Any) -> bytes:
    """Return a workflow of one node."""
    return json.dumps({"1": {"class_type": "A", "inputs": inputs, "_meta": {"title": "t"}}}).encode()


@pytest.mark.req("J-14")
def test_references_in_values_and_lists_are_found_and_replaced() -> None:
    """References stand as values and in lists; each is replaced, and the rest stays as it was."""
    given = workflow(a=reference(id=ID), b=[[reference(id=ID)], "x"], seed=2**64 - 1, other={"__type": "x"})
    assert references_in(given) == [AssetReference("1", "A", ID)] * 2
    named = json.loads(with_names(given, {ID: "a.png"}))
    assert named["1"]["inputs"] == {"a": "a.png", "b": [["a.png"], "x"], "seed": 2**64 - 1, "other": {"__type": "x"}}
    assert named["1"]["_meta"] == {"title": "t"}


@pytest.mark.req("J-14")
@pytest.mark.parametrize(
    "given",
    [
        b"", b"[]", b"{}", b'{"1": "__type"}', b'{"1": {"inputs": "__type"}}', b'{"1": {"__type": 1}}',
        b'{"1": {"inputs": {"__type": "core/ASSET"}}}', b'{"1": {"class_type": 1, "inputs": {"a": {"__type": 1}}}}',
        b'{"1": {"class_type": "A", "inputs": {"a": ' + b"[" * 500 + b'{"__type": 1}' + b"]" * 500 + b"}}}",
        b'{"__type": ' + b"[" * 200_000,
        workflow(a={"a": reference(id=ID)}), workflow(a="__type", b={"__type": ["core/ASSET"]}),
    ],
    ids=lambda given: given[:60].decode(),
)  # fmt: skip
def test_values_that_cannot_be_references_are_ignored(given: bytes) -> None:
    """What cannot be a reference has none, whatever it is, and is refused elsewhere where that must be."""
    assert references_in(given) == []


@pytest.mark.req("J-14")
def test_counting_references_stops_one_past_the_limit() -> None:
    """One more than there may be is enough to know."""
    given = workflow(a=[reference(id=ID)] * (REFERENCES_MAX + 50))
    assert len(references_in(given)) == REFERENCES_MAX + 1


@pytest.mark.req("J-14", "J-08")
@pytest.mark.parametrize(("count", "truncated"), [(50, False), (51, True)])
def test_refusal_names_at_most_fifty_nodes(count: int, *, truncated: bool) -> None:
    """Fifty nodes are named, and it is said where there are more."""
    told = refusal_of_assets([AssetReference(str(number), "A", ID) for number in range(count)])
    assert told.code == "missing_asset"
    assert len(told.details["node_errors"]) == 50
    assert told.details.get("node_errors_truncated", False) is truncated


@pytest.mark.req("J-14", "S-02")
@pytest.mark.parametrize("before", range(64 * 1024 - 80, 64 * 1024, 2))
def test_reference_is_found_wherever_it_stands_in_a_long_workflow(before: int) -> None:
    """A workflow is searched a piece at a time, and a reference may begin in one and end in the next."""
    given = workflow(a="x" * before, b=reference(id=ID))
    assert references_in(given) == [AssetReference("1", "A", ID)]
