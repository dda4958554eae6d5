"""Compiles the tests of a run before the processes start that run them, each of which would else compile all of them.

pytest rewrites the assertions of every file of tests and keeps what it has made. In a new clone, four processes that
start at once find nothing kept, and each takes twice as long to compile the tests as to collect them.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

_FEW: Final = 50
"""A process that compiles takes as long to start as so many files take in each of the others."""


def compile_tests(paths: Iterable[Path], processes: int) -> None:
    """Have `processes` collect the files of tests among some paths that are not compiled, and keep what they make."""
    if sys.dont_write_bytecode:
        return
    files = sorted(file for path in paths for file in _files(path) if not _is_compiled(file))
    if len(files) < _FEW:
        return
    started = [_collect(files[number::processes]) for number in range(processes)]
    for process in started:
        process.wait()  # what it could not collect, the run will say


def _files(path: Path) -> Iterable[Path]:
    return path.rglob("test_*.py") if path.is_dir() else [path]


def _is_compiled(file: Path) -> bool:
    """Whether a file was compiled by this version of Python and of pytest, after it was last changed."""
    kept = file.parent / "__pycache__" / f"{file.stem}.{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    return kept.exists() and kept.stat().st_mtime >= file.stat().st_mtime


def _collect(files: Sequence[Path]) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in {"COVERAGE", "PYTEST_ADDOPTS"}}
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-p", "no:cacheprovider"]
    return subprocess.Popen(
        [*words, *map(str, files)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
