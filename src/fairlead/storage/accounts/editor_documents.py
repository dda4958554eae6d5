"""What editors keep for a workspace: documents by name, such as one setting, or a file of their user."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from fairlead.domain.accounts.editor_documents import DocumentInfo
from fairlead.domain.accounts.storage_limits import UNLIMITED, StorageLimits
from fairlead.storage.accounts.storage_usage import check_room
from fairlead.storage.db.statements import insert_into
from fairlead.storage.db.tables import editor_documents


class DocumentExistsError(Exception):
    """A document has the name that was to be new."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class TooManyDocumentsError(Exception):
    """A shelf has no room for another document."""


class Shelf(msgspec.Struct, frozen=True):
    """The documents of a workspace whose names have a common prefix, their maximum number, and the workspace's limits.

    Names are passed and returned without that prefix.
    """

    workspace_id: str
    beginning: str
    most: int
    limits: StorageLimits = UNLIMITED


def find_document(connection: Connection, shelf: Shelf, name: str) -> bytes | None:
    """The content of a document; None where there is none of this name."""
    content = select(editor_documents.c.content).where(_is_called(shelf, name))
    found: bytes | None = connection.execute(content).scalar()
    return found


def list_documents(connection: Connection, shelf: Shelf) -> Sequence[DocumentInfo]:
    """The documents on a shelf, without their contents, by name."""
    told = select(
        editor_documents.c.name, func.length(editor_documents.c.content), editor_documents.c.changed_at
    ).where(_is_on(shelf))
    rows = connection.execute(told.limit(shelf.most))
    return sorted((DocumentInfo(_within(shelf, row[0]), row[1], row[2]) for row in rows), key=lambda info: info.name)


def read_documents(connection: Connection, shelf: Shelf) -> Mapping[str, bytes]:
    """The documents on a shelf, by name."""
    told = select(editor_documents.c.name, editor_documents.c.content).where(_is_on(shelf))
    rows = connection.execute(told.limit(shelf.most))
    return {_within(shelf, row[0]): row[1] for row in rows}


def put_documents(connection: Connection, shelf: Shelf, documents: Mapping[str, bytes], at: int) -> None:
    """Store documents, replacing those of the same names; TooManyDocumentsError."""
    for name, content in sorted(documents.items()):  # in one order, so that two servers cannot deadlock
        put_document(connection, shelf, name, content, at)


def put_document(
    connection: Connection, shelf: Shelf, name: str, content: bytes, at: int, *, replace: bool = True
) -> None:
    """Keep a document; DocumentExistsError where it is not to replace one, TooManyDocumentsError, StorageFullError.

    Servers that store new ones at the same moment may exceed the bound by one each.
    """
    _put(connection, shelf, name, {"content": content, "changed_at": at}, replace=replace)
    check_room(connection, shelf.workspace_id, shelf.limits)


def _put(connection: Connection, shelf: Shelf, name: str, values: Mapping[str, object], *, replace: bool) -> None:
    if _has(connection, shelf, name):
        if not replace:
            raise DocumentExistsError(name)
        connection.execute(update(editor_documents).where(_is_called(shelf, name)).values(values))
        return
    if connection.execute(select(func.count()).where(_is_on(shelf))).scalar_one() >= shelf.most:
        raise TooManyDocumentsError
    row = insert_into(connection, editor_documents).values(
        workspace_id=shelf.workspace_id, name=shelf.beginning + name, **values
    )
    # Another server may have stored one since: the later one wins, as everywhere.
    keys = editor_documents.primary_key.columns.keys()
    connection.execute(row.on_conflict_do_update(index_elements=keys, set_=values))


def move_document(connection: Connection, shelf: Shelf, name: str, to: str, *, replace: bool) -> DocumentInfo | None:
    """Give a document another name; None where there is none. DocumentExistsError where it is not to replace one."""
    moved = next((info for info in list_documents(connection, shelf) if info.name == name), None)
    if moved is None or name == to:
        return moved
    if _has(connection, shelf, to) and not replace:
        raise DocumentExistsError(to)
    delete_document(connection, shelf, to)
    there = {"name": shelf.beginning + to}
    connection.execute(update(editor_documents).where(_is_called(shelf, name)).values(there))
    return DocumentInfo(to, moved.size, moved.changed_at)


def delete_document(connection: Connection, shelf: Shelf, name: str) -> bool:
    """Forget a document; False when there was none."""
    return connection.execute(delete(editor_documents).where(_is_called(shelf, name))).rowcount > 0


def _has(connection: Connection, shelf: Shelf, name: str) -> bool:
    found = connection.execute(select(editor_documents.c.name).where(_is_called(shelf, name)))
    return found.first() is not None


def _within(shelf: Shelf, name: str) -> str:
    return name.removeprefix(shelf.beginning)


def _is_called(shelf: Shelf, name: str) -> ColumnElement[bool]:
    whole = shelf.beginning + name
    return (editor_documents.c.workspace_id == shelf.workspace_id) & (editor_documents.c.name == whole)


def _is_on(shelf: Shelf) -> ColumnElement[bool]:
    # LIKE would take letters for capitals in one dialect and not in the other.
    begins = func.substr(editor_documents.c.name, 1, len(shelf.beginning)) == shelf.beginning
    return (editor_documents.c.workspace_id == shelf.workspace_id) & begins
