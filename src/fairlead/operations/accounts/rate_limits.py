"""Request limits of API keys and of models: listed, set and deleted. `rate_windows` counts against them."""

from functools import partial
from typing import Final

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.catalog.identifiers import is_model_id
from fairlead.storage.accounts import rate_limits, workspaces
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.accounts.rate_limits import LimitRecord, Scope, TooManyLimitsError, UnknownLimitError
from fairlead.storage.db.database import Database

__all__ = [
    "LIMITS_MAX",
    "PER_MINUTE_MAX",
    "BadLimitError",
    "LimitRecord",
    "Scope",
    "TooManyLimitsError",
    "UnknownLimitError",
    "delete_limit",
    "list_limits",
    "set_limit",
]

LIMITS_MAX: Final = 1_000
"""How many limits a workspace may have: those of its models are read with each of its callers."""
PER_MINUTE_MAX: Final = 1_000_000_000


class BadLimitError(Exception):
    """A limit is not valid; `field` says what is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


async def list_limits(
    database: Database, workspace_id: str, after: tuple[str, str] | None, limit: int
) -> list[LimitRecord]:
    """Up to `limit` limits of a workspace by scope and subject, after a given one."""
    return await database.read(lambda c: rate_limits.list_limits(c, workspace_id, after, limit))


async def set_limit(
    database: Database,
    workspace_id: str,
    scope: Scope,
    subject: str,
    per_minute: int,
    by: Actor,
    clock: Clock,
) -> LimitRecord:
    """Set a limit, replacing the one that the subject has; BadLimitError, TooManyLimitsError.

    It takes effect within a second.
    """
    if scope == "model" and not is_model_id(subject):
        raise BadLimitError("subject", "A model is named by its id, such as acme/image-1.")
    if scope == "key" and not await database.read(lambda c: workspaces.has_key(c, workspace_id, subject)):
        raise BadLimitError("subject", "The workspace has no living key with this id.")
    now = clock.now_ms()
    new = LimitRecord(new_id(), workspace_id, scope, subject, per_minute, now)
    detail = {"scope": scope, "subject": subject, "per_minute": per_minute}
    work = partial(rate_limits.set_limit, new=new, most=LIMITS_MAX)
    return await database.write(
        with_entry(work, by, lambda found: Act("rate_limit.set", workspace_id, found.id, detail), now)
    )


async def delete_limit(database: Database, workspace_id: str, limit_id: str, by: Actor, clock: Clock) -> None:
    """Delete a limit; UnknownLimitError."""
    work = partial(rate_limits.delete_limit, workspace_id=workspace_id, limit_id=limit_id)
    act = Act("rate_limit.deleted", workspace_id, limit_id)
    await database.write(with_entry(work, by, lambda _: act, clock.now_ms()))
