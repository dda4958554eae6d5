"""The administration API's error envelope: whatever goes wrong gets its status, its code, its words and its field here.

Operations raise exceptions of their own for what they refuse; `EXPECTED` are those that this API has words for.
"""

from typing import Final, NamedTuple, assert_never

from starlette.exceptions import HTTPException

from fairlead.api.admin.bodies import FieldError
from fairlead.api.admin.documents import AdminError, ErrorCode
from fairlead.api.http.api import METHOD_NOT_ALLOWED, Refusal, make_refusal, refused_method
from fairlead.api.http.asgi import REQUEST_ID, Headers, Scope
from fairlead.api.http.faults import Kind, default_answer, fault_of
from fairlead.documents.fitting import fit
from fairlead.domain.faults import Fault
from fairlead.operations.accounts.members import (
    BadMemberError,
    EmailTakenError,
    LastOperatorError,
    TooManyKeysError,
    UnknownMemberError,
    UnknownPersonalKeyError,
)
from fairlead.operations.accounts.sessions import NoSessionError
from fairlead.operations.ledger.alerts import BadChannelError, UnknownChannelError
from fairlead.operations.ledger.budgets import BadBudgetError, BudgetTakenError, TooManyBudgetsError, UnknownBudgetError

_SHOWN: Final = 100


class _Worded(NamedTuple):
    """An error as it is told; `code` is of a closed list, which names it in logs and metrics too."""

    status: int
    code: ErrorCode
    message: str
    field: str | None = None
    retry_after: int | None = None


def refusal(error: Exception, scope: Scope) -> Refusal:
    """Word anything that goes wrong in the administration API."""
    more_headers: Headers = []
    if isinstance(error, HTTPException) and error.status_code == METHOD_NOT_ALLOWED:
        message, more_headers = refused_method(error, scope)
        worded = _Worded(METHOD_NOT_ALLOWED, "method_not_allowed", message)
    else:
        worded = _of_operation(error) or _of_fault(fault_of(error))
    told: AdminError = {
        "error": {
            "code": worded.code,
            "message": worded.message,
            "field": worded.field,
            "request_id": scope.get(REQUEST_ID, ""),
        }
    }
    return make_refusal(
        worded.status, fit(told), worded.code, retry_after=worded.retry_after, more_headers=more_headers
    )


EXPECTED: Final = (
    FieldError, BadMemberError, EmailTakenError, LastOperatorError, TooManyKeysError, UnknownMemberError,
    UnknownPersonalKeyError, NoSessionError, BadBudgetError, BadChannelError, BudgetTakenError, TooManyBudgetsError,
    UnknownBudgetError, UnknownChannelError,
)  # fmt: skip
"""What `_of_operation` has a row for."""


def _of_operation(error: Exception) -> _Worded | None:  # noqa: PLR0911, C901 -- one table, a row an exception
    """What is told of an exception of an operation; None for one that has no row."""
    match error:
        case (
            FieldError(field=field)
            | BadMemberError(field=field)
            | BadBudgetError(field=field)
            | BadChannelError(field=field)
        ):
            return _Worded(422, "invalid_input", str(error), field)
        case EmailTakenError():
            return _Worded(409, "conflict", "A member has this e-mail address already.", "email")
        case LastOperatorError():
            return _Worded(409, "conflict", "This is the last operator: make somebody else one first.")
        case TooManyKeysError():
            return _Worded(409, "conflict", "The member has as many keys as there may be; revoke one first.")
        case UnknownMemberError():
            return _Worded(404, "not_found", f"There is no member {str(error)[:_SHOWN]}.")
        case UnknownPersonalKeyError():
            return _Worded(404, "not_found", f"The member has no key {str(error)[:_SHOWN]}.")
        case NoSessionError():
            return _Worded(404, "not_found", "There is no such session.")
        case BudgetTakenError():
            return _Worded(409, "conflict", "There is a budget of this subject and period already.", "period")
        case TooManyBudgetsError():
            return _Worded(409, "conflict", "The workspace has as many budgets as there may be.")
        case UnknownBudgetError():
            return _Worded(404, "not_found", "The workspace has no such budget.")
        case UnknownChannelError():
            return _Worded(404, "not_found", "The workspace has no such alert channel.")
        case _:
            return None


def _of_fault(fault: Fault) -> _Worded:  # noqa: PLR0911, C901 -- one total table, a row a kind
    told = default_answer(fault)
    match told.kind:
        case Kind.INVALID:
            return _Worded(400, "invalid_request", told.message)
        case Kind.UNAUTHORIZED:
            return _Worded(401, "unauthorized", told.message)
        case Kind.FORBIDDEN:
            return _Worded(403, "forbidden", told.message)
        case Kind.NOT_FOUND:
            return _Worded(404, "not_found", told.message)
        case Kind.CONFLICT:
            return _Worded(409, "conflict", told.message)
        case Kind.TOO_LARGE:
            return _Worded(413, "body_too_large", told.message)
        case Kind.RATE_LIMITED:
            return _Worded(429, "rate_limited", told.message, None, told.retry_after)
        case Kind.LEFT:
            return _Worded(499, "client_disconnected", told.message)
        case Kind.UNAVAILABLE:
            return _Worded(503, "unavailable", told.message, None, told.retry_after)
        case Kind.UNPAID | Kind.BUSY | Kind.MODEL_REFUSED | Kind.MODEL_FAILED | Kind.FAILED:
            # No model is run here: the others are never raised for this API.
            return _Worded(500, "internal_error", "The server failed. The request id names the failure in its log.")
        case _:
            assert_never(told.kind)
