"""The registry's error envelope: each fault gets its status, its `error` and its `message` here (G-02)."""

from typing import Final, NamedTuple, assert_never

from starlette.exceptions import HTTPException

from fairlead.api.http.api import METHOD_NOT_ALLOWED, Refusal, make_refusal, refused_method
from fairlead.api.http.asgi import Headers, Scope
from fairlead.api.http.faults import Kind, default_answer, fault_of
from fairlead.api.registry.wire import ErrorName, ShownError
from fairlead.documents.fitting import fit
from fairlead.domain.faults import (
    Fault,
)
from fairlead.domain.registry import (
    BadEntry,
    Banned,
    IdTaken,
    NothingPublished,
    NotOwner,
    NotThere,
    RegistryFault,
    RegistryFaultError,
    StorageSpent,
    TooMany,
    VersionTaken,
)

_SHOWN: Final = 100


class _Worded(NamedTuple):
    """A fault as it is sent; `error` is of a closed list, and names it in logs and metrics too."""

    status: int
    error: ErrorName
    message: str
    retry_after: int | None = None


def refusal(error: Exception, scope: Scope) -> Refusal:
    """Make the answer to an exception of the registry."""
    worded, more_headers = _word(error, scope)
    content = fit(ShownError(worded.error, worded.message))
    return make_refusal(worded.status, content, worded.error, retry_after=worded.retry_after, more_headers=more_headers)


def _word(error: Exception, scope: Scope) -> tuple[_Worded, Headers]:
    match error:
        case RegistryFaultError():
            return _registry_fault(error.fault), []
        case HTTPException(status_code=status) if status == METHOD_NOT_ALLOWED:
            message, allow = refused_method(error, scope)
            return _Worded(METHOD_NOT_ALLOWED, "method_not_allowed", message), allow
        case _:
            return _fault(fault_of(error)), []


def _registry_fault(fault: RegistryFault) -> _Worded:  # noqa: PLR0911 -- one total table, a row a fault
    match fault:
        case BadEntry(detail):
            return _Worded(400, "invalid_request", detail)
        case NotOwner(publisher_id):
            return _Worded(403, "forbidden", f"The publisher {publisher_id} belongs to somebody else.")
        case Banned(kind, id_):
            return _Worded(403, "banned", f"The {kind} {id_} is banned.")
        case NotThere(kind, id_):
            return _Worded(404, "not_found", f"There is no {kind} {id_[:_SHOWN]}.")
        case NothingPublished(node_id):
            return _Worded(404, "not_found", f"{node_id} has no version to install yet: publish one with its archive.")
        case IdTaken(kind, id_):
            return _Worded(409, "id_taken", f"The id {id_} of a {kind} is taken.")
        case VersionTaken(node_id, version):
            return _Worded(409, "version_taken", f"{node_id} has had a version {version}; a number is used once.")
        case TooMany(what, limit):
            return _Worded(409, "too_many", f"There may be {limit} {what} here, and those that were deleted count.")
        case StorageSpent(what, limit):
            return _Worded(413, "storage_full", f"The workspace may keep {limit} {what}, and keeps as many.")
        case _:
            assert_never(fault)


def _fault(fault: Fault) -> _Worded:  # noqa: PLR0911 -- one total table, a row a kind
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
        case Kind.TOO_LARGE:
            return _Worded(413, "body_too_large", told.message)
        case Kind.RATE_LIMITED:
            return _Worded(429, "rate_limited", told.message, told.retry_after)
        case Kind.LEFT:
            return _Worded(499, "client_disconnected", told.message)
        case Kind.UNAVAILABLE:
            return _Worded(503, "unavailable", told.message, told.retry_after)
        case Kind.CONFLICT | Kind.UNPAID | Kind.BUSY | Kind.MODEL_REFUSED | Kind.MODEL_FAILED | Kind.FAILED:
            # The registry runs no models: these are never raised for it.
            return _Worded(500, "internal_error", "The server failed. The request id names the failure in its log.")
        case _:
            assert_never(told.kind)
