"""Engine hosts for tests that leave them as they were."""

from collections.abc import Iterator

import pytest

from engine.hosts.engines import Engine, running_engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Return hosts that the tests of a module share."""
    with running_engine(tmp_path_factory.mktemp("engine")) as running:
        yield running
