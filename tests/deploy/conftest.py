"""What the files in `deploy` are held against: the metrics of a real server."""

import re
from collections.abc import Mapping
from typing import Final

import pytest

from servers import serving

_TYPE: Final = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
_LABELS: Final = re.compile(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", re.MULTILINE)
_OF_HISTOGRAMS: Final = ("_bucket", "_sum", "_count")


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the names of the samples of a real server, each with the metric that it is of."""
    with serving(tmp_path_factory.mktemp("metrics") / "data", arguments=("--no-local-partner",)) as server:
        page = server.client.get("/metrics").text
    names: dict[str, str] = {}
    for name, kind in _TYPE.findall(page):
        names |= {name + end: name for end in _OF_HISTOGRAMS} if kind == "histogram" else {name: name}
    return names


@pytest.fixture(scope="session")
def labels() -> Mapping[str, frozenset[str]]:
    """Return the labels of each metric, as the page about them says."""
    from form.sources import DOCS  # noqa: PLC0415 -- it reads all of the source

    page = (DOCS / "observing.md").read_text(encoding="utf-8")
    return {name: frozenset(re.findall(r"`(\w+)`", listed)) for name, listed in _LABELS.findall(page)}
