"""Branch coverage of `src` by the tests that call it in their own process; `make test` asks for it with COVERAGE=1.

Servers and engine hosts are processes of their own, and what they execute is not counted: they would be a third slower.
So tests of APIs, of whole servers, of pages and of the code's form are not measured at all. Imports are, whatever makes
them, or no `def` would ever be reached; hence this module is imported before any of the product's.

Whatever a process executes takes two to five times as long while it is measured, libraries included. So of a test with
many cases the first few are measured, and none that makes its own examples: those repeat the same lines.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import is_hypothesis_test

_ROOT: Final = Path(__file__).parents[1]
_DATA: Final = _ROOT / ".coverage"
_NOT_MEASURED: Final = frozenset({"attacks", "docs", "end_to_end", "form", "partners", "api"})
_MOST_CASES: Final = 20
"""How many cases of a test each process measures."""
_FLOOR: Final = 71.0
"""The share of lines and branches that must be reached when all of the tests have run, in percent."""


class BranchCoverage:
    """Measures one test process: its imports, and those of its tests that call the product themselves."""

    def __init__(self) -> None:
        from coverage import Coverage  # noqa: PLC0415 -- only who measures has any use for it

        self._coverage = Coverage(_DATA / "data", data_suffix=True, branch=True, source=[str(_ROOT / "src")])
        self._cases: Counter[tuple[Path, str]] = Counter()
        self._coverage.start()

    def pytest_collection_finish(self) -> None:
        """Rest until the first test that is measured."""
        self._coverage.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test and its fixtures, if it is one of those that are."""
        if not self._is_measured(item):
            return (yield)
        self._coverage.start()
        try:
            return (yield)
        finally:
            self._coverage.stop()

    def _is_measured(self, item: pytest.Item) -> bool:
        if not isinstance(item, pytest.Function) or item.path.relative_to(_ROOT).parts[1] in _NOT_MEASURED:
            return False
        test = item.path, item.originalname
        self._cases[test] += 1
        return self._cases[test] <= _MOST_CASES and not is_hypothesis_test(item.obj)

    def pytest_sessionfinish(self) -> None:
        """Leave what was found to the process that adds all of it up."""
        self._coverage.save()


class Summary:
    """Adds up what all processes of a run have found, prints it, and has the run fail below the floor."""

    def __init__(self) -> None:
        shutil.rmtree(_DATA, ignore_errors=True)
        _DATA.mkdir()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line; `coverage report --data-file .coverage/data` says which lines are missing."""
        from coverage import Coverage  # noqa: PLC0415 -- same

        found = Coverage(_DATA / "data", branch=True, source=[str(_ROOT / "src")])
        found.combine([str(_DATA)])
        found.save()
        with Path(os.devnull).open("w") as nowhere:
            share = found.report(file=nowhere)
        terminalreporter.section("coverage")
        terminalreporter.line(f"{share:.1f} % of the lines and branches of src, called directly (at least {_FLOOR} %)")
        session = terminalreporter._session
        if share < _FLOOR and session is not None and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def measure(config: pytest.Config) -> None:
    """Take part in a run of the tests, where it was asked for."""
    if _measuring is not None:
        config.pluginmanager.register(_measuring)
        if _summary is not None:
            config.pluginmanager.register(_summary)


_is_asked_for: Final = bool(os.environ.get("COVERAGE"))
_summary: Final = Summary() if _is_asked_for and "PYTEST_XDIST_WORKER" not in os.environ else None
_measuring: Final = BranchCoverage() if _is_asked_for else None
