"""Tests are compiled once for all of the processes that run them."""

import sys
from pathlib import Path

import pytest

import compilation
from compilation import compile_tests

_FILES = 60


def _compiled_names(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in (folder / "__pycache__").glob("*-pytest-*.pyc"))


def test_files_of_tests_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many new files are compiled before the tests begin, and none of them a second time."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    names = sorted(f"test_number_{number}" for number in range(_FILES))
    for name in names:
        (tmp_path / f"{name}.py").write_text("def test_nothing() -> None:\n    assert True\n", encoding="ascii")

    compile_tests([tmp_path], 2)

    assert _compiled_names(tmp_path) == names
    monkeypatch.setattr(compilation, "_collect", lambda files: pytest.fail(f"{len(files)} files are compiled again"))
    compile_tests([tmp_path], 2)


def test_few_files_are_left_to_those_that_run_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process would take longer to start than they take."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "test_alone.py").write_text("def test_nothing() -> None:\n    assert True\n", encoding="ascii")
    compile_tests([tmp_path, tmp_path / "test_alone.py"], 2)
    assert _compiled_names(tmp_path) == []
