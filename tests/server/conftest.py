"""Event loops of both kinds for tests of connections: they read and write in different ways."""

import asyncio
from collections.abc import Iterator

import pytest
import uvloop

from conftest import Run


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Return what runs a coroutine in an event loop of either kind."""
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run
