"""What an error is called when it is told."""

import json

import pytest

from fairlead.domain.jobs.events import Place
from fairlead.engine.graph.failures import failure
from fairlead.engine.graph.live import ExpansionError
from fairlead.engine.nodes.context import NamedFaultError
from fairlead.engine.texts.expressions import ExpressionError


@pytest.mark.req("C-12")
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError("no"), "ValueError"),
        (json.JSONDecodeError("no", "", 0), "json.decoder.JSONDecodeError"),
        (ExpressionError("no"), "ValueError"),
        (ExpansionError("no"), "Exception"),
        (NamedFaultError("ProviderError", "no"), "ProviderError"),
    ],
)
def test_error_is_told_by_a_name_that_clients_can_know(error: Exception, name: str) -> None:
    """Python's by theirs, others with their module; ours by the one of Python's that they are a kind of."""
    assert failure(Place("1", "1"), "Node", error, {}, ()).exception_type == name
