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


def _caused_by(cause: BaseException) -> BaseException:
    """An error that a node has raised from another."""
    error = LookupError("no")
    error.__cause__ = cause
    return error


def _of_a_library(module: str) -> BaseException:
    missing: type[OSError] = type("Missing", (OSError,), {"__module__": module})
    return missing("no")


@pytest.mark.req("C-12")
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (_caused_by(MemoryError()), "OOMError"),
        (_caused_by(NamedFaultError("ImageDownloadError", "no")), "ImageDownloadError"),
        (_caused_by(NamedFaultError("ProviderError", "no")), "LookupError"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "OOMError"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "OOMError"),
        (type("Worse", (type("OutOfMemoryError", (RuntimeError,), {}),), {})("no"), "OOMError"),
        (_of_a_library("huggingface_hub.errors"), "ModelDownloadError"),
        (_of_a_library("huggingface_hubs"), "huggingface_hubs.Missing"),
    ],
)
def test_error_has_one_of_the_six_names_where_its_cause_fits(error: BaseException, name: str) -> None:
    """Whatever class a node has raised, and whatever it has wrapped; any other error keeps the name of its class."""
    assert failure(Place("1", "1"), "Node", error, {}, ()).exception_type == name
