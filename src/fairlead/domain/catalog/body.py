"""The body of a run: one JSON object, read strictly."""

import math
from typing import Any, Final

import jiter

from fairlead.domain.faults import FaultError, InvalidInput

_REASON_MAX: Final = 200
_FINITE: Final = frozenset({str, int, bool, type(None)})


def read_body(content: bytes) -> dict[str, object]:
    """Read a caller's body; FaultError(InvalidInput) for anything but one valid JSON object.

    Refused: bad UTF-8, duplicate names, NaN and infinities, nesting beyond the reader's bound (200 levels). A partner
    and we must never read two different things out of one body.
    """
    if not content:
        raise FaultError(InvalidInput("The request body is empty; send a JSON object."))
    try:
        body = jiter.from_json(content, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as error:
        reason = str(error)[:_REASON_MAX]  # it may repeat a name from the body
        raise FaultError(InvalidInput(f"The request body is not valid JSON: {reason}.")) from error
    if not isinstance(body, dict):
        raise FaultError(InvalidInput("The request body must be a JSON object."))
    if _has_infinity(body):
        raise FaultError(InvalidInput("The request body holds a number that is too large."))
    return body


def _has_infinity(container: dict[str, Any] | list[Any]) -> bool:
    """Whether a number was too large for the reader, which turned it into an infinity; JSON cannot express one.

    The reader's bound on nesting bounds the recursion.
    """
    values = container.values() if isinstance(container, dict) else container
    if _FINITE.issuperset(map(type, values)):  # most bodies are flat and have no floats: one look at all of them
        return False
    for value in values:
        kind = type(value)
        if kind is float:
            if math.isinf(value):
                return True
        elif (kind is dict or kind is list) and _has_infinity(value):
            return True
    return False
