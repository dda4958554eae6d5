"""The subjects at NATS, and the format of messages, which are read strictly and within bounds.

Anyone who may publish there could send anything. So a message of another format is refused, and so is one that names
another workspace than its subject.
"""

from typing import Final

import msgspec

from fairlead.domain.jobs.events import EventEnvelope, Executed, ShownValues
from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.wakeups import Wakeup

_BYTES_MAX: Final = 8 * 2**20
"""The largest message that is read. NATS by itself takes up to 1 MiB."""
_EVENT: Final = "event"
_RUN: Final = "run"
_encode: Final = msgspec.msgpack.Encoder().encode
_read_envelope: Final = msgspec.msgpack.Decoder(EventEnvelope).decode
_read_change: Final = msgspec.msgpack.Decoder(RunChanged).decode
_read_wakeup: Final = msgspec.msgpack.Decoder(Wakeup).decode


class MalformedMessageError(Exception):
    """A message does not have the format of its subject, or is too large."""


class Subjects:
    """The subjects of one installation."""

    def __init__(self, installation: str) -> None:
        self._prefix = f"fairlead.{installation}"
        self.all_wakeups: str = f"{self._prefix}.wake.*"

    def wakeup(self, workspace_id: str) -> str:
        """The subject of wake-ups about a workspace."""
        return f"{self._prefix}.wake.{workspace_id}"

    def event(self, workspace_id: str) -> str:
        """The subject of events of a workspace's jobs."""
        return f"{self._prefix}.watch.{workspace_id}.{_EVENT}"

    def run(self, workspace_id: str) -> str:
        """The subject of changes of a workspace's runs."""
        return f"{self._prefix}.watch.{workspace_id}.{_RUN}"

    def watch(self, workspace_id: str) -> str:
        """The subjects to subscribe to while somebody watches a workspace."""
        return f"{self._prefix}.watch.{workspace_id}.*"


def encode(message: EventEnvelope | RunChanged | Wakeup) -> bytes:
    """The bytes of a message."""
    return _encode(message)


def read_watched(subject: str, content: bytes) -> EventEnvelope | RunChanged:
    """An event or a change of a run; MalformedMessageError."""
    *_, workspace_id, kind = subject.split(".")
    found: EventEnvelope | RunChanged
    try:
        _check_size(content)
        found = _read_change(content) if kind == _RUN else _with_values(_read_envelope(content))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise MalformedMessageError from error
    if found.workspace_id != workspace_id or kind not in (_EVENT, _RUN):
        raise MalformedMessageError
    return found


def read_wakeup(subject: str, content: bytes) -> Wakeup:
    """A wake-up; MalformedMessageError."""
    try:
        _check_size(content)
        found = _read_wakeup(content)
    except (msgspec.MsgspecError, ValueError) as error:
        raise MalformedMessageError from error
    if found.workspace_id != subject.rpartition(".")[2]:
        raise MalformedMessageError
    return found


def _check_size(content: bytes) -> None:
    if len(content) > _BYTES_MAX:
        raise ValueError("too large")


def _with_values(envelope: EventEnvelope) -> EventEnvelope:
    """An envelope whose displayed values, if any, are encoded once for all subscribers."""
    event = envelope.event
    if not isinstance(event, Executed):
        return envelope
    return msgspec.structs.replace(envelope, event=msgspec.structs.replace(event, ui=ShownValues.encode(event.ui)))
