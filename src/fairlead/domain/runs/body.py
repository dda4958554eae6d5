"""The body of a run: one JSON object, read strictly."""

import math
import re
from typing import Any, Final

import jiter

from fairlead.domain.faults import FaultError, InvalidInput

_REASON_MAX: Final = 200
_MAY_OVERFLOW: Final = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{309}")
"""No number without one of these is too large for a float, so that a clean body is not walked for nothing."""


def read_body(content: bytes) -> dict[str, Any]:
    """Read a caller's body; FaultError(InvalidInput) for anything but one clean JSON object.

    Refused: bad UTF-8, duplicate names, NaN and infinities, nesting beyond the reader's bound (200 levels). A partner
    and we must never read two different things out of one body.
    """
    if not content:
        raise FaultError(InvalidInput("The request body is empty; send a JSON object."))
    try:
        body = jiter.from_json(content, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as error:
        reason = str(error)[:_REASON_MAX]  # it may repeat a name out of the body
        raise FaultError(InvalidInput(f"The request body is not valid JSON: {reason}.")) from error
    if not isinstance(body, dict):
        raise FaultError(InvalidInput("The request body must be a JSON object."))
    if _MAY_OVERFLOW.search(content) is not None and _has_infinity(body):
        raise FaultError(InvalidInput("The request body holds a number that is too large."))
    return body


def _has_infinity(body: dict[str, Any]) -> bool:
    """Whether a number was too large for the reader, which then makes an infinity of it: no JSON can say that."""
    waiting: list[Any] = [body]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, float) and math.isinf(value):
            return True
    return False
