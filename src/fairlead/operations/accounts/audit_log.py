"""The audit log for people: who has done what, when and from where, page by page.

Whatever changes something writes its entry in the same transaction (`storage.accounts.audit_log.record_act`), so that
neither exists without the other.
"""

import getpass
from collections.abc import Sequence

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor, ActorKind
from fairlead.storage.accounts import audit_log
from fairlead.storage.accounts.audit_log import Act, AuditEntry, AuditFilter
from fairlead.storage.db.database import Database

__all__ = ["Act", "AuditEntry", "AuditFilter", "AuditPage", "list_entries", "record_act", "shell_actor"]


class AuditPage(msgspec.Struct, frozen=True):
    """A page of entries, the newest first; `before` is where the next page begins, or None after the last page."""

    entries: Sequence[AuditEntry]
    before: int | None


async def record_act(database: Database, by: Actor, act: Act, clock: Clock) -> None:
    """Record a change of something outside the database, such as a file."""
    now = clock.now_ms()
    await database.write(lambda c: audit_log.record_act(c, by, act, now))


async def list_entries(database: Database, wanted: AuditFilter, limit: int) -> AuditPage:
    """Up to `limit` entries."""
    found = await database.read(lambda c: audit_log.list_entries(c, wanted, limit + 1))
    return AuditPage(found[:limit], found[limit - 1].id if len(found) > limit else None)


def shell_actor() -> Actor:
    """The person who runs commands on this machine, by their name in the operating system."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # the user id has no name, as in some containers
        name = "shell"
    return Actor(ActorKind.COMMAND, None, name)
