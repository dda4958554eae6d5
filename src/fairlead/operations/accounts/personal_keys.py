"""Personal keys: made, rotated and revoked. The server makes them, shows each once, and keeps a digest.

A key has terms: when it ends, from where it may be used, and what it may do of what its member may (T-04). What was
made in a session ends by itself, and when its member is signed out everywhere.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.key_terms import (
    SESSION_DAYS,
    SESSION_DAYS_MAX,
    UNLIMITED,
    BadTermsError,
    PersonalTerms,
    end_of,
    networks_text,
    scopes_text,
)
from fairlead.domain.accounts.rights import PERSONAL_KEY_PREFIX, Actor, Principal
from fairlead.domain.days import DAY_MS, HOUR_MS
from fairlead.operations.accounts.authenticate import digest_of
from fairlead.operations.accounts.keys import IssuedKey, hint_of, make_secret
from fairlead.storage.accounts import personal_keys
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.accounts.members import Member
from fairlead.storage.accounts.personal_keys import (
    EndedCredentialError,
    NewPersonalKey,
    PersonalKey,
    TooManyKeysError,
    UnknownPersonalKeyError,
)
from fairlead.storage.db.database import Database

__all__ = ["EndedCredentialError", "PersonalKey", "TooManyKeysError", "UnknownPersonalKeyError"]

KEYS_MAX: Final = 50
"""How many personal keys a member may have."""


async def issue_personal_key(
    database: Database,
    id_or_email: str,
    label: str,
    by: Actor,
    clock: Clock,
    terms: PersonalTerms = UNLIMITED,
    principal: Principal | None = None,
) -> IssuedKey:
    """Make a key for a member; UnknownMemberError, TooManyKeysError.

    `principal` is who asks for it, None at a shell: its credential must be there still (EndedCredentialError), and a
    key that is made in a session, or with a key that was, has an end (BadTermsError).
    """
    now = clock.now_ms()
    is_of_session = principal is not None and principal.is_of_session
    if is_of_session:
        terms = _ending(terms, now)
    issued, key = new_key("", label, now, terms, is_of_session=is_of_session)
    give = partial(
        personal_keys.give_personal_key,
        id_or_email=id_or_email,
        make=lambda member_id: msgspec.structs.replace(key, member_id=member_id),
        most=KEYS_MAX,
        by=principal,
    )

    def describe(found: Member) -> Act:
        limits = {"networks": networks_text(terms.networks), "scopes": scopes_text(terms.scopes)}
        detail = {"id": issued.id, "label": label, "expires_at": terms.expires_at, **limits}
        return Act("personal_key.created", target=found.email or found.name, detail=detail)

    await database.write(with_entry(give, by, describe, now))
    return issued


async def list_personal_keys(database: Database, member_id: str) -> Sequence[PersonalKey]:
    """The keys of a member, the oldest first; none of them can be shown again."""
    return await database.read(lambda c: personal_keys.list_personal_keys(c, member_id))


async def rotate_personal_key(
    database: Database,
    member_id: str,
    key_id: str,
    overlap_hours: int,
    by: Actor,
    clock: Clock,
    principal: Principal | None = None,
) -> IssuedKey:
    """Give a key another secret; the one before is good for the overlap. UnknownPersonalKeyError, EndedCredentialError.

    Everything else of the key stays, but for one that is rotated in a session, which ends like one that was made there.
    Without an overlap the sessions that began with it end.
    """
    text, now = make_secret(PERSONAL_KEY_PREFIX), clock.now_ms()
    is_of_session = principal is not None and principal.is_of_session
    rotate = partial(
        personal_keys.rotate_personal_key,
        member_id=member_id,
        key_id=key_id,
        digest=digest_of(text),
        hint=hint_of(text, PERSONAL_KEY_PREFIX),
        previous_until=now + overlap_hours * HOUR_MS,
        now=now,
        end=partial(_end_in_session, now=now) if is_of_session else None,
        by=principal,
    )

    def describe(before: PersonalKey) -> Act:
        detail = {"id": key_id, "label": before.label, "overlap_hours": overlap_hours}
        return Act("personal_key.rotated", target=before.hint, detail=detail)

    await database.write(with_entry(rotate, by, describe, now))
    return IssuedKey(key_id, text)


async def delete_personal_key(database: Database, member_id: str, key_id: str, by: Actor, clock: Clock) -> None:
    """Revoke a key for good and end the sessions that began with it; UnknownPersonalKeyError, LastOperatorError."""
    now = clock.now_ms()
    await database.write(
        with_entry(
            lambda c: personal_keys.delete_personal_key(c, member_id, key_id, now),
            by,
            lambda key: Act("personal_key.revoked", target=key.hint, detail={"id": key.id, "label": key.label}),
            now,
        )
    )


def new_key(
    member_id: str, label: str, now: int, terms: PersonalTerms = UNLIMITED, *, is_of_session: bool = False
) -> tuple[IssuedKey, NewPersonalKey]:
    """A new key, and the form of it that is stored."""
    text = make_secret(PERSONAL_KEY_PREFIX)
    kept = NewPersonalKey(
        id=new_id(),
        member_id=member_id,
        label=label,
        hint=hint_of(text, PERSONAL_KEY_PREFIX),
        digest=digest_of(text),
        created_at=now,
        terms=terms,
        is_of_session=is_of_session,
    )
    return IssuedKey(kept.id, text), kept


def _end_in_session(expires_at: int | None, now: int) -> int:
    """The end of a key that is rotated in a session, from the one it has."""
    return min(expires_at or now + SESSION_DAYS * DAY_MS, now + SESSION_DAYS_MAX * DAY_MS)


def _ending(terms: PersonalTerms, now: int) -> PersonalTerms:
    """Terms with an end, by default in 90 days; BadTermsError for one that is too far away."""
    if terms.expires_at is None:
        return msgspec.structs.replace(terms, expires_at=end_of(SESSION_DAYS, now))
    if terms.expires_at > now + SESSION_DAYS_MAX * DAY_MS:
        message = f"A key that is made in a session ends after at most {SESSION_DAYS_MAX} days."
        raise BadTermsError("expires_in_days", message)
    return terms
