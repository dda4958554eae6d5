"""Logs: one JSON object a line, at the level an observation deserves."""

import asyncio
import json
from typing import Any

import pytest

from fairlead.observing.logs import Logs
from fairlead.observing.observations import (
    DatabaseTrouble,
    FaultAnswered,
    Observation,
    QueueDepth,
    UnexpectedError,
)
from observing.test_metrics import ENDED


def lines_of(
    capfdbinary: pytest.CaptureFixture[bytes], *observations: Observation, level: str = "info"
) -> list[dict[str, Any]]:
    """What some observations are written as."""
    logs = Logs(level, readable=False)
    for observation in observations:
        logs.observe(observation)
    logs.close()
    return [json.loads(line) for line in capfdbinary.readouterr().err.splitlines()]


def test_ended_run_is_logged_with_its_cost_and_times(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A run's line has its request id, what it cost and both parts of its time."""
    (line,) = lines_of(capfdbinary, ENDED)
    assert (line["event"], line["level"], line["request_id"]) == ("RunEnded", "info", "run-1")
    assert (line["charge"], line["ms"], line["partner_ms"], line["result"]) == (50_000_000, 1500.0, 1250.0, "success")
    assert line["timestamp"].endswith("Z")


def test_error_is_logged_with_its_cause(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A bug is written with its traceback, trouble as a warning."""
    error, warning = lines_of(
        capfdbinary, UnexpectedError("answer r", ValueError("boom")), DatabaseTrouble("admit", "locked")
    )
    assert error["level"] == "error"
    assert "ValueError: boom" in error["exception"]
    assert (warning["level"], warning["error"]) == ("warning", "locked")


def test_path_cannot_end_or_alter_a_log_line(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """What could end a line, give a terminal orders or turn a text around is escaped, and reads as what it was."""
    path = "/\u0085\u009b2J\u2028\u202e\u00fc"
    logs = Logs("info", readable=False)
    logs.observe(FaultAnswered("r", path, "forbidden"))
    logs.close()
    (line,) = capfdbinary.readouterr().err.decode().splitlines()
    assert json.loads(line)["path"] == path
    assert [char for char in line if not char.isascii()] == ["\u00fc"]


def test_log_at_level_warning_holds_only_warnings(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """At the level `warning` only what needs looking into is written; gauges never are."""
    lines = lines_of(
        capfdbinary,
        ENDED,
        FaultAnswered("r", "/x", "forbidden"),
        QueueDepth(3, 0),
        DatabaseTrouble("a", "b"),
        level="warning",
    )
    assert [line["event"] for line in lines] == ["DatabaseTrouble"]


def test_log_lines_are_written_together_after_a_moment(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """In a running server lines are gathered for a moment, then written together; a warning takes them along."""

    async def work() -> tuple[bytes, bytes]:
        logs = Logs("info", readable=False)
        logs.observe(ENDED)
        before = capfdbinary.readouterr().err
        logs.observe(DatabaseTrouble("a", "b"))
        return before, capfdbinary.readouterr().err

    before, after = asyncio.run(work())
    assert before == b""
    assert [json.loads(line)["event"] for line in after.splitlines()] == ["RunEnded", "DatabaseTrouble"]


def test_readable_form_is_for_terminals(capfd: pytest.CaptureFixture[str]) -> None:
    """The readable form is for a terminal."""
    logs = Logs("info", readable=True)
    logs.observe(FaultAnswered("r", "/x", "forbidden"))
    assert "FaultAnswered" in capfd.readouterr().err


def test_readable_traceback_hides_variables(capfd: pytest.CaptureFixture[str]) -> None:
    """The readable form has the traceback of a bug in plain text: a frame's variables may be keys."""
    logs, key = Logs("info", readable=True), "flk-key"
    try:
        _ask_with(key)
    except ValueError as error:
        logs.observe(UnexpectedError("answer r", error))
    shown = capfd.readouterr().err
    assert "ValueError: refused" in shown
    assert key not in shown


def _ask_with(key: str) -> None:
    raise ValueError(key and "refused")
