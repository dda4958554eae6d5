"""What handlers of the administration API read of a call, and how they answer: bodies, limits, cursors, documents."""

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.asgi import read_small_json
from fairlead.api.http.cursors import make_cursor, read_cursor
from fairlead.api.http.route import Parameter
from fairlead.domain.days import DAY_MS, read_date, start_of
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.runs.replays import KEY_MAX

T = TypeVar("T")

BODY_MAX: Final = 64 * 1024
LIMIT_MAX: Final = 200
_LIMIT: Final = 50
_DIGITS_MAX: Final = 4
_TEXT_MAX: Final = 200
_DATE_CHARACTERS: Final = 10
_NUMBER_MAX: Final = 18
_FIELD: Final = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$|contains unknown field `(?P<unknown>[^`]*)`$")
_MISSING: Final = re.compile(r"missing required field `(?P<field>[^`]*)`")
_HEADERS: Final = {"Cache-Control": "no-store"}
_encode: Final = msgspec.json.Encoder().encode

PAGE: Final = (
    Parameter("limit", "How many at most; 50 where it is absent, 200 at the most.", int),
    Parameter("cursor", "The `next_cursor` of the page before."),
)
"""The parameters of every list."""


IDEMPOTENCY_KEY: Final = Parameter(
    "Idempotency-Key",
    "Makes sure that the same is not done twice: a call that is repeated with it changes nothing.",
    Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_MAX)],
    where="header",
)

_ENDS: Final = ("to", "until")
"""Fields in which a day means its end."""


class FieldError(Exception):
    """A body or a query is not right in one place: `field` is its name, as callers spell it, or None."""

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field = field


async def read_body(request: Request, form: type[T]) -> T:
    """The JSON body of a call; FaultError, or FieldError where it is JSON of another form."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":  # a form on a page of another site is sent with another media type
        raise FaultError(InvalidInput("Send the body as application/json."))
    content = await read_small_json(request, BODY_MAX)
    try:
        return msgspec.json.decode(content, type=form)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise FaultError(InvalidInput("The body is not JSON.")) from error


def idempotency_key_of(request: Request) -> str | None:
    """The idempotency key of a call, if it has one; FaultError for a bad one."""
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= KEY_MAX:
        raise FaultError(InvalidInput(f"Idempotency-Key must have 1 to {KEY_MAX} characters."))
    return key


def limit_of(request: Request) -> int:
    """How many are wanted, from the query; FieldError."""
    text = request.query_params.get("limit")
    if text is None:
        return _LIMIT
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and 1 <= int(text) <= LIMIT_MAX):
        raise FieldError("limit", f"The limit is 1 to {LIMIT_MAX}.")
    return int(text)


def after_of(request: Request, which: str) -> str | None:
    """The item after which a page of a list begins, from its cursor; FieldError for the cursor of another list."""
    text = request.query_params.get("cursor")
    if text is None:
        return None
    found, after = read_cursor(text)
    if found != which or not after.isprintable():
        raise FieldError("cursor", "The cursor is of another list.")
    return after


def number_after(request: Request, which: str) -> int | None:
    """The number after which a page of a list begins, from its cursor; FieldError."""
    after = after_of(request, which)
    if after is None:
        return None
    if not (after.isascii() and after.isdigit() and len(after) <= _NUMBER_MAX):
        raise FieldError("cursor", "The cursor is of another list.")
    return int(after)


def time_of(request: Request, name: str) -> int | None:
    """A time in the query, in ms since 1970: a day (for `to` and `until` its end) or a time of RFC 3339; FieldError."""
    text = request.query_params.get(name)
    return None if text is None else read_time(name, text)


def read_time(name: str, text: str) -> int:
    """The same of a text in a body or a query of this name; FieldError."""
    try:
        if len(text) == _DATE_CHARACTERS:
            return start_of(read_date(name, text)) + (DAY_MS if name in _ENDS else 0)
        moment = datetime.datetime.fromisoformat(text)
        return int(moment.replace(tzinfo=moment.tzinfo or datetime.UTC).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise FieldError(name, "A day such as 2026-11-23, or a time such as 2026-11-23T12:00:00Z.") from error


def text_of(request: Request, name: str) -> str | None:
    """A text in the query; FieldError for an empty, a long or an unreadable one."""
    text = request.query_params.get(name)
    if text is not None and not (0 < len(text) <= _TEXT_MAX and text.isprintable()):
        raise FieldError(name, f"This has 1 to {_TEXT_MAX} characters that can be seen.")
    return text


def flag_of(request: Request, name: str) -> bool:
    """Whether a flag in the query is set; FieldError for what is neither `true` nor `false`."""
    text = request.query_params.get(name, "false")
    if text not in ("true", "false"):
        raise FieldError(name, "This is true or false.")
    return text == "true"


def page_of(items: Sequence[T], which: str, after: str | None) -> Mapping[str, object]:
    """A page as it is sent; `after` is the position of its last item, None on the last page."""
    return {"items": items, "next_cursor": None if after is None else make_cursor(which, after)}


def answer(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A document as it is sent, which no cache may keep."""
    return Response(_encode(document), status, {**_HEADERS, **(headers or {})}, "application/json")


def changes_of(change: msgspec.Struct) -> dict[str, object]:
    """The fields of a change, without those that it leaves out."""
    return {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}


def _field_error(message: str) -> FieldError:
    """The message of msgspec, with the name of the field that it is about."""
    found = _MISSING.search(message) or _FIELD.search(message)
    field = None if found is None else next((part for part in found.groupdict().values() if part), None)
    return FieldError(field, f"{message.partition(' - at ')[0]}.")
