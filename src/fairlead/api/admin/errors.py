"""The administration API's error envelope: each error gets its status, its code, its message and its field here.

Operations raise exceptions of their own for what they refuse; `EXPECTED` are those that this API has a message for.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from starlette.exceptions import HTTPException

from fairlead.api.admin.bodies import FieldError
from fairlead.api.admin.documents import AdminError, ErrorCode
from fairlead.api.http.api import METHOD_NOT_ALLOWED, Refusal, make_refusal, refused_method
from fairlead.api.http.asgi import REQUEST_ID, Headers, Scope
from fairlead.api.http.faults import Kind, default_answer, fault_of
from fairlead.documents.fitting import fit
from fairlead.domain.accounts.key_terms import BadTermsError
from fairlead.domain.deployments import BadDeployment, DeploymentFault, DeploymentFaultError, TooManyDeployments
from fairlead.domain.faults import Fault
from fairlead.operations.accounts.invitations import (
    NotMailedError,
    OtherMemberError,
    SignInFirstError,
    TooManyInvitationsError,
    UnknownInvitationError,
)
from fairlead.operations.accounts.keys import UnknownKeyError
from fairlead.operations.accounts.members import (
    BadMemberError,
    EmailTakenError,
    LastOperatorError,
    UnknownMemberError,
    UnprovenAddressError,
)
from fairlead.operations.accounts.personal_keys import EndedCredentialError, TooManyKeysError, UnknownPersonalKeyError
from fairlead.operations.accounts.rate_limits import BadLimitError, TooManyLimitsError, UnknownLimitError
from fairlead.operations.accounts.secret_rotation import RotationError
from fairlead.operations.accounts.sessions import NoSessionError
from fairlead.operations.accounts.workspaces import (
    BadChangeError,
    BadNameError,
    BalanceBoundError,
    CreditKeyUsedError,
    NameTakenError,
    UnknownWorkspaceError,
)
from fairlead.operations.catalog import UnknownModelError
from fairlead.operations.file_audits import AuditUnderWayError
from fairlead.operations.ledger.alerts import BadChannelError, UnknownChannelError
from fairlead.operations.ledger.budgets import (
    BadBudgetError,
    BudgetTakenError,
    TooManyAdditionsError,
    TooManyBudgetsError,
    UnknownAdditionError,
    UnknownBudgetError,
)
from fairlead.operations.ledger.corrections import NotRefundableError
from fairlead.operations.ledger.rerates import NotRerateableError
from fairlead.operations.ledger.statements import UnknownRunError
from fairlead.operations.partners import UnknownProviderError
from fairlead.operations.registry.publishing import UnknownEntryError
from fairlead.operations.runs.inspect import NotQueuedError

_SHOWN: Final = 100
_NOT_FOUND: Final = 404


class _Worded(NamedTuple):
    """An error as it is sent; `code` is of a closed list, and names it in logs and metrics too."""

    status: int
    code: ErrorCode
    message: str
    field: str | None = None
    retry_after: int | None = None


def refusal(error: Exception, scope: Scope) -> Refusal:
    """Make the answer to an exception of the administration API."""
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


_OF_FIELDS: Final = (
    FieldError,
    BadMemberError,
    BadTermsError,
    BadBudgetError,
    BadChannelError,
    BadChangeError,
    BadLimitError,
    UnknownModelError,
)
"""Exceptions that say which field is wrong."""
_ROWS: Final[Mapping[type[Exception], _Worded]] = MappingProxyType(
    {
        AuditUnderWayError: _Worded(409, "conflict", "An audit of the stored files is under way."),
        BadNameError: _Worded(
            422,
            "invalid_input",
            "A name has up to 64 lower-case letters, digits, dots, dashes and underscores.",
            "name",
        ),
        BalanceBoundError: _Worded(422, "invalid_input", "No credit may take the balance beyond {} dollars.", "amount"),
        CreditKeyUsedError: _Worded(409, "conflict", "Something else was booked with this Idempotency-Key."),
        BudgetTakenError: _Worded(409, "conflict", "There is a budget of this subject and period already.", "period"),
        EmailTakenError: _Worded(409, "conflict", "A member has this e-mail address already.", "email"),
        EndedCredentialError: _Worded(
            401, "unauthorized", "The session has ended, or the key was revoked; sign in again."
        ),
        LastOperatorError: _Worded(409, "conflict", "This is the last operator: make somebody else one first."),
        NameTakenError: _Worded(409, "conflict", "There is a workspace of this name already.", "name"),
        NoSessionError: _Worded(404, "not_found", "There is no such session."),
        NotMailedError: _Worded(
            503,
            "unavailable",
            'The mail server has not taken the invitation: {}. Try again, or pass its link on: "by_hand": true.',
        ),
        NotRefundableError: _Worded(409, "conflict", "The run cannot be refunded: {}."),
        NotRerateableError: _Worded(409, "conflict", "The run cannot be re-rated: {}."),
        NotQueuedError: _Worded(
            409, "conflict", "Only queued runs can be cancelled; this one was called synchronously."
        ),
        OtherMemberError: _Worded(409, "conflict", "This invitation is for {}: sign out, and open its link again."),
        SignInFirstError: _Worded(
            409, "conflict", "A member has the address {} already: sign in as that member, and open the link again."
        ),
        TooManyAdditionsError: _Worded(
            409, "conflict", "{} additions to the budget are in force, as many as there may be; withdraw some first."
        ),
        TooManyBudgetsError: _Worded(409, "conflict", "The workspace has as many budgets as there may be."),
        TooManyKeysError: _Worded(409, "conflict", "The member has as many keys as there may be; revoke one first."),
        UnknownAdditionError: _Worded(404, "not_found", "The budget has no such addition."),
        UnknownBudgetError: _Worded(404, "not_found", "The workspace has no such budget."),
        UnknownChannelError: _Worded(404, "not_found", "The workspace has no such alert channel."),
        UnknownEntryError: _Worded(404, "not_found", "There is no {} in the registry."),
        TooManyInvitationsError: _Worded(
            409, "conflict", "The workspace has as many open invitations as there may be; withdraw some first."
        ),
        UnknownInvitationError: _Worded(
            404, "not_found", "This invitation was accepted, withdrawn or replaced, or it has expired; ask for another."
        ),
        UnknownKeyError: _Worded(404, "not_found", "The workspace has no living key {}."),
        TooManyLimitsError: _Worded(409, "conflict", "The workspace has as many limits of requests as there may be."),
        UnknownLimitError: _Worded(404, "not_found", "The workspace has no such limit of requests."),
        UnknownMemberError: _Worded(404, "not_found", "There is no member {}."),
        UnknownPersonalKeyError: _Worded(404, "not_found", "The member has no key {}."),
        UnprovenAddressError: _Worded(
            409,
            "conflict",
            "Nobody has proven to hold the address {}: whoever has its keys gets this. Confirm it with unproven: true.",
            "unproven",
        ),
        UnknownProviderError: _Worded(404, "not_found", "There is no provider {}."),
        UnknownRunError: _Worded(404, "not_found", "There is no such run."),
        UnknownWorkspaceError: _Worded(404, "not_found", "There is no workspace {}."),
    }
)
"""The messages for exceptions of operations; `{}` stands for the exception's own text."""
EXPECTED: Final[tuple[type[Exception], ...]] = (*_OF_FIELDS, *_ROWS, DeploymentFaultError, RotationError)
"""The exceptions that this API has a message for."""


def _of_operation(error: Exception) -> _Worded | None:
    """The message for an exception of an operation; None for one that has no row."""
    if isinstance(error, DeploymentFaultError):
        return _of_deployment(error.fault)
    if isinstance(error, RotationError):
        words = str(error)
        return _Worded(409, "conflict", f"{words[:1].upper()}{words[1:]}.")
    if isinstance(error, _OF_FIELDS):
        return _Worded(422, "invalid_input", str(error), error.field)
    row = _ROWS.get(type(error))
    return None if row is None else row._replace(message=row.message.format(str(error)[:_SHOWN]))


def _of_deployment(fault: DeploymentFault) -> _Worded:
    match fault:
        case BadDeployment(detail, field):
            return _Worded(422, "invalid_input", detail, field)
        case TooManyDeployments(what, limit):
            return _Worded(409, "conflict", f"There can be {limit} {what}; delete some first.")
        case _:  # the others are about jobs that are sent
            return _Worded(404, "not_found", "The workspace has no such deployment.")


def _of_fault(fault: Fault) -> _Worded:  # noqa: PLR0911, C901 -- one total table, a row a kind
    told = default_answer(fault)
    match told.kind:
        case Kind.INVALID:
            return _Worded(400, "invalid_request", told.message)
        case Kind.UNAUTHORIZED:
            return _Worded(401, "unauthorized", told.message)
        case Kind.FORBIDDEN:
            return _Worded(403, "forbidden", told.message)
        case Kind.MODEL_REFUSED if told.status == _NOT_FOUND:  # no such model, or no such provider
            return _Worded(404, "not_found", told.message)
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
