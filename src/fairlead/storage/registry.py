"""The registry's rows: publishers, nodes and versions as they are changed and found, and who has changed them.

Everything that is changed of a publisher is changed with its row locked, so that nothing is added to one that is being
deleted. Each change stands in one transaction with the act that tells of it, and with all that lists or finds it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, and_, func, insert, select, update

from fairlead.domain.registry import (
    Actor,
    IdTaken,
    Kind,
    NodeVersion,
    PublishedNode,
    Publisher,
    RegistryFaultError,
    TooMany,
    VersionTaken,
    refuse_node_id,
    refuse_publisher_id,
    refuse_writing,
    refuse_writing_node,
    require,
)
from fairlead.storage.tables import node_versions, published_nodes, publishers, registry_acts
from fairlead.storage.upserts import insert_into

_FORGOTTEN: Final = "{}"
"""The document of what was deleted: its number or its id is reserved, and nothing else is kept."""
_SUBJECT_MAX: Final = 200
_TABLES: Final = {Kind.PUBLISHER: publishers, Kind.NODE: published_nodes}
_IS_SHOWN: Final = and_(publishers.c.banned_at.is_(None), publishers.c.deleted_at.is_(None))
_IS_LISTED: Final = and_(published_nodes.c.banned_at.is_(None), published_nodes.c.deleted_at.is_(None), _IS_SHOWN)
_LATEST: Final = (
    select(node_versions.c.version)
    .where(node_versions.c.node_id == published_nodes.c.id, node_versions.c.document != _FORGOTTEN)
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
    _LATEST.label("latest_version"),
)  # fmt: skip
_encode: Final = msgspec.json.Encoder().encode


class UnknownEntryError(Exception):
    """Nothing in the registry was ever called so."""


def create_publisher(
    connection: Connection, actor: Actor, publisher_id: str, document: Mapping[str, Any], now: int, most: int
) -> Publisher:
    """Make a publisher, anew where its owner has deleted it; RegistryFaultError.

    Servers that make several at the same moment may pass the bound of a workspace by one each.
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
    connection: Connection, actor: Actor, publisher_id: str, document: Mapping[str, Any], now: int
) -> Publisher:
    """Put another document in the place of a publisher's; RegistryFaultError."""
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
    document: Mapping[str, Any],
    search_text: str,
    now: int,
    most: int,
) -> PublishedNode:
    """Make a node of a publisher, anew where the publisher has deleted it; RegistryFaultError."""
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
    document: Mapping[str, Any],
    now: int,
    most: int,
) -> NodeVersion:
    """Add a version to a node; RegistryFaultError, also where the number belonged to one that is deleted."""
    _lock_own(connection, actor, publisher_id)
    require(refuse_writing_node(_node(connection, node_id), node_id, publisher_id))
    is_its = node_versions.c.node_id == node_id
    if connection.execute(select(node_versions.c.place).where(is_its, node_versions.c.version == version)).first():
        raise RegistryFaultError(VersionTaken(node_id, version))
    place = _refuse_more(connection, node_versions, is_its, "versions", most) + 1
    row = {"version": version, "place": place, "document": _encode(document).decode(), "created_at": now}
    connection.execute(insert(node_versions).values(node_id=node_id, **row))
    connection.execute(update(published_nodes).where(published_nodes.c.id == node_id).values(changed_at=now))
    _note(connection, "version_published", actor, publisher_id, node_id, now)
    return NodeVersion(version, place, document, now)


def set_banned(connection: Connection, kind: Kind, id_: str, now: int, *, banned: bool) -> bool:
    """Ban something or end its ban; False when nothing has changed. UnknownEntryError."""
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
    """A publisher that may be shown; None for one that is banned or deleted, or never was."""
    row = connection.execute(_PUBLISHERS.where(publishers.c.id == publisher_id, _IS_SHOWN)).mappings().first()
    return None if row is None else _publisher_of(row)


def list_publishers(connection: Connection, after: str, limit: int) -> Sequence[Publisher]:
    """Some of the publishers that may be shown, by id, behind one id."""
    found = _PUBLISHERS.where(publishers.c.id > after, _IS_SHOWN).order_by(publishers.c.id).limit(limit)
    return [_publisher_of(row) for row in connection.execute(found).mappings()]


def find_node(connection: Connection, node_id: str) -> PublishedNode | None:
    """A node that may be shown; None for one that is banned or deleted, as its publisher, or never was."""
    row = connection.execute(_listed().where(published_nodes.c.id == node_id)).mappings().first()
    return None if row is None else _node_of(row)


def list_nodes(
    connection: Connection, publisher_id: str | None, words: Sequence[str], after: str, limit: int
) -> Sequence[PublishedNode]:
    """Some of the nodes that may be shown, by id, behind one id: of one publisher, or all; with all of some words."""
    found = _listed().where(published_nodes.c.id > after).order_by(published_nodes.c.id).limit(limit)
    if publisher_id is not None:
        found = found.where(published_nodes.c.publisher_id == publisher_id)
    for word in words:
        found = found.where(published_nodes.c.search_text.contains(word, autoescape=True))
    return [_node_of(row) for row in connection.execute(found).mappings()]


def list_versions(connection: Connection, node_id: str, before: int | None, limit: int) -> Sequence[NodeVersion]:
    """Some versions of a node, the one published last first, before one place."""
    columns = (node_versions.c.version, node_versions.c.place, node_versions.c.document, node_versions.c.created_at)
    found = select(*columns).where(node_versions.c.node_id == node_id, node_versions.c.document != _FORGOTTEN)
    if before is not None:
        found = found.where(node_versions.c.place < before)
    rows = connection.execute(found.order_by(node_versions.c.place.desc()).limit(limit))
    return [NodeVersion(row[0], row[1], msgspec.json.decode(row[2]), row[3]) for row in rows]


def list_acts(connection: Connection, publisher_id: str | None, limit: int) -> list[dict[str, Any]]:
    """What was done, the last first: to one publisher and its nodes, or to all."""
    found = select(registry_acts).order_by(registry_acts.c.id.desc()).limit(limit)
    if publisher_id is not None:
        found = found.where(registry_acts.c.publisher_id == publisher_id)
    return [dict(row) for row in connection.execute(found).mappings()]


def _lock_own(connection: Connection, actor: Actor, publisher_id: str) -> None:
    """Have a publisher to oneself until the end of the transaction; RegistryFaultError for another's."""
    publisher = _publisher(connection, publisher_id, lock=True)
    require(refuse_writing(publisher, publisher_id, actor.workspace_id))


def _forget_nodes(connection: Connection, actor: Actor, publisher_id: str, node_ids: Sequence[str], now: int) -> None:
    values = {"document": _FORGOTTEN, "search_text": "", "deleted_at": now, "changed_at": now}
    connection.execute(update(published_nodes).where(published_nodes.c.id.in_(node_ids)).values(values))
    its_versions = node_versions.c.node_id.in_(node_ids)
    connection.execute(update(node_versions).where(its_versions).values(document=_FORGOTTEN))
    acts = [_act("node_deleted", actor, publisher_id, node_id, now) for node_id in node_ids]
    if acts:
        connection.execute(insert(registry_acts), acts)


def _note(connection: Connection, act: str, actor: Actor, publisher_id: str, node_id: str | None, now: int) -> None:
    connection.execute(insert(registry_acts), [_act(act, actor, publisher_id, node_id, now)])


def _act(act: str, actor: Actor, publisher_id: str, node_id: str | None, now: int) -> dict[str, Any]:
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


def _is_first(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row; False where somebody has just been quicker with its id."""
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


def _listed() -> Select[Any]:
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
    return PublishedNode(**{**row, "document": msgspec.json.decode(row["document"])})
