"""What tests of the engine may ask for: an executor of the sample nodes, and what it makes of a graph."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from conftest import Run
from engine.executions import Bench, Seen

Execute: TypeAlias = Callable[..., Seen]


@pytest.fixture(params=[False, True], ids=["in a thread", "in a spare loop"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Return an executor with an empty cache, over folders of its own."""
    (tmp_path / "input").mkdir()
    opened = Bench(tmp_path, is_spare=request.param)
    yield opened
    opened.executor.close()


@pytest.fixture
def execute(bench: Bench, run: Run) -> Execute:
    """Return a function that executes a graph; what it did before is in the cache."""

    def execute_document(document: Mapping[str, Any], **options: Any) -> Seen:
        seen: Seen = run(bench.run(document, **options))
        return seen

    return execute_document
