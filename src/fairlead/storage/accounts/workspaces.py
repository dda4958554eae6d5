"""Workspaces and their API keys."""

import json
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Label,
    RowMapping,
    String,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from fairlead.domain.accounts.callers import EVERY_GATE, Billing, Caller, Gate, Patterns, RateLimit, SingleSignOn
from fairlead.domain.accounts.key_terms import KeyTerms, Network, networks_text, stored_networks
from fairlead.domain.accounts.token_issuers import TokenKind
from fairlead.domain.jobs import subscriptions
from fairlead.domain.ledger.books import Funds
from fairlead.domain.ledger.money import UNITS_PER_DOLLAR
from fairlead.storage.accounts.key_secrets import (
    forget_uses,
    has_secret,
    is_unexpired,
    rotate_secret,
)
from fairlead.storage.db.budget_tables import budgets, rate_limits
from fairlead.storage.db.database import Work
from fairlead.storage.db.tables import api_keys, provider_keys, workspaces

_CAP: Final = 100 * UNITS_PER_DOLLAR
_IN_FLIGHT: Final = 40
_UNREADABLE: Final = "(unreadable)"
_SEPARATOR: Final = ","
"""No provider's name has one."""
_OWN_KEYS: Final = (
    select(func.aggregate_strings(provider_keys.c.provider, _SEPARATOR))
    .where(provider_keys.c.workspace_id == workspaces.c.id)
    .correlate(workspaces)
    .scalar_subquery()
)
_LINE: Final = "\n"
_MODEL_LIMIT: Final = "model"
_KEY_LIMIT: Final = "key"


def _rate_limits(applies: ColumnElement[bool]) -> Label[str]:
    """Limits of requests as one text, a line each: id, requests a minute, and the model; no text has a line break."""
    limit = rate_limits.c
    model = case((limit.scope == _MODEL_LIMIT, limit.subject), else_="")
    line = limit.id + _SEPARATOR + cast(limit.per_minute, String) + _SEPARATOR + model
    found = select(func.aggregate_strings(line, _LINE)).where(limit.workspace_id == workspaces.c.id, applies)
    return found.correlate(workspaces, api_keys).scalar_subquery().label("rate_limits")


_OF_MODELS: Final = rate_limits.c.scope == _MODEL_LIMIT
_FUNDS_AND_RIGHTS: Final = (
    workspaces.c.id.label("workspace_id"),
    workspaces.c.name.label("workspace"),
    workspaces.c.subscription,
    workspaces.c.billing,
    workspaces.c.balance,
    workspaces.c.held,
    workspaces.c.models.label("workspace_models"),
    workspaces.c.providers,
    workspaces.c.gates,
    workspaces.c.markup,
    _OWN_KEYS.label("own_keys"),
    (workspaces.c.suspended_at.is_not(None) | workspaces.c.delete_at.is_not(None)).label("is_suspended"),
)
_NOW: Final = bindparam("now", type_=BigInteger())
_CALLER_BY_KEY: Final = (
    select(
        *_FUNDS_AND_RIGHTS,
        _rate_limits(_OF_MODELS | (rate_limits.c.subject == api_keys.c.id)),
        api_keys.c.id.label("key_id"),
        api_keys.c.models,
        api_keys.c.networks,
        (workspaces.c.sso_required | api_keys.c.sso_required).label("sso_required"),
        func.coalesce(api_keys.c.organization_id, workspaces.c.organization_id).label("organization_id"),
    )
    .join(api_keys, api_keys.c.workspace_id == workspaces.c.id)
    .where(api_keys.c.revoked_at.is_(None), is_unexpired(api_keys, _NOW))
)
# Made once: a statement that is made for each call costs more than its execution.
_BY_SECRET: Final = _CALLER_BY_KEY.where(has_secret(api_keys, bindparam("digest"), _NOW))
_BY_KEY_ID: Final = _CALLER_BY_KEY.where(api_keys.c.id == bindparam("key_id"))


T = TypeVar("T")

FindCaller: TypeAlias = Callable[[Connection], Caller | None]


class NameTakenError(Exception):
    """A workspace of this name exists."""


class UnknownWorkspaceError(Exception):
    """No workspace has this name or id."""


class UnknownKeyError(Exception):
    """No living key has this id."""


class NewWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace to be made; money in 10^-8 dollars, `None` allows everything.

    `markup` is a percentage as text, None for that of the settings.
    With `sso_required` its keys are governed by the single sign-on of its organization, which may be unknown (J-11).
    """

    name: str
    billing: Billing = Billing.POSTPAID
    cap: int = _CAP
    in_flight_limit: int = _IN_FLIGHT
    commitment_limit: int | None = None
    tier: str | None = None
    models: tuple[str, ...] | None = None
    providers: tuple[str, ...] | None = None
    gates: Mapping[str, Gate] | None = None
    subscription: str = subscriptions.DEFAULT
    jobs_limit: int = dict(subscriptions.SUBSCRIPTIONS)[subscriptions.DEFAULT]
    organization_id: str | None = None
    sso_required: bool = False
    markup: str | None = None


class NewKey(msgspec.Struct, frozen=True):
    """An API key to be stored: its digest, never the key. The organization is that of its account."""

    id: str
    workspace_id: str
    digest: str
    hint: str
    label: str
    created_at: int
    models: tuple[str, ...] | None = None
    team: str | None = None
    organization_id: str | None = None
    sso_required: bool = False
    terms: KeyTerms = KeyTerms()


def create_workspace(connection: Connection, workspace_id: str, new: NewWorkspace, now: int) -> None:
    """Add a workspace with an empty ledger; NameTakenError when the name is in use."""
    try:
        connection.execute(
            insert(workspaces).values(
                id=workspace_id,
                name=new.name,
                billing=new.billing,
                balance=0,
                held=0,
                cap=new.cap,
                in_flight=0,
                in_flight_limit=new.in_flight_limit,
                commitment_limit=new.commitment_limit,
                tier=new.tier,
                models=_patterns_text(new.models),
                providers=_patterns_text(new.providers),
                gates=_gates_text(new.gates or {}),
                subscription=new.subscription,
                jobs_limit=new.jobs_limit,
                organization_id=new.organization_id,
                sso_required=new.sso_required,
                markup=new.markup,
                created_at=now,
            )
        )
    except IntegrityError as error:
        raise NameTakenError(new.name) from error


def change_workspace(connection: Connection, workspace_id: str, changes: Mapping[str, Any]) -> None:
    """Change settings of a workspace: what it pays and may owe, its limits, rights, gates and organization.

    Gates that are not named stay as they are.
    """
    values = dict(changes)
    for name in ("models", "providers"):
        if name in values:
            values[name] = _patterns_text(values[name])
    if "gates" in values:
        values["gates"] = _gates_text({**_gates(_workspace_row(connection, workspace_id)["gates"]), **values["gates"]})
    connection.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(**values))


def forget_revoked_keys(connection: Connection, before: int, limit: int) -> int:
    """Delete up to `limit` API keys that were revoked before a time (ms); how many there were.

    One that runs are held for stays, as do those that have a budget or a limit of requests of their own.
    """
    of_key = [
        select(table.c.id).where(table.c.scope == "key", table.c.subject == api_keys.c.id).exists()
        for table in (budgets, rate_limits)
    ]
    old = select(api_keys.c.id).where(api_keys.c.revoked_at < before, api_keys.c.held == 0, ~or_(*of_key)).limit(limit)
    ids = list(connection.execute(old).scalars())
    if ids:
        connection.execute(delete(api_keys).where(api_keys.c.id.in_(ids)))
        forget_uses(connection, ids)
    return len(ids)


def change_named_workspace(connection: Connection, name_or_id: str, changes: Mapping[str, Any]) -> tuple[str, str]:
    """Change settings of a workspace as `change_workspace` does; its id and name. UnknownWorkspaceError."""
    named = workspace_name_of(connection, name_or_id)
    if changes:
        change_workspace(connection, named[0], changes)
    return named


def workspace_id_of(connection: Connection, name_or_id: str) -> str:
    """Find a workspace by name or id; UnknownWorkspaceError."""
    found = connection.execute(
        select(workspaces.c.id).where((workspaces.c.name == name_or_id) | (workspaces.c.id == name_or_id))
    ).scalar()
    if found is None:
        raise UnknownWorkspaceError(name_or_id)
    return str(found)


def workspace_name_of(connection: Connection, name_or_id: str) -> tuple[str, str]:
    """Id and name of a workspace by either; an id wins over another workspace's equal name. UnknownWorkspaceError."""
    either = (workspaces.c.name == name_or_id) | (workspaces.c.id == name_or_id)
    found = select(workspaces.c.id, workspaces.c.name).where(either).order_by(workspaces.c.id != name_or_id)
    row = connection.execute(found).first()
    if row is None:
        raise UnknownWorkspaceError(name_or_id)
    return row.id, row.name


def workspace_names(connection: Connection, limit: int) -> list[tuple[str, str]]:
    """Id and name of up to `limit` workspaces, by name."""
    found = select(workspaces.c.id, workspaces.c.name).order_by(workspaces.c.name).limit(limit)
    return [(row.id, row.name) for row in connection.execute(found)]


def names_of(connection: Connection, ids: Collection[str]) -> dict[str, str]:
    """The names of some workspaces by id; unknown ones are left out."""
    found = select(workspaces.c.id, workspaces.c.name).where(workspaces.c.id.in_(ids))
    return {row.id: row.name for row in connection.execute(found)}


def has_workspaces(connection: Connection) -> bool:
    """Whether there is any workspace."""
    return connection.execute(select(workspaces.c.id).limit(1)).first() is not None


def first_workspace_id(connection: Connection) -> str | None:
    """The id of the oldest workspace; None where there is none."""
    found: str | None = connection.scalar(
        select(workspaces.c.id).order_by(workspaces.c.created_at, workspaces.c.id).limit(1)
    )
    return found


def list_workspaces(connection: Connection) -> list[dict[str, object]]:
    """Every workspace with its figures, by name."""
    return [readable(row) for row in connection.execute(select(workspaces).order_by(workspaces.c.name)).mappings()]


def create_key(connection: Connection, new: NewKey) -> None:
    """Store the digest of a new key."""
    connection.execute(
        insert(api_keys).values(
            id=new.id,
            workspace_id=new.workspace_id,
            digest=new.digest,
            hint=new.hint,
            label=new.label,
            models=_patterns_text(new.models),
            organization_id=new.organization_id,
            sso_required=new.sso_required,
            created_at=new.created_at,
            team=new.team,
            expires_at=new.terms.expires_at,
            networks=networks_text(new.terms.networks),
        )
    )


def change_key(connection: Connection, key_id: str, changes: Mapping[str, Any]) -> None:
    """Change label, models, end, networks, or the organization of a living key's account; UnknownKeyError."""
    living = api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None)
    values = dict(changes)
    if "models" in values:
        values["models"] = _patterns_text(values["models"])
    if "networks" in values:
        values["networks"] = networks_text(values["networks"])
    if connection.execute(update(api_keys).where(*living).values(**values)).rowcount == 0:
        raise UnknownKeyError(key_id)


def revoke_key(connection: Connection, key_id: str, now: int) -> bool:
    """Revoke a key by id; False when no living key has it."""
    done = connection.execute(
        update(api_keys).where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None)).values(revoked_at=now)
    )
    return done.rowcount > 0


def on_living_key(key_id: str, work: Work[T]) -> Work[tuple[T, str, str]]:
    """Work on a living key that also returns its workspace's id and its hint; UnknownKeyError before anything else."""

    def work_on_key(connection: Connection) -> tuple[T, str, str]:
        living = api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None)
        row = connection.execute(select(api_keys.c.workspace_id, api_keys.c.hint).where(*living)).first()
        if row is None:
            raise UnknownKeyError(key_id)
        return work(connection), row.workspace_id, row.hint

    return work_on_key


def rotate_key(connection: Connection, key_id: str, digest: str, hint: str, previous_until: int) -> None:
    """Give a key another secret; the one before is good until a time (ms)."""
    rotate_secret(connection, api_keys, key_id, digest, hint, previous_until)


def has_key(connection: Connection, workspace_id: str, key_id: str) -> bool:
    """Whether a living key is one of a workspace."""
    living = api_keys.c.id == key_id, api_keys.c.workspace_id == workspace_id, api_keys.c.revoked_at.is_(None)
    return connection.execute(select(api_keys.c.id).where(*living)).first() is not None


def key_id_by_digest(connection: Connection, digest: str) -> str | None:
    """The id of a key, living or revoked, by the digest of its secret or of the one before its rotation."""
    either = (api_keys.c.digest == digest) | (api_keys.c.previous_digest == digest)
    found: str | None = connection.scalar(select(api_keys.c.id).where(either))
    return found


def caller_by_key(connection: Connection, digest: str, now: int) -> Caller | None:
    """Who a key belongs to, by the digest of its secret; None for unknown, revoked and ended keys."""
    row = connection.execute(_BY_SECRET, {"digest": digest, "now": now}).mappings().first()
    return None if row is None else _caller_of_key(row)


def caller_by_key_id(connection: Connection, key_id: str, now: int) -> Caller | None:
    """Who a living key belongs to, by its id; None for one that has ended."""
    row = connection.execute(_BY_KEY_ID, {"key_id": key_id, "now": now}).mappings().first()
    return None if row is None else _caller_of_key(row)


def caller_by_workspace(
    connection: Connection, name_or_id: str, subject: str, models: Patterns, token_kind: TokenKind | None = None
) -> Caller | None:
    """The caller of a token: its workspace, and the models that the token itself is limited to."""
    either = select(*_FUNDS_AND_RIGHTS, _rate_limits(_OF_MODELS)).where(
        (workspaces.c.name == name_or_id) | (workspaces.c.id == name_or_id)
    )
    # An id means its own workspace, even where another workspace has it as a name.
    row = connection.execute(either.order_by(workspaces.c.id != name_or_id)).mappings().first()
    return None if row is None else _caller(row, subject=subject, models=models, token_kind=token_kind)


def _caller_of_key(row: RowMapping) -> Caller:
    governs = SingleSignOn(row["organization_id"]) if row["sso_required"] else None
    networks = stored_networks(row["networks"])
    models = _patterns(row["models"])
    return _caller(row, models=models, key_id=row["key_id"], single_sign_on=governs, networks=networks)


def _caller(
    row: RowMapping,
    *,
    models: Patterns,
    key_id: str | None = None,
    subject: str | None = None,
    single_sign_on: SingleSignOn | None = None,
    token_kind: TokenKind | None = None,
    networks: tuple[Network, ...] = (),
) -> Caller:
    prepaid = row["billing"] == Billing.PREPAID
    return Caller(
        workspace_id=row["workspace_id"],
        workspace=row["workspace"],
        key_id=key_id,
        subject=subject,
        workspace_models=_patterns(row["workspace_models"]),
        credential_models=models,
        providers=_patterns(row["providers"]),
        gates=_gates(row["gates"]),
        is_exhausted=prepaid and row["balance"] - row["held"] <= 0,
        own_keys=frozenset(row["own_keys"].split(_SEPARATOR)) if row["own_keys"] else frozenset(),
        single_sign_on=single_sign_on,
        token_kind=token_kind,
        is_suspended=bool(row["is_suspended"]),
        subscription=row["subscription"],
        rate_limits=_limits_of(row["rate_limits"]) if row["rate_limits"] else (),
        networks=networks,
        markup=None if row["markup"] is None else Decimal(row["markup"]),
    )


def _limits_of(text: str) -> tuple[RateLimit, ...]:
    lines = (line.split(_SEPARATOR) for line in text.split(_LINE))
    return tuple(RateLimit(id_, int(per_minute), model or None) for id_, per_minute, model in lines)


def _workspace_row(connection: Connection, workspace_id: str) -> RowMapping:
    return connection.execute(select(workspaces).where(workspaces.c.id == workspace_id)).mappings().one()


def _patterns(text: str | None) -> Patterns:
    if text is None:
        return Patterns()
    try:
        return Patterns(msgspec.json.decode(text, type=tuple[str, ...]))
    except (msgspec.DecodeError, UnicodeError):
        return Patterns((), is_readable=False)


def _patterns_text(patterns: tuple[str, ...] | None) -> str | None:
    return None if patterns is None else json.dumps(list(patterns))


def _gates(text: str) -> dict[str, Gate]:
    """Read rollout switches. A value other than on or off cannot be evaluated, and is not guessed (R-38)."""
    known = {gate.value: gate for gate in (Gate.ON, Gate.OFF)}
    try:
        read = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError):
        return {EVERY_GATE: Gate.UNKNOWN}
    return {name: known.get(str(state), Gate.UNKNOWN) for name, state in read.items()}


def _gates_text(gates: Mapping[str, Gate]) -> str:
    return json.dumps({name: gate.value for name, gate in gates.items()}, sort_keys=True)


def readable(row: RowMapping) -> dict[str, object]:
    """A row with its JSON columns decoded; unreadable ones are marked as such."""
    decoded = dict(row)
    for name in ("models", "providers", "gates"):
        if decoded.get(name) is not None:
            try:
                decoded[name] = msgspec.json.decode(decoded[name])
            except (msgspec.DecodeError, UnicodeError):
                decoded[name] = {_UNREADABLE: Gate.UNKNOWN.value} if name == "gates" else [_UNREADABLE]
    return decoded


def available(connection: Connection, workspace_id: str) -> int:
    """The amount that can still be held for a workspace, in 10^-8 dollars."""
    row = _workspace_row(connection, workspace_id)
    return Funds(
        Billing(row["billing"]), row["balance"], row["held"], row["cap"], row["in_flight"], row["in_flight_limit"]
    ).available()
