"""Workspaces and their API keys for administrators: in full, page by page, and until they are deleted."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, delete, select, update

from fairlead.domain.accounts.callers import Billing
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.accounts.storage_limits import StorageUsage
from fairlead.domain.ledger.books import Funds
from fairlead.storage.accounts.audit_log import Act, record_act
from fairlead.storage.accounts.key_secrets import last_use_of
from fairlead.storage.accounts.storage_usage import set_limits, usage_of_each
from fairlead.storage.accounts.workspaces import (
    NewWorkspace,
    UnknownKeyError,
    UnknownWorkspaceError,
    change_named_workspace,
    readable,
)
from fairlead.storage.accounts.workspaces import create_workspace as insert_workspace
from fairlead.storage.db.member_tables import invitations, memberships
from fairlead.storage.db.schema import webhook_secrets
from fairlead.storage.db.tables import (
    api_keys,
    assets,
    editor_documents,
    provider_keys,
    workflow_files,
    workspaces,
)

_ENDED_AT_ONCE: Final = 10
_GOES: Final = (memberships, invitations, provider_keys, webhook_secrets, editor_documents)
R = TypeVar("R", bound=msgspec.Struct)

_KEY_COLUMNS: Final = (
    api_keys.c.id, api_keys.c.label, api_keys.c.team, api_keys.c.hint, api_keys.c.models, api_keys.c.held,
    api_keys.c.organization_id, api_keys.c.sso_required, api_keys.c.created_at, api_keys.c.revoked_at,
    api_keys.c.expires_at, api_keys.c.networks, api_keys.c.previous_until, last_use_of(api_keys).label("used_at"),
)  # fmt: skip


class WorkspaceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace with its figures and rights. Money in 10^-8 dollars, times in ms; None allows everything.

    `markup` is in percent, None where it is that of the settings.
    """

    id: str
    name: str
    billing: Billing
    balance: int
    held: int
    cap: int
    in_flight: int
    in_flight_limit: int
    waiting: int
    parked: int
    jobs_active: int
    jobs_parked: int
    commitment_limit: int | None
    tier: str | None
    models: list[str] | None
    providers: list[str] | None
    gates: dict[str, str]
    subscription: str
    jobs_limit: int
    organization_id: str | None
    sso_required: bool
    markup: str | None
    created_at: int
    suspended_at: int | None
    delete_at: int | None
    storage: StorageUsage = StorageUsage()

    @property
    def available(self) -> int:
        """The amount that can still be held for runs."""
        return Funds(self.billing, self.balance, self.held, self.cap, self.in_flight, self.in_flight_limit).available()


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What may be shown of an API key; its budget is that of the ledger."""

    id: str
    label: str
    team: str | None
    hint: str
    models: list[str] | None
    held: int
    organization_id: str | None
    sso_required: bool
    created_at: int
    revoked_at: int | None
    expires_at: int | None = None
    networks: str | None = None
    """With commas between them, as they are stored."""
    previous_until: int | None = None
    used_at: int | None = None
    budget: int | None = None
    budget_period: str | None = None
    spent: int | None = None


def create_workspace(
    connection: Connection, id_: str, new: NewWorkspace, now: int, storage: Mapping[str, int | None]
) -> None:
    """Make a workspace with an empty ledger, and with storage limits of its own; NameTakenError."""
    insert_workspace(connection, id_, new, now)
    if storage:
        set_limits(connection, id_, storage)


def change_workspace(
    connection: Connection, name_or_id: str, changes: Mapping[str, object], storage: Mapping[str, int | None]
) -> tuple[str, str]:
    """Change settings of a workspace, and its storage limits; returns its id and name. UnknownWorkspaceError."""
    named = change_named_workspace(connection, name_or_id, changes)
    if storage:
        set_limits(connection, named[0], storage)
    return named


def find_record(connection: Connection, workspace_id: str) -> WorkspaceRecord:
    """A workspace by its id; UnknownWorkspaceError."""
    found = _records(connection, select(workspaces).where(workspaces.c.id == workspace_id))
    if not found:
        raise UnknownWorkspaceError(workspace_id)
    return found[0]


def list_records(
    connection: Connection, within: tuple[str, ...] | None, after: str | None, limit: int
) -> list[WorkspaceRecord]:
    """Up to `limit` workspaces by name, after a name: all that are not deleted, or some by their ids."""
    found = select(workspaces).where(workspaces.c.name != workspaces.c.id).order_by(workspaces.c.name).limit(limit)
    if within is not None:
        found = found.where(workspaces.c.id.in_(within))
    return _records(connection, found if after is None else found.where(workspaces.c.name > after))


def change_state(connection: Connection, workspace_id: str, changes: Mapping[str, int | None]) -> WorkspaceRecord:
    """Change `suspended_at`, `delete_at` or both; the workspace as it is then."""
    connection.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(**changes))
    return find_record(connection, workspace_id)


def has_due(connection: Connection, now: int) -> bool:
    """Whether the grace period of some deleted workspace is over, and it is still there."""
    return connection.execute(select(workspaces.c.id).where(_is_due(now)).limit(1)).first() is not None


def end_due(connection: Connection, by: Actor, now: int) -> int:
    """Delete a batch of workspaces for good; returns how many.

    Keys are revoked; sealed texts, editors' documents and roles are deleted; files expire; and the workspace is named
    by its id from then on. The ledger stays.
    """
    due = select(workspaces.c.id, workspaces.c.name).where(_is_due(now)).order_by(workspaces.c.id)
    found = connection.execute(due.limit(_ENDED_AT_ONCE).with_for_update()).all()
    for id_, name in found:
        living = (api_keys.c.workspace_id == id_) & api_keys.c.revoked_at.is_(None)
        connection.execute(update(api_keys).where(living).values(revoked_at=now))
        for table in _GOES:
            connection.execute(delete(table).where(table.c.workspace_id == id_))
        for table in (assets, workflow_files):
            lasting = table.c.expires_at.is_(None) | (table.c.expires_at > now)
            connection.execute(update(table).where(table.c.workspace_id == id_, lasting).values(expires_at=now))
        connection.execute(update(workspaces).where(workspaces.c.id == id_).values(name=id_))
        record_act(connection, by, Act("workspace.ended", id_, name), now)
    return len(found)


def _is_due(now: int) -> ColumnElement[bool]:
    """The condition for workspaces to be deleted now; a deleted one has its id as its name."""
    return (workspaces.c.delete_at <= now) & (workspaces.c.name != workspaces.c.id)


def list_key_rows(connection: Connection, workspace_id: str, after: str | None, limit: int) -> list[dict[str, object]]:
    """Up to `limit` keys of a workspace, the newest first, behind one of them; those that were revoked too."""
    found = select(*_KEY_COLUMNS).where(api_keys.c.workspace_id == workspace_id)
    found = found.order_by(api_keys.c.id.desc()).limit(limit)
    rows = connection.execute(found if after is None else found.where(api_keys.c.id < after)).mappings()
    return [readable(row) for row in rows]


def list_keys(connection: Connection) -> list[dict[str, object]]:
    """Every key by age, without anything secret. Money in 10^-8 dollars."""
    rows = connection.execute(
        select(
            api_keys.c.id,
            workspaces.c.name.label("workspace"),
            api_keys.c.hint,
            api_keys.c.label,
            api_keys.c.models,
            api_keys.c.team,
            api_keys.c.held,
            api_keys.c.organization_id,
            api_keys.c.sso_required,
            api_keys.c.created_at,
            api_keys.c.revoked_at,
            api_keys.c.expires_at,
            api_keys.c.networks,
            api_keys.c.previous_until,
            last_use_of(api_keys).label("used_at"),
        )
        .join(workspaces, workspaces.c.id == api_keys.c.workspace_id)
        .order_by(api_keys.c.created_at, api_keys.c.id)
    ).mappings()
    return [readable(row) for row in rows]


def find_key_row(connection: Connection, workspace_id: str, key_id: str) -> dict[str, object]:
    """A key of a workspace; UnknownKeyError."""
    mine = (api_keys.c.id == key_id) & (api_keys.c.workspace_id == workspace_id)
    row = connection.execute(select(*_KEY_COLUMNS).where(mine)).mappings().first()
    if row is None:
        raise UnknownKeyError(key_id)
    return readable(row)


def _records(connection: Connection, found: Select[tuple[object, ...]]) -> list[WorkspaceRecord]:
    rows = connection.execute(found).mappings().all()
    usage = usage_of_each(connection, [row["id"] for row in rows])
    return [
        msgspec.structs.replace(as_record(readable(row), WorkspaceRecord), storage=usage.get(row["id"], StorageUsage()))
        for row in rows
    ]


def as_record(row: Mapping[str, object], kind: type[R]) -> R:
    """A row as a record, whose fields are columns; SQLAlchemy's own names of columns are not a plain texts."""
    return msgspec.convert({name: row[name] for name in kind.__struct_fields__ if name in row}, kind)
