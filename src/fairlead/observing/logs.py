"""Structured logs, one JSON object a line on standard error, as one listener to observations."""

import asyncio
import sys
from dataclasses import fields
from typing import Any, Final

import msgspec
import structlog

from fairlead.observing.observations import (
    CatalogRefused,
    DatabaseTrouble,
    JournalSplit,
    JournalWaiting,
    Observation,
    PartnerStopped,
    RunEnded,
    UnexpectedError,
)

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_WARNINGS: Final = (CatalogRefused, DatabaseTrouble, JournalSplit, PartnerStopped)
_FLUSH_SECONDS: Final = 0.2
_encode: Final = msgspec.json.Encoder(enc_hook=repr).encode


class _Lines:
    """Standard error, written a few times a second instead of once a line: every run has a line.

    structlog's logger factory and logger in one. Warnings and errors are written at once, with all that waited.
    """

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, *_: Any) -> "_Lines":
        return self

    def debug(self, line: bytes) -> None:
        self._waiting.append(line)
        if self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)
            except RuntimeError:  # nobody will come back later: a command, or a thread
                self.flush()

    def warning(self, line: bytes) -> None:
        self._waiting.append(line)
        self.flush()

    info = debug
    error = warning

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._waiting = self._waiting, []
        if lines:
            sys.stderr.buffer.write(b"\n".join(lines) + b"\n")
            sys.stderr.buffer.flush()


class Logs:
    """Writes observations as lines. `level` is one of LEVELS; `readable` is for people at a terminal."""

    def __init__(self, level: str, *, readable: bool) -> None:
        render: Any = structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer(_encode_line)
        self._lines = _Lines()
        self._log: Any = structlog.wrap_logger(
            structlog.PrintLoggerFactory(sys.stderr)() if readable else self._lines,
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                render,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        ).bind()  # once, instead of with every line

    def close(self) -> None:
        """Write what still waits."""
        self._lines.flush()

    def observe(self, observation: Observation) -> None:
        """Write one observation at the level it deserves."""
        name = type(observation).__name__
        match observation:
            case JournalWaiting():
                pass
            case RunEnded():
                self._log.info(name, **_run(observation))
            case UnexpectedError(doing=doing, error=error):
                self._log.error(name, doing=doing, exc_info=error)
            case _ if isinstance(observation, _WARNINGS):
                self._log.warning(name, **_named(observation))
            case _:
                self._log.info(name, **_named(observation))


def _encode_line(record: Any, **_: Any) -> bytes:
    return _encode(record)


def _named(observation: Observation) -> dict[str, Any]:
    return {field.name: getattr(observation, field.name) for field in fields(observation)}


def _run(run: RunEnded) -> dict[str, Any]:
    """The line of a run; spelled out because it is written for every one of them."""
    return {
        "request_id": run.run_id,
        "workspace": run.workspace,
        "model": run.model_id,
        "provider": run.provider,
        "result": run.result,
        "charge": run.charge,
        "upstream_status": run.upstream_status,
        "ms": round(run.seconds * 1000, 1),
        "partner_ms": round(run.partner_seconds * 1000, 1),
        "caller_left": run.caller_left,
        "attempt": run.attempt,
    }
