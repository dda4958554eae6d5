"""The files of workflows: names of a workspace, each for a blob; and the numbers of those that jobs make.

Files that live jobs name by id are not deleted, and are kept past their time (J-14).
"""

import functools
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import asdict, replace
from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from fairlead.domain.accounts.storage_limits import StorageLimits
from fairlead.domain.assets.filenames import (
    FileReference,
    is_numbered,
    number_name,
    numbered_output,
    output_name,
    split_name,
)
from fairlead.domain.jobs.states import LIVE
from fairlead.storage.accounts.storage_usage import check_room, lock_usage
from fairlead.storage.db.statements import Prepared, PreparedQuery, insert_in, insert_into
from fairlead.storage.db.tables import file_numbers, job_files, jobs, workflow_files

INSERT_NEEDED: Final = Prepared(insert(job_files), ("file_id", "job_id"))
_LIVE: Final = sorted(state.value for state in LIVE)


def is_needed_by_jobs() -> ColumnElement[bool]:
    """The condition that a row of `workflow_files` is named by a job that has not ended."""
    return exists(
        select(job_files.c.job_id)
        .join(jobs, jobs.c.id == job_files.c.job_id)
        .where(job_files.c.file_id == workflow_files.c.id, jobs.c.state.in_(_LIVE))
    )


def delete_needed(connection: Connection, job_ids: Sequence[str]) -> None:
    """Delete the links from some deleted jobs to the files that they have named."""
    connection.execute(delete(job_files).where(job_files.c.job_id.in_(job_ids)))


_TRIES: Final = 1_000
_SAME_CONTENT_MAX: Final = 100
_FOUND_AT_ONCE: Final = 300
_INPUT: Final = "input"
_PREVIEW: Final = "temp"
_NAME: Final = (workflow_files.c.workspace_id, workflow_files.c.kind, workflow_files.c.name)


class NoNameLeftError(Exception):
    """Every name that was tried is in use."""


class WorkflowFile(msgspec.Struct, frozen=True):
    """One file of a workspace; times in ms since 1970. `expires_at` is None for one that stays.

    `path` is its sender's name for it, `tags` a JSON array.
    """

    id: str
    workspace_id: str
    kind: str
    name: str
    blob: str
    size: int
    content_type: str
    created_at: int
    job_id: str | None = None
    expires_at: int | None = None
    path: str | None = None
    tags: str | None = None


def find_file(connection: Connection, workspace_id: str, kind: str, name: str, now: int) -> WorkflowFile | None:
    """The file of a name; None when there is none, or it has expired."""
    return _one(connection, and_(*_is(workspace_id, kind, name), _lives(now)))


def find_file_of_id(connection: Connection, file_id: str) -> WorkflowFile | None:
    """The file of an id, expired or not, in any workspace: for holders of a signed link."""
    return _one(connection, workflow_files.c.id == file_id)


def find_files(
    connection: Connection, workspace_id: str, names: Collection[tuple[str, str]], now: int
) -> dict[tuple[str, str], WorkflowFile]:
    """The existing files of some names, each with its kind."""
    found: dict[tuple[str, str], WorkflowFile] = {}
    wanted = list(names)
    for start in range(0, len(wanted), _FOUND_AT_ONCE):
        named = tuple_(workflow_files.c.kind, workflow_files.c.name).in_(wanted[start : start + _FOUND_AT_ONCE])
        rows = connection.execute(
            select(workflow_files).where(workflow_files.c.workspace_id == workspace_id, named, _lives(now))
        ).mappings()
        found |= {(row["kind"], row["name"]): WorkflowFile(**row) for row in rows}
    return found


def find_referenced(
    connection: Connection, workspace_id: str, reference: FileReference, kind: str, now: int
) -> WorkflowFile | None:
    """The file that a reference means: the one of that name, else one with that content. `kind` is the default."""
    named = find_file(connection, workspace_id, reference.kind or kind, reference.name, now)
    if named is not None or reference.content is None:
        return named
    return find_content(connection, workspace_id, reference.content, now)


def find_content(connection: Connection, workspace_id: str, blob: str, now: int) -> WorkflowFile | None:
    """The newest file of a workspace with these bytes, of any name and kind; None when it has none."""
    return _one(connection, workflow_files.c.workspace_id == workspace_id, workflow_files.c.blob == blob, _lives(now))


def add_file(connection: Connection, new: WorkflowFile) -> WorkflowFile:
    """Give a file its name, or another where that is in use for other bytes; returns the stored file.

    The same bytes under the same name, or under one that was made of it, are one file (engine-wire, 2.5). A name whose
    file has expired is free. NoNameLeftError when too many names are in use.
    """
    if _insert_if_free(connection, new):
        return new
    _hold_name(connection, new)
    if same := _same(connection, new):
        return _renew(connection, same, new)
    for _ in range(_TRIES):
        named = replace(new, name=number_name(new.name, next_number(connection, new.workspace_id, new.kind, new.name)))
        if _insert_if_free(connection, named):
            return named
    raise NoNameLeftError(new.name)


def keep_file(connection: Connection, new: WorkflowFile, limits: StorageLimits, *, overwrite: bool) -> WorkflowFile:
    """Replace or add a file, and return the stored one; NoNameLeftError.

    StorageFullError where its workspace keeps too much with it. A file that exists already needs no room.
    """
    if overwrite:
        put_file(connection, new)
        kept = new
    else:
        kept = add_file(connection, new)
    if kept.id == new.id:
        check_room(connection, new.workspace_id, limits)
    return kept


def put_file(connection: Connection, new: WorkflowFile) -> None:
    """Store a file under its name, replacing the one that has it, whose links then lead nowhere."""
    _put(connection.dialect.name).run(connection, [_row(new)])


def next_number(connection: Connection, workspace_id: str, kind: str, beginning: str) -> int:
    """Take the next number of names with a prefix; the first is 1. Each number is given once."""
    ((number,),) = _take_number(connection.dialect.name).run(connection, (workspace_id, kind, beginning))
    return int(number)


def take_output_name(
    connection: Connection, workspace_id: str, kind: str, beginning: str, extension: str, now: int
) -> str:
    """Take the next numbered name that no file has, for a job's new file; NoNameLeftError."""
    for _ in range(_TRIES):
        name = output_name(beginning, extension, next_number(connection, workspace_id, kind, beginning))
        if not _LIVING.run(connection, (workspace_id, kind, name, now)):
            return name
    raise NoNameLeftError(beginning)


def list_names(connection: Connection, workspace_id: str, kind: str, now: int, limit: int) -> list[str]:
    """The names of a kind in alphabetical order, up to `limit`."""
    mine = and_(workflow_files.c.workspace_id == workspace_id, workflow_files.c.kind == kind, _lives(now))
    names = select(workflow_files.c.name).where(mine).order_by(workflow_files.c.name).limit(limit)
    return list(connection.execute(names).scalars())


def extend_expiry(
    connection: Connection, workspace_id: str, names: Collection[tuple[str, str]], expires_at: int
) -> None:
    """Keep files, given by kind and name, at least until a time: a later job shows them again."""
    extend_expiries(connection, [FileExpiry(workspace_id, *name, expires_at) for name in set(names)])


class FileExpiry(NamedTuple):
    """A file of a workspace, and its new expiry (ms since 1970), which never shortens the one it has."""

    workspace_id: str
    kind: str
    name: str
    expires_at: int


def extend_expiries(connection: Connection, files: Collection[FileExpiry]) -> None:
    """The same of several workspaces."""
    # Sorted, so that two servers lock the rows in one order and cannot deadlock.
    rows = [(file.expires_at, file.workspace_id, file.kind, file.name, file.expires_at) for file in sorted(files)]
    _EXTEND.run(connection, rows)


def delete_expired(connection: Connection, now: int, limit: int) -> int:
    """Delete up to `limit` expired files that no live job needs, oldest first; returns how many there were.

    The counter of a preview's prefix is deleted with it, because each preview has a prefix of its own.
    """
    oldest = (
        select(workflow_files.c.id, *_NAME)
        .where(workflow_files.c.expires_at <= now, ~is_needed_by_jobs())
        .order_by(workflow_files.c.expires_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    found = connection.execute(oldest).all()
    if found:
        previews = ((row.workspace_id, numbered_output(row.name)) for row in found if row.kind == _PREVIEW)
        _FORGET_NUMBER.run(connection, sorted((workspace_id, *name) for workspace_id, name in previews if name))
        lock_usage(connection, [row.workspace_id for row in found])
        connection.execute(delete(workflow_files).where(workflow_files.c.id.in_([row.id for row in found])))
    return len(found)


def delete_old_inputs(connection: Connection, before: int, limit: int) -> int:
    """Delete up to `limit` inputs from before a time (ms) that no live job names; returns how many there were."""
    old = (
        select(workflow_files.c.id, workflow_files.c.workspace_id)
        .where(workflow_files.c.kind == _INPUT, workflow_files.c.created_at < before, ~is_needed_by_jobs())
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    found = connection.execute(old).all()
    if found:
        lock_usage(connection, [row.workspace_id for row in found])
        connection.execute(delete(workflow_files).where(workflow_files.c.id.in_([row.id for row in found])))
    return len(found)


def _insert_if_free(connection: Connection, new: WorkflowFile) -> bool:
    """Insert a row unless its name is in use; one that has expired by now makes room, unless a live job needs it."""
    expired = and_(*_is(new.workspace_id, new.kind, new.name), workflow_files.c.expires_at <= new.created_at)
    connection.execute(delete(workflow_files).where(expired, ~is_needed_by_jobs()))
    statement = _insert(connection, new).on_conflict_do_nothing(index_elements=list(_NAME))
    return connection.execute(statement).rowcount == 1


def _hold_name(connection: Connection, new: WorkflowFile) -> None:
    """Lock a name, so that no other transaction looks for a name like it until this one has ended."""
    first = insert_into(connection, file_numbers).values(
        workspace_id=new.workspace_id, kind=new.kind, beginning=new.name, last=0
    )
    keys = file_numbers.primary_key.columns.keys()
    connection.execute(first.on_conflict_do_update(index_elements=keys, set_={"last": file_numbers.c.last}))


def _same(connection: Connection, new: WorkflowFile) -> WorkflowFile | None:
    """The file with these bytes whose name is the wanted one, or made of it."""
    stem, extension = split_name(new.name)
    alike = and_(
        workflow_files.c.name.startswith(f"{stem} (", autoescape=True),
        workflow_files.c.name.endswith(f"){extension}", autoescape=True),
    )
    mine = and_(
        workflow_files.c.workspace_id == new.workspace_id,
        workflow_files.c.kind == new.kind,
        workflow_files.c.blob == new.blob,
        _lives(new.created_at),
        or_(workflow_files.c.name == new.name, alike),
    )
    found = select(workflow_files).where(mine).order_by(workflow_files.c.name).limit(_SAME_CONTENT_MAX)
    files = [WorkflowFile(**row) for row in connection.execute(found).mappings()]
    named = sorted(files, key=lambda file: (file.name != new.name, len(file.name), file.name))
    return next((file for file in named if file.name == new.name or is_numbered(file.name, new.name)), None)


def _renew(connection: Connection, kept: WorkflowFile, new: WorkflowFile) -> WorkflowFile:
    """The existing file, with at least the expiry of the one that was to be added."""
    if kept.expires_at is None or (new.expires_at is not None and new.expires_at <= kept.expires_at):
        return kept
    renewed = replace(kept, expires_at=new.expires_at)
    statement = update(workflow_files).where(workflow_files.c.id == kept.id)
    connection.execute(statement.values(expires_at=new.expires_at))
    return renewed


def _insert(connection: Connection, new: WorkflowFile) -> Any:
    return insert_into(connection, workflow_files).values(**asdict(new))


def _is(workspace_id: object, kind: object, name: object) -> tuple[ColumnElement[bool], ...]:
    return tuple(column == value for column, value in zip(_NAME, (workspace_id, kind, name), strict=True))


def _lives(now: object) -> ColumnElement[bool]:
    return or_(workflow_files.c.expires_at.is_(None), workflow_files.c.expires_at > now)


def _one(connection: Connection, *conditions: ColumnElement[bool]) -> WorkflowFile | None:
    newest = select(workflow_files).where(*conditions).order_by(workflow_files.c.created_at.desc()).limit(1)
    row = connection.execute(newest).mappings().one_or_none()
    return None if row is None else WorkflowFile(**row)


_COLUMNS: Final = [column.name for column in workflow_files.columns]
_row: Final = attrgetter(*_COLUMNS)
_LIVING: Final = PreparedQuery(
    select(workflow_files.c.id).where(
        *_is(bindparam("workspace"), bindparam("of_kind"), bindparam("called")), _lives(bindparam("now"))
    ),
    ("workspace", "of_kind", "called", "now"),
)
_FORGET_NUMBER: Final = Prepared(
    delete(file_numbers).where(
        file_numbers.c.workspace_id == bindparam("workspace"),
        file_numbers.c.kind == literal_column(f"'{_PREVIEW}'"),
        file_numbers.c.beginning == bindparam("begins"),
        file_numbers.c.last == bindparam("number"),
    ),
    ("workspace", "begins", "number"),
)
_EXTEND: Final = Prepared(
    update(workflow_files)
    .where(
        *_is(bindparam("workspace"), bindparam("of_kind"), bindparam("called")),
        workflow_files.c.expires_at < bindparam("before"),
    )
    .values(expires_at=bindparam("expires_at")),
    ("expires_at", "workspace", "of_kind", "called", "before"),
)


@functools.cache
def _put(dialect: str) -> Prepared:
    """Insert a row, or replace the one of its name, in a dialect's SQL."""
    statement = insert_in(dialect, workflow_files).values({name: bindparam(name) for name in _COLUMNS})
    values = {name: statement.excluded[name] for name in _COLUMNS if workflow_files.c[name] not in set(_NAME)}
    return Prepared(statement.on_conflict_do_update(index_elements=list(_NAME), set_=values), _COLUMNS)


@functools.cache
def _take_number(dialect: str) -> PreparedQuery:
    """Count one more of the names with a prefix, in a dialect's SQL."""
    keys = file_numbers.primary_key.columns.keys()
    one: ColumnElement[int] = literal_column("1")
    first = insert_in(dialect, file_numbers).values({**{name: bindparam(name) for name in keys}, "last": one})
    more = first.on_conflict_do_update(index_elements=keys, set_={"last": file_numbers.c.last + one})
    return PreparedQuery(more.returning(file_numbers.c.last), keys)
