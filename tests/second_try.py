"""Runs what failed once more, alone and in one process, with `--second-try` (`make test`).

What fails again fails the run. What passes now is `unstable`: it is printed with the traceback of its first failure and
counted in the last line, and the run passes. An unstable test is a defect: its cause is mended, or it is deleted. Where
many tests failed, or some could not be collected, chance is not the cause, and nothing is tried again.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import pytest
from _pytest.terminal import TerminalReporter

_CASES_MAX: Final = 20
_FAILURES: Final = ("failed", "error")
_UNSTABLE: Final = "unstable"


def add_option(parser: pytest.Parser) -> None:
    """Let a second try be asked for."""
    help_ = f"run what failed, at most {_CASES_MAX} cases, once more; what passes then is unstable and fails nothing"
    parser.addoption("--second-try", action="store_true", help=help_)


def configure(config: pytest.Config) -> None:
    """Try again at the end of a run, where that was asked for; processes that xdist has started leave it to the run."""
    if config.getoption("--second-try") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondTry(config), "second-try")


class SecondTry:
    """Sorts the failures of a run into those that happen again and those that do not."""

    def __init__(self, config: pytest.Config) -> None:
        """Remember the run's options."""
        self._config = config
        self._output = ""

    @pytest.hookimpl(trylast=True)  # when xdist's processes have ended
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Try again what failed; the run's status is what that leaves."""
        terminal = self._terminal()
        failures = [report for kind in _FAILURES for report in terminal.stats.get(kind, [])]
        cases = list(dict.fromkeys(report.nodeid for report in failures))
        can_be_chance = all(isinstance(report, pytest.TestReport) for report in failures)
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED or not (can_be_chance and 0 < len(cases) <= _CASES_MAX):
            return
        terminal.write_sep("=", f"{len(cases)} failed: trying them again, alone")
        failed_again = self._try(cases)
        for kind in _FAILURES:
            reports = terminal.stats.pop(kind, [])
            if kept := [report for report in reports if report.nodeid in failed_again]:
                terminal.stats[kind] = kept
        first = {report.nodeid: report for report in reversed(failures) if report.nodeid not in failed_again}
        terminal._add_stats(_UNSTABLE, [*first.values()][::-1])
        if not failed_again:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print each unstable test with its first traceback, and what those said that failed again."""
        for report in terminalreporter.stats.get(_UNSTABLE, []):
            terminalreporter.write_sep("_", f"unstable: {report.nodeid}", yellow=True)
            terminalreporter.write_line(report.longreprtext)
        if self._output:
            terminalreporter.section("failed again")
            terminalreporter.write_line(self._output)

    def _try(self, cases: Sequence[str]) -> Collection[str]:
        """Run some cases, and return those that fail; all of them where the run itself comes to nothing."""
        environment = {name: value for name, value in os.environ.items() if name != "COVERAGE"}
        with tempfile.TemporaryDirectory() as folder:
            words = ["-n0", "-o", f"cache_dir={folder}", *self._options(), *cases]
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *words], cwd=self._config.rootpath, env=environment,
                check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            if done.returncode == pytest.ExitCode.OK:
                return ()
            self._output = done.stdout
            noted = Path(folder, "v", "cache", "lastfailed")  # pytest's own list of what failed
            is_complete = done.returncode == pytest.ExitCode.TESTS_FAILED and noted.exists()
            return frozenset(json.loads(noted.read_text("utf-8"))) if is_complete else cases

    def _options(self) -> Sequence[str]:
        """The options of the run that say how its tests are to be run."""
        return ["--cluster"] if self._config.getoption("--cluster", default=False) else []

    def _terminal(self) -> TerminalReporter:
        found = self._config.pluginmanager.getplugin("terminalreporter")
        assert isinstance(found, TerminalReporter)
        return found
