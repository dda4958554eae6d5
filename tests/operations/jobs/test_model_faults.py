"""The faults of the router as errors of partner nodes: each has a kind and words, whatever it is."""

import pytest

from domain.every_fault import EVERY
from fairlead.domain.faults import Fault, InputRejected, ModelNotFound, Violation
from fairlead.operations.jobs.model_faults import decline

pytestmark = pytest.mark.req("C-12")


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: type(fault).__name__)
def test_every_fault_has_a_kind_and_a_sentence(fault: Fault) -> None:
    """Nobody is told less than what the router would say, and nothing that only the log may know."""
    error = decline(fault)
    assert error.exception_type.endswith("Error")
    assert len(error.message) > 3
    assert "None" not in error.message


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ModelNotFound("acme/x"), "There is no model acme/x."),
        (ModelNotFound("acme/x", retired_on="2026-01-01"), "acme/x was retired on 2026-01-01."),
        (ModelNotFound("acme/x", (), "2026-01-01", "acme/y"), "acme/x was retired on 2026-01-01; use acme/y."),
        (InputRejected((Violation(("body",), "It is empty", "missing"),)), "body: It is empty"),
        (
            InputRejected(tuple(Violation(("body", "n", i), "Too small", "ge") for i in range(7))),
            "n.0: Too small; n.1: Too small; n.2: Too small; n.3: Too small; n.4: Too small; and 2 more",
        ),
    ],
)
def test_message_says_how_to_correct_the_request(fault: Fault, words: str) -> None:
    """The first fields that are wrong, and what to use instead."""
    assert decline(fault).message == words
