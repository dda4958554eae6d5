"""API keys: issued once, kept as digests, revoked for good."""

import secrets
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from fairlead.domain.ledger.budgets import Budget
from fairlead.operations.accounts.authenticate import digest_of
from fairlead.operations.clock import Clock, new_id
from fairlead.storage.accounts import workspaces
from fairlead.storage.accounts.workspaces import UnknownKeyError
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import budgets

__all__ = [
    "IssuedKey",
    "UnknownKeyError",
    "change_budget",
    "change_key",
    "change_team",
    "find_key",
    "hint_of",
    "issue_key",
    "list_keys",
    "make_secret",
    "revoke_key",
]

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_BYTES: Final = 32
_SECRET_DIGITS: Final = 43
"""Enough base-62 digits for 32 bytes."""


class IssuedKey(msgspec.Struct, frozen=True):
    """A new key; its text is never available again."""

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
) -> IssuedKey:
    """Make a key for a workspace (by name or id); UnknownWorkspaceError. The organization is that of its account."""
    text = make_secret(prefix)
    issued = IssuedKey(new_id(), text)
    now, today, budget_id = clock.now_ms(), clock.today(), new_id()
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
    )
    await database.write(lambda c: budgets.create_key(c, new, budget, budget_id, today))
    return issued


async def find_key(database: Database, text: str) -> str | None:
    """The id of a key, living or revoked, by the key itself; None for one that was never issued here."""
    digest = digest_of(text)
    return await database.read(lambda c: workspaces.key_id_by_digest(c, digest))


async def revoke_key(database: Database, key_id: str, clock: Clock) -> bool:
    """Revoke a key by id; False when no living key has it. No run is admitted with it from this moment on."""
    now = clock.now_ms()
    return await database.write(lambda c: workspaces.revoke_key(c, key_id, now))


async def change_budget(
    database: Database, key_id: str, change: Callable[[Budget | None], Budget | None], clock: Clock
) -> Budget | None:
    """Replace the budget of a key by the result of `change`, and return that; UnknownKeyError."""
    now, today, fresh = clock.now_ms(), clock.today(), new_id()
    return await database.write(lambda c: budgets.change_key_budget(c, key_id, change, fresh, now, today))


async def change_team(database: Database, key_id: str, team: str | None, clock: Clock) -> None:
    """Put a key into a team, or into none; its spending goes with it. UnknownKeyError."""
    today = clock.today()
    if not await database.write(lambda c: budgets.change_team(c, key_id, team, today)):
        raise UnknownKeyError(key_id)


async def change_key(database: Database, key_id: str, changes: Mapping[str, object]) -> None:
    """Change the organization of a key's account, or whether that governs the key (J-11); UnknownKeyError."""
    await database.write(lambda c: workspaces.change_key(c, key_id, changes))


async def list_keys(database: Database, clock: Clock) -> list[dict[str, object]]:
    """Every key without its secret; `spent` is the charge in the budget's period, None without a budget."""
    today = clock.today()
    return await database.read(lambda c: budgets.with_budgets(c, workspaces.list_keys(c), today))


def make_secret(prefix: str = "") -> str:
    """Text that nobody can guess: 32 bytes of chance in letters and digits, behind a prefix."""
    return prefix + _base62(secrets.token_bytes(_SECRET_BYTES))


def hint_of(secret: str, prefix: str) -> str:
    """What tells keys apart: the first two characters behind the prefix, and the last two."""
    return f"{secret[: len(prefix) + 2]}…{secret[-2:]}"[:16]


def _base62(raw: bytes) -> str:
    number, digits = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits.rjust(_SECRET_DIGITS, _ALPHABET[0])
