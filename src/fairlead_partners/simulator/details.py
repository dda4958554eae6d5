"""Validation errors as FastAPI writes them, which several vendors never changed: `{"detail": [{type, loc, msg}]}`."""

from .vendor import Problem

_TYPES = {
    "missing": "missing",
    "enum": "enum",
    "invalid_json": "json_invalid",
    "too_long": "string_too_long",
    "range": "greater_than_equal",
    "type": "value_error",
}


def details(problem: Problem) -> list[dict[str, object]]:
    """Return the one element of `detail` for a problem."""
    place = ["body", *problem.field.split(".")] if problem.field else ["body"]
    message = "Field required" if problem.code == "missing" else problem.message
    return [{"type": _TYPES.get(problem.code, "value_error"), "loc": place, "msg": message, "input": None}]
