"""Structured logs, one JSON object a line on standard error, as one listener to observations."""

import asyncio
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from fairlead.observing.blobs import BlobDamaged, BlobMissing, BlobStoreUnproven, BlobTrouble
from fairlead.observing.deliveries import AlertGivenUp, MessengerLost, WebhookGivenUp
from fairlead.observing.observations import (
    AnswerLeftRaw,
    AssetCopyFailed,
    CatalogRefused,
    ClockCompared,
    ConfinementMissing,
    CredentialHealth,
    CredentialRefused,
    DatabaseTrouble,
    EngineHostFailed,
    JobsUnderWay,
    JournalSplit,
    MarkupUnknown,
    ModerationFailed,
    NodeClassesShadowed,
    NodePackLoaded,
    NodePacksRefused,
    Observation,
    PartnerReportedMore,
    PartnerStopped,
    ProviderNotConfigured,
    QueueDepth,
    RunClaimed,
    RunEnded,
    SettingUnknown,
    SignInFailed,
    SubscriptionBeyondHosts,
    UnexpectedError,
)

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_WARNINGS: Final = (
    AlertGivenUp,
    AnswerLeftRaw,
    AssetCopyFailed,
    BlobDamaged,
    BlobMissing,
    BlobStoreUnproven,
    BlobTrouble,
    CatalogRefused,
    ConfinementMissing,
    CredentialRefused,
    DatabaseTrouble,
    EngineHostFailed,
    JournalSplit,
    MarkupUnknown,
    MessengerLost,
    SignInFailed,
    ModerationFailed,
    NodePacksRefused,
    PartnerReportedMore,
    PartnerStopped,
    ProviderNotConfigured,
    CredentialHealth,
    SettingUnknown,
    SubscriptionBeyondHosts,
    WebhookGivenUp,
)
_FLUSH_SECONDS: Final = 0.2
_OF_EVERY_LINE: Final = frozenset({"event", "level", "timestamp"})
_ODD: Final = re.compile("[\u0080-\u009f\u2028-\u202e\u2066-\u2069]")
"""Characters that programs take for the end of a line, terminals for a command, or that change a text's direction."""
_encode: Final = msgspec.json.Encoder(enc_hook=repr).encode


class _RunLine(msgspec.Struct, frozen=True):
    """The line of a run, in the order of all others. Every run has one, and a struct is the quickest to write."""

    request_id: str
    workspace: str
    model: str
    provider: str
    result: str
    charge: int
    upstream_status: int | None
    ms: float
    partner_ms: float
    caller_left: bool
    attempt: int
    event: str
    level: str
    timestamp: datetime


class _Writer(Protocol):
    """Writes one observation: its level, its name, its fields, and its error."""

    def write(self, level: str, event: str, told: Mapping[str, object], error: BaseException | None = None) -> None: ...

    def flush(self) -> None: ...


class _Lines:
    """Lines of JSON on standard error, written a few times a second instead of once a line: every run has a line.

    Warnings and errors are written at once, with all that waited.
    """

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, level: str, event: str, told: Mapping[str, object], error: BaseException | None = None) -> None:
        line = {**told, "event": event, "level": level, "timestamp": datetime.now(UTC)}
        if error is not None:
            line["exception"] = "".join(traceback.format_exception(error)).removesuffix("\n")
        self.add(_encode_line(line))
        if LEVELS[level] >= LEVELS["warning"]:
            self.flush()

    def add(self, line: bytes) -> None:
        self._waiting.append(line)
        if self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)
            except RuntimeError:  # there is no event loop for a timer: a command, or a thread
                self.flush()

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._waiting = self._waiting, []
        if lines:
            sys.stderr.buffer.write(b"\n".join(lines) + b"\n")
            sys.stderr.buffer.flush()


class _Console:
    """Lines for people at a terminal: structlog has them in columns and colours."""

    def __init__(self) -> None:
        import structlog  # noqa: PLC0415 -- 2 to 6 MB and 60 ms, which no server without a terminal must pay

        self._log: object = structlog.wrap_logger(
            structlog.PrintLoggerFactory(sys.stderr)(),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                # By default it would show the variables of every frame, which include keys.
                structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(LEVELS["debug"]),
        ).bind()

    def write(self, level: str, event: str, told: Mapping[str, object], error: BaseException | None = None) -> None:
        shown = {name: value for name, value in told.items() if name not in _OF_EVERY_LINE}
        getattr(self._log, level)(event, **shown, **({} if error is None else {"exc_info": error}))

    def flush(self) -> None:
        """Nothing waits, because people are watching."""


class Logs:
    """Writes observations as lines. `level` is one of LEVELS; `readable` is for people at a terminal."""

    def __init__(self, level: str, *, readable: bool) -> None:
        self._lines = _Lines()
        self._writer: _Writer = _Console() if readable else self._lines
        self._level = LEVELS[level]

    def close(self) -> None:
        """Write what still waits."""
        self._writer.flush()

    def observe(self, observation: Observation) -> None:
        """Write one observation at the level it deserves."""
        match observation:
            case RunEnded():
                if self._level <= LEVELS["info"]:
                    self._observe_run(observation)
            case RunClaimed() | QueueDepth() | JobsUnderWay() | ClockCompared():
                pass  # as often as there are runs or seconds: for the metrics
            case NodePackLoaded(error=str()) | NodeClassesShadowed():
                self._write("warning", observation)
            case UnexpectedError(doing=doing, error=error):
                self._writer.write("error", type(observation).__name__, {"doing": doing}, error)
            case _:
                self._write("warning" if isinstance(observation, _WARNINGS) else "info", observation)

    def _write(self, level: str, observation: Observation) -> None:
        if self._level <= LEVELS[level]:
            self._writer.write(level, type(observation).__name__, msgspec.structs.asdict(observation))

    def _observe_run(self, run: RunEnded) -> None:
        line = _RunLine(
            run.run_id,
            run.workspace,
            run.model_id,
            run.provider,
            run.result,
            run.charge,
            run.upstream_status,
            # To a tenth of a millisecond; `round` would write a text and read that.
            int(run.seconds * 10_000 + 0.5) / 10,
            int(run.partner_seconds * 10_000 + 0.5) / 10,
            run.caller_left,
            run.attempt,
            "RunEnded",
            "info",
            datetime.now(UTC),
        )
        if self._writer is self._lines:
            self._lines.add(_encode(line))
        else:
            self._writer.write(line.level, line.event, msgspec.structs.asdict(line))


def _encode_line(record: Mapping[str, object]) -> bytes:
    """A line of JSON. Callers choose some of what is in it, and none of that may make a line look like another."""
    line = _encode(record)
    return line if line.isascii() else _ODD.sub(lambda odd: f"\\u{ord(odd[0]):04x}", line.decode()).encode()
