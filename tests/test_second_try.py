"""A failure by chance does not fail a run of the tests, and is not hidden."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

_CONFTEST: Final = """
import second_try

def pytest_addoption(parser):
    second_try.add_option(parser)

def pytest_configure(config):
    second_try.configure(config)
"""
_TESTS: Final = """
from pathlib import Path
import pytest

def once(name):
    seen = Path(__file__).with_name(name)
    was_there = seen.exists()
    seen.touch()
    assert was_there, "the first time"

def test_holds(): pass

@pytest.mark.parametrize("case", ["a b", "c"])
def test_by_chance(case): once(case)

@pytest.fixture
def slow(): once("slow")

def test_with_a_slow_fixture(slow): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with tests of which three cases fail the first time they are run."""
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_some.py").write_text(_TESTS)
    return tmp_path


def _run(project: Path, *words: str) -> tuple[int, str]:
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist"}  # the others take a second to load
    environment = {**os.environ, **plugins, "PYTHONPATH": str(Path(__file__).parent)}
    for name in ("COVERAGE", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir", str(project), *words], cwd=project,
        env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_what_passes_alone_is_unstable_and_fails_nothing(project: Path, processes: str) -> None:
    """It is named with its first traceback, and counted in the last line."""
    status, output = _run(project, "--second-try", processes)
    assert status == 0
    unstable = re.findall(r"unstable: test_some\.py::(.+?) _*$", output, re.MULTILINE)
    assert sorted(unstable) == ["test_by_chance[a b]", "test_by_chance[c]", "test_with_a_slow_fixture"]
    assert output.count("AssertionError: the first time") >= len(unstable)
    assert re.search(r"1 passed, 3 unstable in", output.splitlines()[-1])


def test_what_fails_again_fails_the_run(project: Path) -> None:
    """Both failures are shown; what passed alone beside it is still named."""
    (project / "test_broken.py").write_text("def test_broken(): assert False, 'always'")
    status, output = _run(project, "--second-try", "-n0")
    assert status == 1
    assert "unstable: test_some.py::test_by_chance[c]" in output
    assert output.count("AssertionError: always") >= 2
    assert re.search(r"1 failed, 1 passed, 3 unstable in", output.splitlines()[-1])


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("import pytest\n@pytest.mark.parametrize('n', range(21))\ndef test_n(n): assert 0", id="many"),
        pytest.param("import nothing_of_this_name", id="not collected"),
    ],
)
def test_what_is_no_chance_is_not_tried_again(project: Path, more: str) -> None:
    """More than twenty failures, or a file that cannot be collected, fail the run at once."""
    (project / "test_more.py").write_text(more)
    status, output = _run(project, "--second-try", "-n0", "--continue-on-collection-errors")
    assert status == 1
    assert "trying them again" not in output
    assert "unstable" not in output.splitlines()[-1]


def test_run_without_the_option_fails_at_once(project: Path) -> None:
    """A developer who runs a few tests sees each failure as one."""
    status, output = _run(project, "-n0")
    assert (status, "trying them again" in output) == (1, False)
