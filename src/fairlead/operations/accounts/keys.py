"""API keys: issued once, kept as digests, revoked for good."""

import secrets
from functools import partial
from typing import Final

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.key_terms import UNLIMITED, KeyTerms, networks_text
from fairlead.domain.accounts.rights import SERVER, Actor
from fairlead.domain.days import HOUR_MS
from fairlead.domain.ledger.budgets import Budget
from fairlead.domain.ledger.money import as_dollars
from fairlead.operations.accounts.authenticate import digest_of
from fairlead.storage.accounts import workspace_records, workspaces
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.accounts.workspace_records import KeyRecord
from fairlead.storage.accounts.workspaces import UnknownKeyError
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import budgets
from fairlead.storage.ledger.budgets import KeyChanges

__all__ = [
    "IssuedKey",
    "KeyChanges",
    "KeyRecord",
    "UnknownKeyError",
    "change_key",
    "find_key",
    "hint_of",
    "issue_key",
    "list_keys",
    "make_secret",
    "revoke_key",
    "rotate_key",
]

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_BYTES: Final = 32
_SECRET_DIGITS: Final = 43
"""Enough base-62 digits for 32 bytes."""


class IssuedKey(msgspec.Struct, frozen=True):
    """A new key; its text is shown only now."""

    id: str
    text: str


async def issue_key(
    database: Database,
    workspace: str,
    label: str,
    models: tuple[str, ...] | None,
    prefix: str,
    clock: Clock,
    budget: Budget | None = None,
    *,
    team: str | None = None,
    organization_id: str | None = None,
    sso_required: bool = False,
    terms: KeyTerms = UNLIMITED,
    by: Actor = SERVER,
) -> IssuedKey:
    """Make a key for a workspace (by name or id); UnknownWorkspaceError.

    The organization is the one that owns the key's account.
    """
    text = make_secret(prefix)
    issued = IssuedKey(new_id(), text)
    now, budget_id = clock.now_ms(), new_id()
    new = workspaces.NewKey(
        id=issued.id,
        workspace_id=await database.read(lambda c: workspaces.workspace_id_of(c, workspace)),
        digest=digest_of(text),
        hint=hint_of(text, prefix),
        label=label,
        created_at=now,
        models=models,
        team=team,
        organization_id=organization_id,
        sso_required=sso_required,
        terms=terms,
    )
    told = {"expires_at": terms.expires_at, "networks": networks_text(terms.networks)}
    act = Act("key.created", new.workspace_id, new.hint, {"id": new.id, "label": label, **told})
    work = partial(budgets.create_key, new=new, budget=budget, budget_id=budget_id)
    await database.write(with_entry(work, by, lambda _: act, now))
    return issued


async def find_key(database: Database, text: str) -> str | None:
    """The id of a key, live or revoked, by the key itself; None for a key that was never issued here."""
    digest = digest_of(text)
    return await database.read(lambda c: workspaces.key_id_by_digest(c, digest))


async def revoke_key(database: Database, key_id: str, clock: Clock, by: Actor = SERVER) -> bool:
    """Revoke a key by id; False if no live key has this id. From now on no run is admitted with it."""
    now = clock.now_ms()

    def describe(revoked: tuple[bool, str, str]) -> Act:
        _, workspace_id, hint = revoked
        return Act("key.revoked", workspace_id, hint, {"id": key_id})

    work = workspaces.on_living_key(key_id, lambda c: workspaces.revoke_key(c, key_id, now))
    try:
        await database.write(with_entry(work, by, describe, now))
    except UnknownKeyError:
        return False
    return True


async def change_key(
    database: Database, key_id: str, changes: KeyChanges, clock: Clock, by: Actor = SERVER
) -> Budget | None:
    """Change a live key, everything or nothing, and return its budget; None if it has none or was left unchanged.

    UnknownKeyError, and the errors of changing a budget.
    """
    now, fresh = clock.now_ms(), new_id()
    work = partial(budgets.change_key, key_id=key_id, changes=changes, budget_id=fresh, now=now)

    def describe(changed: tuple[Budget | None, str, str]) -> Act:
        bound, workspace_id, hint = changed
        detail = {"id": key_id, **changes.fields}
        if isinstance(networks := detail.get("networks"), tuple):
            detail["networks"] = networks_text(networks)
        if changes.team is not msgspec.UNSET:
            detail["team"] = changes.team
        if changes.budget is not None:
            detail["budget"] = None if bound is None else as_dollars(bound.limit)
            detail["budget_period"] = None if bound is None else bound.period
        return Act("key.changed", workspace_id, hint, detail)

    work_on_key = workspaces.on_living_key(key_id, work)
    return (await database.write(with_entry(work_on_key, by, describe, now)))[0]


async def rotate_key(
    database: Database, key_id: str, prefix: str, overlap_hours: int, clock: Clock, by: Actor = SERVER
) -> IssuedKey:
    """Give a living key another secret, by its id; the one before is good for the overlap. UnknownKeyError.

    Everything else stays: budgets, limits, and what it was used for.
    """
    text, now = make_secret(prefix), clock.now_ms()
    work = partial(
        workspaces.rotate_key,
        key_id=key_id,
        digest=digest_of(text),
        hint=hint_of(text, prefix),
        previous_until=now + overlap_hours * HOUR_MS,
    )

    def describe(rotated: tuple[None, str, str]) -> Act:
        _, workspace_id, hint = rotated
        return Act("key.rotated", workspace_id, hint, {"id": key_id, "overlap_hours": overlap_hours})

    await database.write(with_entry(workspaces.on_living_key(key_id, work), by, describe, now))
    return IssuedKey(key_id, text)


async def list_records(
    database: Database, workspace_id: str, clock: Clock, after: str | None, limit: int
) -> list[KeyRecord]:
    """Up to `limit` keys of a workspace with their budgets, the newest first, after a given key."""
    now = clock.now_ms()
    rows = await database.read(
        lambda c: budgets.with_budgets(c, workspace_records.list_key_rows(c, workspace_id, after, limit), now)
    )
    return [workspace_records.as_record(row, KeyRecord) for row in rows]


async def find_record(database: Database, workspace_id: str, key_id: str, clock: Clock) -> KeyRecord:
    """A key of a workspace, with its budget; UnknownKeyError."""
    now = clock.now_ms()
    rows = await database.read(
        lambda c: budgets.with_budgets(c, [workspace_records.find_key_row(c, workspace_id, key_id)], now)
    )
    return workspace_records.as_record(rows[0], KeyRecord)


async def list_keys(database: Database, clock: Clock) -> list[dict[str, object]]:
    """Every key without its secret; `spent` is what was charged in the budget's period, None without a budget."""
    now = clock.now_ms()
    return await database.read(lambda c: budgets.with_budgets(c, workspace_records.list_keys(c), now))


def make_secret(prefix: str = "") -> str:
    """A secret that nobody can guess: a prefix, then 32 random bytes in letters and digits."""
    return prefix + _base62(secrets.token_bytes(_SECRET_BYTES))


def hint_of(secret: str, prefix: str) -> str:
    """The part of a secret that distinguishes keys: the first two characters after the prefix, and the last two."""
    return f"{secret[: len(prefix) + 2]}…{secret[-2:]}"[:16]


def _base62(raw: bytes) -> str:
    number, digits = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits.rjust(_SECRET_DIGITS, _ALPHABET[0])
