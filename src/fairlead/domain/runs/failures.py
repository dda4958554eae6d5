"""Failures as JSON, for what is kept of a run that failed (R-18): any fault, written and read by its name."""

from typing import Final, get_args

import msgspec

from fairlead.domain.faults import Fault, InternalError

_KINDS: Final[dict[str, object]] = {kind.__name__: kind for kind in get_args(Fault)}


def write_fault(fault: Fault) -> bytes:
    """A fault as JSON."""
    return msgspec.json.encode([type(fault).__name__, fault])


def read_fault(text: bytes) -> Fault:
    """The fault that was written; InternalError for one this version does not know."""
    try:
        name, said = msgspec.json.decode(text)
        fault: Fault = msgspec.convert(said, _KINDS[name])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return InternalError()
    return fault
