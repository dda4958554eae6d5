"""Personal keys: the credentials of members, each with its terms."""

from collections.abc import Callable, Collection
from typing import Final

import msgspec
from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from fairlead.domain.accounts.key_terms import (
    Network,
    PersonalTerms,
    Scope,
    networks_text,
    rights_of,
    scopes_text,
    stored_networks,
    stored_scopes,
)
from fairlead.domain.accounts.rights import Membership, Principal, Role
from fairlead.storage.accounts.key_secrets import (
    forget_uses,
    has_secret,
    is_unexpired,
    last_use_of,
    rotate_secret,
)
from fairlead.storage.accounts.members import (
    LastOperatorError,
    Member,
    NewMember,
    create_member,
    find_member,
    has_members,
    principal_of,
    select_members,
)
from fairlead.storage.db.member_tables import members, personal_keys, sessions
from fairlead.storage.db.tables import workspaces

_SHOWN: Final = (
    personal_keys.c.id, personal_keys.c.label, personal_keys.c.hint, personal_keys.c.created_at,
    personal_keys.c.is_of_session, personal_keys.c.previous_until, personal_keys.c.expires_at, personal_keys.c.networks,
    personal_keys.c.scopes, personal_keys.c.workspace_id, workspaces.c.name.label("workspace"),
    last_use_of(personal_keys).label("used_at"),
)  # fmt: skip
_KEYS: Final = select(*_SHOWN).outerjoin(workspaces, workspaces.c.id == personal_keys.c.workspace_id)


class UnknownPersonalKeyError(Exception):
    """The member has no such key."""


class TooManyKeysError(Exception):
    """The member has as many personal keys as it may."""


class EndedCredentialError(Exception):
    """The credential with which something was to be done has ended since it was read."""


class PersonalKey(msgspec.Struct, frozen=True):
    """What may be shown of a personal key. Times are ms since 1970; `workspace` is the name of the only one it is for.

    The secret before the last rotation is good until `previous_until`.
    """

    id: str
    label: str
    hint: str
    created_at: int
    terms: PersonalTerms
    is_of_session: bool
    workspace: str | None = None
    used_at: int | None = None
    previous_until: int | None = None


class NewPersonalKey(msgspec.Struct, frozen=True, kw_only=True):
    """A personal key to be stored: its digest, never the key."""

    id: str
    member_id: str
    label: str
    hint: str
    digest: str
    created_at: int
    terms: PersonalTerms = PersonalTerms()
    is_of_session: bool = False


class KeyPrincipal(msgspec.Struct, frozen=True):
    """Whom a personal key belongs to, narrowed to what it may do; its id, and from where it may be used."""

    principal: Principal
    key_id: str
    networks: tuple[Network, ...]


def create_first_operator(connection: Connection, new: NewMember, key: NewPersonalKey) -> bool:
    """Make a member with a key if there is no member; False if there is one. Of two servers the second waits."""
    connection.execute(select(workspaces.c.id).order_by(workspaces.c.id).limit(1).with_for_update())
    if has_members(connection):
        return False
    create_member(connection, new)
    create_personal_key(connection, key)
    return True


def create_personal_key(connection: Connection, new: NewPersonalKey) -> None:
    """Store the digest of a new key with its terms."""
    terms = new.terms
    connection.execute(
        insert(personal_keys).values(
            id=new.id,
            member_id=new.member_id,
            label=new.label,
            hint=new.hint,
            digest=new.digest,
            created_at=new.created_at,
            expires_at=terms.expires_at,
            networks=networks_text(terms.networks),
            scopes=scopes_text(terms.scopes),
            workspace_id=terms.workspace_id,
            is_of_session=new.is_of_session,
        )
    )


def give_personal_key(
    connection: Connection, id_or_email: str, make: Callable[[str], NewPersonalKey], most: int, by: Principal | None
) -> Member:
    """Store the key that is made for a member's id; UnknownMemberError, TooManyKeysError past `most`.

    EndedCredentialError where the session or the key of `by` has ended meanwhile: no key may come after the proof that
    has revoked what made it (T-04).
    """
    refuse_ended(connection, by)
    found = find_member(connection, id_or_email)
    if len(list_personal_keys(connection, found.id)) >= most:
        raise TooManyKeysError
    create_personal_key(connection, make(found.id))
    return found


def list_personal_keys(connection: Connection, member_id: str) -> list[PersonalKey]:
    """The keys of a member, by age; those that have ended too."""
    found = _KEYS.where(personal_keys.c.member_id == member_id).order_by(personal_keys.c.id)
    return [_personal_key(row) for row in connection.execute(found).mappings()]


def rotate_personal_key(
    connection: Connection,
    member_id: str,
    key_id: str,
    digest: str,
    hint: str,
    previous_until: int,
    now: int,
    end: Callable[[int | None], int] | None,
    by: Principal | None,
) -> PersonalKey:
    """Give a key another secret; the one before is good until a time (ms), and its sessions end where that is now.

    `end` gives the key its end from the one before, where it is of a session from now on. UnknownPersonalKeyError,
    EndedCredentialError.
    """
    refuse_ended(connection, by)
    found = _find(connection, member_id, key_id)
    rotate_secret(connection, personal_keys, key_id, digest, hint, previous_until)
    if end is not None:
        ended = {"is_of_session": True, "expires_at": end(found.terms.expires_at)}
        connection.execute(update(personal_keys).where(personal_keys.c.id == key_id).values(ended))
    if previous_until <= now:
        connection.execute(delete(sessions).where(sessions.c.key_id == key_id))
    return found


def delete_personal_key(connection: Connection, member_id: str, key_id: str, now: int) -> PersonalKey:
    """Delete a key and the sessions that were begun with it; UnknownPersonalKeyError, LastOperatorError."""
    found = _find(connection, member_id, key_id)
    _delete(connection, [key_id], now)
    return found


def delete_keys_of_sessions(connection: Connection, member_id: str, now: int) -> int:
    """Delete the keys that a member has made in sessions; how many. LastOperatorError."""
    mine = (personal_keys.c.member_id == member_id) & personal_keys.c.is_of_session
    ids = connection.scalars(select(personal_keys.c.id).where(mine)).all()
    if ids:
        _delete(connection, ids, now)
    return len(ids)


def principal_by_key(connection: Connection, digest: str, now: int) -> KeyPrincipal | None:
    """The member a living personal key belongs to, by the digest of its secret."""
    found = (
        select_members()
        .add_columns(
            personal_keys.c.id.label("key_id"),
            personal_keys.c.networks,
            personal_keys.c.scopes,
            personal_keys.c.workspace_id,
            personal_keys.c.is_of_session,
        )
        .join(personal_keys, personal_keys.c.member_id == members.c.id)
        .where(has_secret(personal_keys, digest, now), is_unexpired(personal_keys, now))
    )
    row = connection.execute(found).mappings().first()
    if row is None:
        return None
    principal = principal_of(connection, row, key_id=row["key_id"])
    scopes = stored_scopes(row["scopes"])
    narrowed = msgspec.structs.replace(
        principal,
        rights=None if scopes is None else rights_of(scopes),
        is_of_session=bool(row["is_of_session"]),
    )
    if row["workspace_id"] is not None:
        narrowed = _within(connection, narrowed, row["workspace_id"])
    return KeyPrincipal(narrowed, row["key_id"], stored_networks(row["networks"]))


def refuse_ended(connection: Connection, by: Principal | None) -> None:
    """Refuse what somebody does with a session or a personal key that is no more; EndedCredentialError."""
    if by is None:
        return
    shown = (sessions, by.session_id) if by.session_id is not None else (personal_keys, by.key_id)
    table, id_ = shown
    if id_ is not None and connection.scalar(select(table.c.id).where(table.c.id == id_)) is None:
        raise EndedCredentialError


def _within(connection: Connection, principal: Principal, workspace_id: str) -> Principal:
    """A principal in one workspace alone, in which an operator is an owner."""
    there = tuple(one for one in principal.memberships if one.workspace_id == workspace_id)
    if principal.is_operator:
        name = connection.scalar(select(workspaces.c.name).where(workspaces.c.id == workspace_id))
        there = () if name is None else (Membership(workspace_id, name, Role.OWNER),)
    rights = principal.rights or rights_of((Scope.READ, Scope.RUN, Scope.MANAGE))
    return msgspec.structs.replace(principal, is_operator=False, memberships=there, rights=rights)


def _find(connection: Connection, member_id: str, key_id: str) -> PersonalKey:
    mine = (personal_keys.c.id == key_id) & (personal_keys.c.member_id == member_id)
    row = connection.execute(_KEYS.where(mine)).mappings().first()
    if row is None:
        raise UnknownPersonalKeyError(key_id)
    return _personal_key(row)


def _delete(connection: Connection, key_ids: Collection[str], now: int) -> None:
    _refuse_last_way_in(connection, key_ids, now)
    connection.execute(delete(sessions).where(sessions.c.key_id.in_(key_ids)))
    connection.execute(delete(personal_keys).where(personal_keys.c.id.in_(key_ids)))
    forget_uses(connection, list(key_ids))


def _personal_key(row: RowMapping) -> PersonalKey:
    terms = PersonalTerms(
        row["expires_at"], stored_networks(row["networks"]), stored_scopes(row["scopes"]), row["workspace_id"]
    )
    return PersonalKey(
        row["id"], row["label"], row["hint"], row["created_at"], terms, bool(row["is_of_session"]), row["workspace"],
        row["used_at"], row["previous_until"],
    )  # fmt: skip


def _refuse_last_way_in(connection: Connection, key_ids: Collection[str], now: int) -> None:
    """Refuse to lose the last keys of operators, where none has ever signed in by OpenID Connect; LastOperatorError."""
    operators = connection.execute(
        select(members.c.id, members.c.subject)
        .where(members.c.is_operator)
        .order_by(members.c.id)
        .with_for_update(of=members)
    ).all()
    if any(subject is not None for _, subject in operators):
        return
    ways = select(personal_keys.c.id).where(
        personal_keys.c.member_id.in_([id_ for id_, _ in operators]),
        personal_keys.c.scopes.is_(None),
        personal_keys.c.workspace_id.is_(None),
        is_unexpired(personal_keys, now),
    )
    ids = set(connection.scalars(ways))
    if ids and ids <= set(key_ids):
        raise LastOperatorError
