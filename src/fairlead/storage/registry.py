"""The registry's rows: publishers, nodes and versions, and the record of who has changed them.

All changes of a publisher are made with its row locked, so that nothing is added to one that is being deleted. Each
change is in one transaction with its record, and with the rows that lists and searches read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    Table,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from fairlead.domain.accounts.storage_limits import StorageLimits
from fairlead.domain.registry import (
    NODES_MAX,
    Actor,
    IdTaken,
    Kind,
    NodeEntry,
    NodeVersion,
    NotThere,
    PublishedNode,
    Publisher,
    RegistryFaultError,
    TooMany,
    VersionEntry,
    VersionTaken,
    archive_id,
    archive_name,
    document_of,
    refuse_node_id,
    refuse_publisher_id,
    refuse_writing,
    refuse_writing_node,
    require,
    search_text_of,
)
from fairlead.storage.assets.files import WorkflowFile, find_file, keep_file
from fairlead.storage.db.registry_tables import node_versions, published_nodes, publishers, registry_acts
from fairlead.storage.db.statements import insert_into
from fairlead.storage.db.tables import workflow_files

_FORGOTTEN: Final = "{}"
"""The document of a deleted entry, of which only the reserved number or id is kept."""
_SUBJECT_MAX: Final = 200
_TABLES: Final = {Kind.PUBLISHER: publishers, Kind.NODE: published_nodes}
_IS_SHOWN: Final = and_(publishers.c.banned_at.is_(None), publishers.c.deleted_at.is_(None))
_IS_LISTED: Final = and_(published_nodes.c.banned_at.is_(None), published_nodes.c.deleted_at.is_(None), _IS_SHOWN)
ARCHIVE_KIND: Final = "registry"
"""The kind of the files that are archives of versions: no caller can name one."""
_WAITS: Final = 0
_IS_PUBLISHED: Final = and_(node_versions.c.document != _FORGOTTEN, node_versions.c.place > _WAITS)
_VERSIONS: Final = (
    node_versions.c.node_id, node_versions.c.version, node_versions.c.place, node_versions.c.document,
    node_versions.c.created_at,
)  # fmt: skip
_LATEST: Final = (
    select(node_versions.c.version)
    .where(node_versions.c.node_id == published_nodes.c.id, _IS_PUBLISHED)
    .order_by(node_versions.c.place.desc())
    .limit(1)
    .correlate(published_nodes)
    .scalar_subquery()
)
_PUBLISHERS: Final = select(
    publishers.c.id, publishers.c.workspace_id, publishers.c.document, publishers.c.banned_at,
    publishers.c.deleted_at, publishers.c.created_at, publishers.c.changed_at,
)  # fmt: skip
_NODES: Final = select(
    published_nodes.c.id, published_nodes.c.publisher_id, published_nodes.c.document, published_nodes.c.banned_at,
    published_nodes.c.deleted_at, published_nodes.c.created_at, published_nodes.c.changed_at,
    published_nodes.c.installs, _LATEST.label("latest"),
)  # fmt: skip
_encode: Final = msgspec.json.Encoder().encode


class UnknownEntryError(Exception):
    """Nothing in the registry ever had this id."""


def create_publisher(
    connection: Connection, actor: Actor, publisher_id: str, document: Mapping[str, object], now: int, most: int
) -> Publisher:
    """Make a publisher, again where its owner has deleted it; RegistryFaultError.

    Servers that make several at the same moment may exceed the bound of a workspace by one each.
    """
    values = {"document": _encode(document).decode(), "deleted_at": None, "created_at": now, "changed_at": now}
    before = _publisher(connection, publisher_id, lock=True)
    if before is not None:
        require(refuse_publisher_id(before, actor.workspace_id))
        connection.execute(update(publishers).where(publishers.c.id == publisher_id).values(values))
    else:
        _refuse_more(connection, publishers, publishers.c.workspace_id == actor.workspace_id, "publishers", most)
        values |= {"id": publisher_id, "workspace_id": actor.workspace_id}
        if not _is_first(connection, publishers, values):
            raise RegistryFaultError(IdTaken(Kind.PUBLISHER, publisher_id))
    _note(connection, "publisher_created", actor, publisher_id, None, now)
    return _made_publisher(connection, publisher_id)


def change_publisher(
    connection: Connection, actor: Actor, publisher_id: str, document: Mapping[str, object], now: int
) -> Publisher:
    """Replace the document of a publisher; RegistryFaultError."""
    _lock_own(connection, actor, publisher_id)
    values = {"document": _encode(document).decode(), "changed_at": now}
    connection.execute(update(publishers).where(publishers.c.id == publisher_id).values(values))
    _note(connection, "publisher_changed", actor, publisher_id, None, now)
    return _made_publisher(connection, publisher_id)


def delete_publisher(connection: Connection, actor: Actor, publisher_id: str, now: int) -> None:
    """Delete a publisher with all its nodes; RegistryFaultError."""
    _lock_own(connection, actor, publisher_id)
    is_its = (published_nodes.c.publisher_id == publisher_id) & published_nodes.c.deleted_at.is_(None)
    node_ids = connection.execute(select(published_nodes.c.id).where(is_its).order_by(published_nodes.c.id)).scalars()
    _forget_nodes(connection, actor, publisher_id, list(node_ids), now)
    values = {"document": _FORGOTTEN, "deleted_at": now, "changed_at": now}
    connection.execute(update(publishers).where(publishers.c.id == publisher_id).values(values))
    _note(connection, "publisher_deleted", actor, publisher_id, None, now)


def create_node(
    connection: Connection,
    actor: Actor,
    publisher_id: str,
    node_id: str,
    document: Mapping[str, object],
    search_text: str,
    now: int,
    most: int,
) -> PublishedNode:
    """Make a node of a publisher, again where the publisher has deleted it; RegistryFaultError."""
    _lock_own(connection, actor, publisher_id)
    values = {
        "document": _encode(document).decode(),
        "search_text": search_text,
        "deleted_at": None,
        "created_at": now,
        "changed_at": now,
    }
    before = _node(connection, node_id)
    if before is not None:
        require(refuse_node_id(before, publisher_id))
        connection.execute(update(published_nodes).where(published_nodes.c.id == node_id).values(values))
    else:
        _refuse_more(connection, published_nodes, published_nodes.c.publisher_id == publisher_id, "nodes", most)
        if not _is_first(connection, published_nodes, values | {"id": node_id, "publisher_id": publisher_id}):
            raise RegistryFaultError(IdTaken(Kind.NODE, node_id))
    _note(connection, "node_created", actor, publisher_id, node_id, now)
    return _made_node(connection, node_id)


def delete_node(connection: Connection, actor: Actor, publisher_id: str, node_id: str, now: int) -> None:
    """Delete one node (G-01); its id and the numbers of its versions stay reserved. RegistryFaultError."""
    _lock_own(connection, actor, publisher_id)
    require(refuse_writing_node(_node(connection, node_id), node_id, publisher_id))
    _forget_nodes(connection, actor, publisher_id, [node_id], now)


def publish_version(
    connection: Connection,
    actor: Actor,
    publisher_id: str,
    node_id: str,
    version: str,
    document: Mapping[str, object],
    now: int,
    most: int,
) -> NodeVersion:
    """Add a version to a node; RegistryFaultError, also where the number belonged to one that is deleted."""
    _lock_own(connection, actor, publisher_id)
    require(refuse_writing_node(_node(connection, node_id), node_id, publisher_id))
    is_its = node_versions.c.node_id == node_id
    if connection.execute(select(node_versions.c.place).where(is_its, node_versions.c.version == version)).first():
        raise RegistryFaultError(VersionTaken(node_id, version))
    _refuse_more(connection, node_versions, is_its, "versions", most)
    last = connection.execute(select(func.max(node_versions.c.place)).where(is_its)).scalar_one()
    place = (last or 0) + 1
    row = {"version": version, "place": place, "document": _encode(document).decode(), "created_at": now}
    connection.execute(insert(node_versions).values(node_id=node_id, **row))
    connection.execute(update(published_nodes).where(published_nodes.c.id == node_id).values(changed_at=now))
    _note(connection, "version_published", actor, publisher_id, node_id, now)
    return NodeVersion(node_id, version, place, document, now)


def announce_version(
    connection: Connection, actor: Actor, publisher_id: str, node: NodeEntry, new: VersionEntry, now: int, most: int
) -> NodeVersion:
    """Add a version that waits for its archive, or announce it again; its node is made, or updated.

    RegistryFaultError, also where the number belonged to one that was published.
    """
    version, document = new.version, document_of(new)
    before = _node(connection, node.id)
    if before is None or before.deleted_at is not None:
        said, found_by = document_of(node), search_text_of(node)
        create_node(connection, actor, publisher_id, node.id, said, found_by, now, NODES_MAX)
    else:
        _lock_own(connection, actor, publisher_id)
        require(refuse_writing_node(before, node.id, publisher_id))
        told = {**before.document, **document_of(node)}
        found_by = search_text_of(msgspec.convert({**told, "id": node.id}, NodeEntry))
        values = {"document": _encode(told).decode(), "search_text": found_by, "changed_at": now}
        connection.execute(update(published_nodes).where(published_nodes.c.id == node.id).values(values))
    is_it = and_(node_versions.c.node_id == node.id, node_versions.c.version == version)
    place = connection.execute(select(node_versions.c.place).where(is_it)).scalar_one_or_none()
    row = {"place": _WAITS, "document": _encode(document).decode(), "created_at": now}
    if place is None:
        _refuse_more(connection, node_versions, node_versions.c.node_id == node.id, "versions", most)
        connection.execute(insert(node_versions).values(node_id=node.id, version=version, **row))
    elif place == _WAITS:
        connection.execute(update(node_versions).where(is_it).values(row))
    else:
        raise RegistryFaultError(VersionTaken(node.id, version))
    _note(connection, "version_announced", actor, publisher_id, node.id, now)
    return NodeVersion(node.id, version, _WAITS, document, now)


def publish_archive(
    connection: Connection, node_id: str, version: str, file: WorkflowFile, limits: StorageLimits
) -> None:
    """Publish a version that waits, with its archive; nothing changes where it has this one already.

    RegistryFaultError, StorageFullError.
    """
    node = _node(connection, node_id)
    if node is None:
        raise RegistryFaultError(NotThere(Kind.NODE, node_id))
    actor = Actor(file.workspace_id)
    _lock_own(connection, actor, node.publisher_id)
    require(refuse_writing_node(node, node_id, node.publisher_id))
    is_its = node_versions.c.node_id == node_id
    is_it = and_(is_its, node_versions.c.version == version)
    found = connection.execute(select(node_versions.c.place, node_versions.c.document).where(is_it)).first()
    if found is None or found.document == _FORGOTTEN:
        raise RegistryFaultError(NotThere(Kind.VERSION, archive_id(node_id, version)))
    if found.place > _WAITS:
        kept = find_file(connection, file.workspace_id, ARCHIVE_KIND, file.name, file.created_at)
        if kept is None or kept.blob != file.blob:
            raise RegistryFaultError(VersionTaken(node_id, version))
        return
    keep_file(connection, file, limits, overwrite=True)
    last = connection.execute(select(func.max(node_versions.c.place)).where(is_its)).scalar_one()
    changes = {"place": last + 1, "created_at": file.created_at}
    connection.execute(update(node_versions).where(is_it).values(changes))
    connection.execute(
        update(published_nodes).where(published_nodes.c.id == node_id).values(changed_at=file.created_at)
    )
    _note(connection, "version_published", actor, node.publisher_id, node_id, file.created_at)


def find_archive(connection: Connection, node_id: str, version: str) -> WorkflowFile | None:
    """The archive of a version that may be shown; None where there is none."""
    owner = (
        select(publishers.c.workspace_id)
        .join(published_nodes, published_nodes.c.publisher_id == publishers.c.id)
        .join(node_versions, node_versions.c.node_id == published_nodes.c.id)
        .where(published_nodes.c.id == node_id, node_versions.c.version == version, _IS_LISTED, _IS_PUBLISHED)
    )
    workspace_id = connection.execute(owner).scalar_one_or_none()
    if workspace_id is None:
        return None
    return find_file(connection, workspace_id, ARCHIVE_KIND, archive_name(node_id, version), now=0)


def find_version(connection: Connection, node_id: str, version: str | None) -> NodeVersion | None:
    """A version of a node that may be shown, the one published last where none is named; None where there is none."""
    listed = _listed_nodes().where(published_nodes.c.id == node_id)
    if connection.execute(listed).first() is None:
        return None
    found = select(*_VERSIONS).where(node_versions.c.node_id == node_id, _IS_PUBLISHED)
    if version is not None:
        found = found.where(node_versions.c.version == version)
    row = connection.execute(found.order_by(node_versions.c.place.desc()).limit(1)).first()
    return None if row is None else _version_of(row)


def install(connection: Connection, node_id: str, version: str | None) -> NodeVersion | None:
    """Find a version as `find_version` does, and count the installation."""
    found = find_version(connection, node_id, version)
    if found is not None:
        counted = update(published_nodes).where(published_nodes.c.id == node_id)
        connection.execute(counted.values(installs=published_nodes.c.installs + 1))
    return found


def set_banned(connection: Connection, kind: Kind, id_: str, now: int, *, banned: bool) -> bool:
    """Ban an entry or end its ban; False when nothing has changed. UnknownEntryError."""
    owner = _owner_of(connection, kind, id_)
    if owner is None:
        raise UnknownEntryError(f"{kind} {id_}")
    table = _TABLES[kind]
    was = table.c.banned_at.is_(None) if banned else table.c.banned_at.is_not(None)
    values = {"banned_at": now if banned else None}
    if connection.execute(update(table).where(table.c.id == id_, was).values(values)).rowcount == 0:
        return False
    publisher_id, workspace_id = owner
    act = f"{kind}_{'banned' if banned else 'unbanned'}"
    _note(connection, act, Actor(workspace_id), publisher_id, id_ if kind is Kind.NODE else None, now)
    return True


def find_publisher(connection: Connection, publisher_id: str) -> Publisher | None:
    """A publisher that may be shown; None for one that is banned, deleted or unknown."""
    row = connection.execute(_PUBLISHERS.where(publishers.c.id == publisher_id, _IS_SHOWN)).mappings().first()
    return None if row is None else _publisher_of(row)


def list_publishers(connection: Connection, after: str, limit: int) -> Sequence[Publisher]:
    """Some of the publishers that may be shown, by id, after one id."""
    found = _PUBLISHERS.where(publishers.c.id > after, _IS_SHOWN).order_by(publishers.c.id).limit(limit)
    return [_publisher_of(row) for row in connection.execute(found).mappings()]


def find_node(connection: Connection, node_id: str) -> PublishedNode | None:
    """A node that may be shown; None where it or its publisher is banned, deleted or unknown."""
    rows = connection.execute(_listed_nodes().where(published_nodes.c.id == node_id)).mappings().all()
    return next(iter(_with_latest(connection, rows)), None)


def list_nodes(
    connection: Connection, publisher_id: str | None, words: Sequence[str], after: str, limit: int, offset: int = 0
) -> Sequence[PublishedNode]:
    """Some of the nodes that may be shown, by id, after one id: of one publisher, or all; with all of some words.

    The first `offset` of those are skipped.
    """
    found = (
        _listed_nodes().where(published_nodes.c.id > after).order_by(published_nodes.c.id).limit(limit).offset(offset)
    )
    if publisher_id is not None:
        found = found.where(published_nodes.c.publisher_id == publisher_id)
    return _with_latest(connection, connection.execute(found.where(*_has(words))).mappings().all())


def count_nodes(connection: Connection, words: Sequence[str], up_to: str) -> tuple[int, int]:
    """How many nodes may be shown that have all of some words, and how many of them come up to an id."""
    upto = func.count().filter(published_nodes.c.id <= up_to)
    counted = select(func.count(), upto).select_from(published_nodes)
    counted = counted.join(publishers, publishers.c.id == published_nodes.c.publisher_id)
    row = connection.execute(counted.where(_IS_LISTED, *_has(words))).one()
    return row[0], row[1]


def _has(words: Sequence[str]) -> list[ColumnElement[bool]]:
    return [published_nodes.c.search_text.contains(word, autoescape=True) for word in words]


def _with_latest(connection: Connection, rows: Sequence[RowMapping]) -> list[PublishedNode]:
    """Nodes with the versions that were published last."""
    pairs = [(row["id"], row["latest"]) for row in rows if row["latest"] is not None]
    named = tuple_(node_versions.c.node_id, node_versions.c.version).in_(pairs)
    found = connection.execute(select(*_VERSIONS).where(named)) if pairs else ()
    latest = {row.node_id: _version_of(row) for row in found}
    return [replace(_node_of(row), latest=latest.get(row["id"])) for row in rows]


def list_versions(connection: Connection, node_id: str, before: int | None, limit: int) -> Sequence[NodeVersion]:
    """Some versions of a node, the one published last first, before one place."""
    found = select(*_VERSIONS).where(node_versions.c.node_id == node_id, _IS_PUBLISHED)
    if before is not None:
        found = found.where(node_versions.c.place < before)
    rows = connection.execute(found.order_by(node_versions.c.place.desc()).limit(limit))
    return [_version_of(row) for row in rows]


def list_acts(
    connection: Connection, publisher_id: str | None, limit: int, before: int | None = None
) -> list[dict[str, object]]:
    """What was done, the newest first: to one publisher and its nodes, or to all; before an act, by its id."""
    found = select(registry_acts).order_by(registry_acts.c.id.desc()).limit(limit)
    if publisher_id is not None:
        found = found.where(registry_acts.c.publisher_id == publisher_id)
    if before is not None:
        found = found.where(registry_acts.c.id < before)
    return [dict(row) for row in connection.execute(found).mappings()]


def _lock_own(connection: Connection, actor: Actor, publisher_id: str) -> None:
    """Lock a publisher until the end of the transaction; RegistryFaultError for another workspace's."""
    publisher = _publisher(connection, publisher_id, lock=True)
    require(refuse_writing(publisher, publisher_id, actor.workspace_id))


def _forget_nodes(connection: Connection, actor: Actor, publisher_id: str, node_ids: Sequence[str], now: int) -> None:
    values = {"document": _FORGOTTEN, "search_text": "", "deleted_at": now, "changed_at": now}
    connection.execute(update(published_nodes).where(published_nodes.c.id.in_(node_ids)).values(values))
    its_versions = node_versions.c.node_id.in_(node_ids)
    connection.execute(update(node_versions).where(its_versions).values(document=_FORGOTTEN))
    archives = [workflow_files.c.name.startswith(archive_id(node_id, ""), autoescape=True) for node_id in node_ids]
    if archives:
        its_own = and_(workflow_files.c.workspace_id == actor.workspace_id, workflow_files.c.kind == ARCHIVE_KIND)
        connection.execute(delete(workflow_files).where(its_own, or_(*archives)))
    acts = [_act("node_deleted", actor, publisher_id, node_id, now) for node_id in node_ids]
    if acts:
        connection.execute(insert(registry_acts), acts)


def _note(connection: Connection, act: str, actor: Actor, publisher_id: str, node_id: str | None, now: int) -> None:
    connection.execute(insert(registry_acts), [_act(act, actor, publisher_id, node_id, now)])


def _act(act: str, actor: Actor, publisher_id: str, node_id: str | None, now: int) -> dict[str, object]:
    return {
        "act": act,
        "publisher_id": publisher_id,
        "node_id": node_id,
        "workspace_id": actor.workspace_id,
        "key_id": actor.key_id,
        "subject": None if actor.subject is None else actor.subject[:_SUBJECT_MAX],
        "at": now,
    }


def _refuse_more(connection: Connection, table: Table, which: ColumnElement[bool], what: str, most: int) -> int:
    """How many rows there are, also of what was deleted; RegistryFaultError where there is no room for another."""
    count = connection.execute(select(func.count()).select_from(table).where(which)).scalar_one()
    if count >= most:
        raise RegistryFaultError(TooMany(what, most))
    return count


def _is_first(connection: Connection, table: Table, values: Mapping[str, object]) -> bool:
    """Insert a row; False where its id was taken just before."""
    row = insert_into(connection, table).values(**values)
    return connection.execute(row.on_conflict_do_nothing(index_elements=["id"])).rowcount > 0


def _owner_of(connection: Connection, kind: Kind, id_: str) -> tuple[str, str] | None:
    found = select(publishers.c.id, publishers.c.workspace_id)
    if kind is Kind.PUBLISHER:
        found = found.where(publishers.c.id == id_)
    else:
        found = found.join(published_nodes, published_nodes.c.publisher_id == publishers.c.id)
        found = found.where(published_nodes.c.id == id_)
    row = connection.execute(found.with_for_update(of=publishers)).first()
    return None if row is None else (row[0], row[1])


def _listed_nodes() -> Select[*tuple[object, ...]]:
    return _NODES.join(publishers, publishers.c.id == published_nodes.c.publisher_id).where(_IS_LISTED)


def _publisher(connection: Connection, publisher_id: str, *, lock: bool = False) -> Publisher | None:
    found = _PUBLISHERS.where(publishers.c.id == publisher_id)
    row = connection.execute(found.with_for_update() if lock else found).mappings().first()
    return None if row is None else _publisher_of(row)


def _made_publisher(connection: Connection, publisher_id: str) -> Publisher:
    return _publisher_of(connection.execute(_PUBLISHERS.where(publishers.c.id == publisher_id)).mappings().one())


def _node(connection: Connection, node_id: str) -> PublishedNode | None:
    row = connection.execute(_NODES.where(published_nodes.c.id == node_id)).mappings().first()
    return None if row is None else _node_of(row)


def _made_node(connection: Connection, node_id: str) -> PublishedNode:
    return _node_of(connection.execute(_NODES.where(published_nodes.c.id == node_id)).mappings().one())


def _publisher_of(row: RowMapping) -> Publisher:
    return Publisher(**{**row, "document": msgspec.json.decode(row["document"])})


def _node_of(row: RowMapping) -> PublishedNode:
    return PublishedNode(**{**row, "document": msgspec.json.decode(row["document"]), "latest": None})


def _version_of(row: Sequence[Any]) -> NodeVersion:
    node_id, version, place, document, created_at = row
    return NodeVersion(node_id, version, place, msgspec.json.decode(document), created_at)
