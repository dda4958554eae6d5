"""Branch coverage of `src` by the tests that call it in their own process; `make test` asks for it with COVERAGE=1.

Servers and engine hosts are processes of their own, and what they execute is not counted: they would be a third slower.
So tests of APIs, of whole servers, of pages and of the code's form are not measured at all, nor are histories, which
repeat the lines that other tests reach. Imports are measured once, by a process that imports everything: so pytest may
collect the tests unmeasured, which takes a third of the time.

Everything that a process executes takes two to five times as long while it is measured, libraries included. So of a
test with many cases the first is measured, and none that makes its own examples: those repeat the same lines.
Of tests that run on both databases only those of storage are measured on each: the lines of others are the same.
"""

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import is_hypothesis_test

if TYPE_CHECKING:
    from coverage import Coverage

_ROOT: Final = Path(__file__).parents[1]
_DATA: Final = _ROOT / ".coverage"
_NOT_MEASURED: Final = frozenset({"api", "attacks", "docs", "end_to_end", "form", "partners", "simulation"})
_NOT_IMPORTED: Final = ("__main__", "migrations.env")
"""How the names of modules end that are programs, or that only Alembic can load."""

_FLOOR: Final = 71.0
"""The share of lines and branches that must be reached when all of the tests have run, in percent."""


class BranchCoverage:
    """Measures one test process: those of its tests that call the product themselves."""

    def __init__(self) -> None:
        self._coverage = _new_coverage()

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
        if not isinstance(item, pytest.Function) or is_hypothesis_test(item.obj):
            return False
        folder = item.path.relative_to(_ROOT).parts[1]
        others = {name: at for name, at in _indices(item).items() if name != "database_url" or folder != "storage"}
        return folder not in _NOT_MEASURED and not any(others.values())

    def pytest_sessionfinish(self) -> None:
        """Leave what was found to the process that adds all of it up."""
        self._coverage.save()


def _indices(item: pytest.Function) -> Mapping[str, int]:
    """Which value each parameter of a case has, counted from 0; nothing for a test of one case."""
    found: Mapping[str, int] = item.callspec.indices if hasattr(item, "callspec") else {}
    return found


class Summary:
    """Adds up what all processes of a run have found, prints it, and has the run fail below the floor."""

    def __init__(self) -> None:
        shutil.rmtree(_DATA, ignore_errors=True)
        _DATA.mkdir()
        self._imports = subprocess.Popen([sys.executable, __file__])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line; `coverage report --data-file .coverage/data` says which lines are missing."""
        from coverage import Coverage  # noqa: PLC0415 -- same

        assert self._imports.wait() == 0, "the product cannot be imported"
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


def measure_imports() -> None:
    """Measure what the product executes while it is imported, all of it."""
    coverage = _new_coverage()
    coverage.start()
    for package in map(importlib.import_module, ("fairlead", "fairlead_partners")):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith(_NOT_IMPORTED):
                importlib.import_module(module.name)
    coverage.stop()
    coverage.save()


def _new_coverage() -> "Coverage":
    from coverage import Coverage  # noqa: PLC0415 -- only who measures has any use for it

    return Coverage(_DATA / "data", data_suffix=True, branch=True, source=[str(_ROOT / "src")])


def measure(config: pytest.Config) -> None:
    """Take part in a run of the tests, where it was asked for."""
    if _measuring is not None:
        config.pluginmanager.register(_measuring)
        if _summary is not None:
            config.pluginmanager.register(_summary)


_is_asked_for: Final = bool(os.environ.get("COVERAGE")) and __name__ != "__main__"
_summary: Final = Summary() if _is_asked_for and "PYTEST_XDIST_WORKER" not in os.environ else None
_measuring: Final = BranchCoverage() if _is_asked_for else None

if __name__ == "__main__":
    measure_imports()
