"""Publishing nodes: publishers, nodes and versions created, read and deleted; bans by the operator; installations."""

from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final, Generic, TypeVar

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts import rights
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InvalidInput, ServiceUnavailable
from fairlead.domain.registry import (
    NODES_MAX,
    PUBLISHERS_MAX,
    VERSIONS_MAX,
    Actor,
    BadEntry,
    Kind,
    NodeEntry,
    NodeVersion,
    NothingPublished,
    NotThere,
    PublishedNode,
    Publisher,
    PublisherEntry,
    RegistryFaultError,
    VersionEntry,
    document_of,
    is_registry_id,
    is_version,
    refuse_entry,
    require,
    search_text_of,
    words_of,
)
from fairlead.storage import registry
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Transaction, Work
from fairlead.storage.registry import UnknownEntryError

__all__ = ["UnknownEntryError"]

_PLACE_DIGITS_MAX: Final = 9
T = TypeVar("T")
COUNTED_PER_HOUR: Final = 60
"""How many installations of an address count in an hour, on each server."""
ADDRESSES_MAX: Final = 10_000
"""How many addresses are counted in an hour; installations of later ones do not count until the next hour."""
_HOUR_MS: Final = 3_600_000
_HOST_NETWORK_BITS: Final = 64


class RegistryPage(msgspec.Struct, Generic[T], frozen=True):
    """Some entries of a list, and the position after which the next ones are; None on the last page."""

    entries: Sequence[T]
    after: str | None


class CountedPage(RegistryPage[PublishedNode], frozen=True):
    """A page of nodes, the number of all nodes, and how many of them come before the page."""

    total: int
    before: int


class Registry:
    """The registry of one installation.

    Changes need a caller; everybody may read. Every method may raise RegistryFaultError, and FaultError if the database
    is unavailable or a position is invalid.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._install_limits = InstallLimits(clock)

    async def create_publisher(self, caller: Caller, entry: PublisherEntry) -> Publisher:
        """Create a publisher that belongs to the caller's workspace (G-03)."""
        require(refuse_entry(entry))
        actor, now = actor_of(caller), self._clock.now_ms()
        return await self._write(
            lambda c: registry.create_publisher(c, actor, entry.id, document_of(entry), now, PUBLISHERS_MAX)
        )

    async def change_publisher(self, caller: Caller, publisher_id: str, entry: PublisherEntry) -> Publisher:
        """Replace the description of a publisher; its id stays."""
        check_id(Kind.PUBLISHER, publisher_id)
        require(refuse_entry(entry))
        if entry.id != publisher_id:
            raise RegistryFaultError(BadEntry("The id in the body is not the one in the address; ids do not change."))
        actor, now = actor_of(caller), self._clock.now_ms()
        return await self._write(lambda c: registry.change_publisher(c, actor, publisher_id, document_of(entry), now))

    async def delete_publisher(self, caller: Caller, publisher_id: str) -> None:
        """Delete a publisher with its nodes; all ids stay reserved."""
        check_id(Kind.PUBLISHER, publisher_id)
        actor, now = actor_of(caller), self._clock.now_ms()
        await self._write(lambda c: registry.delete_publisher(c, actor, publisher_id, now))

    async def create_node(self, caller: Caller, publisher_id: str, entry: NodeEntry) -> PublishedNode:
        """Create a node of one of the caller's publishers (G-03).

        It has no versions, though version numbers may be reserved.
        """
        require(refuse_entry(entry))
        check_id(Kind.PUBLISHER, publisher_id)
        actor, now = actor_of(caller), self._clock.now_ms()
        document, text = document_of(entry), search_text_of(entry)
        return await self._write(
            lambda c: registry.create_node(c, actor, publisher_id, entry.id, document, text, now, NODES_MAX)
        )

    async def delete_node(self, caller: Caller, publisher_id: str, node_id: str) -> None:
        """Delete that node and nothing else (G-01)."""
        check_id(Kind.PUBLISHER, publisher_id)
        check_id(Kind.NODE, node_id)
        actor, now = actor_of(caller), self._clock.now_ms()
        await self._write(lambda c: registry.delete_node(c, actor, publisher_id, node_id, now))

    async def publish_version(
        self, caller: Caller, publisher_id: str, node_id: str, entry: VersionEntry
    ) -> NodeVersion:
        """Add a version to a node; the node must never have had a version with this number."""
        require(refuse_entry(entry))
        check_id(Kind.PUBLISHER, publisher_id)
        check_id(Kind.NODE, node_id)
        actor, now = actor_of(caller), self._clock.now_ms()
        document = document_of(entry)
        return await self._write(
            lambda c: registry.publish_version(
                c, actor, publisher_id, node_id, entry.version, document, now, VERSIONS_MAX
            )
        )

    async def publisher(self, publisher_id: str) -> Publisher:
        """One publisher."""
        check_id(Kind.PUBLISHER, publisher_id)
        return _require(
            await self._read(lambda c: registry.find_publisher(c, publisher_id)), Kind.PUBLISHER, publisher_id
        )

    async def publishers(self, after: str | None, limit: int) -> RegistryPage[Publisher]:
        """A page of all publishers, by id."""
        start = _id_after(after)
        found = await self._read(lambda c: registry.list_publishers(c, start, limit + 1))
        return _page(found, limit, lambda publisher: publisher.id)

    async def node(self, node_id: str) -> PublishedNode:
        """One node."""
        check_id(Kind.NODE, node_id)
        return _require(await self._read(lambda c: registry.find_node(c, node_id)), Kind.NODE, node_id)

    async def nodes(self, search: str, after: str | None, limit: int, offset: int = 0) -> CountedPage:
        """A page of the nodes whose descriptions contain all words of a text, by id.

        The first `offset` of them are skipped.
        """
        words, start = words_of(search), _id_after(after)

        def work(connection: Transaction) -> tuple[Sequence[PublishedNode], tuple[int, int]]:
            found = registry.list_nodes(connection, None, words, start, limit + 1, offset)
            return found, registry.count_nodes(connection, words, start)

        found, (total, before) = await self._read(work)
        page = _page(found, limit, lambda node: node.id)
        return CountedPage(page.entries, page.after, total, before + offset)

    async def install(
        self, node_id: str, version: str | None, address: IPv4Address | IPv6Address | None = None
    ) -> NodeVersion:
        """A version of a node, the last published one if none is named; the installation is counted (K-08).

        If its address has reached the limit of this hour, the installation is answered but not counted.
        """
        check_id(Kind.NODE, node_id)
        if version is not None and not is_version(version):
            raise RegistryFaultError(NotThere(Kind.VERSION, version))
        if self._install_limits.may_count(address):
            installed = await self._write(lambda c: registry.install(c, node_id, version))
        else:
            installed = await self._read(lambda c: registry.find_version(c, node_id, version))
        if installed is not None:
            return installed
        if version is not None:
            raise RegistryFaultError(NotThere(Kind.VERSION, f"{node_id}@{version}"))
        await self.node(node_id)
        raise RegistryFaultError(NothingPublished(node_id))

    async def nodes_of(self, publisher_id: str, after: str | None, limit: int) -> RegistryPage[PublishedNode]:
        """A page of the nodes of one publisher, by id."""
        check_id(Kind.PUBLISHER, publisher_id)
        start = _id_after(after)

        def work(connection: Transaction) -> Sequence[PublishedNode]:
            _require(registry.find_publisher(connection, publisher_id), Kind.PUBLISHER, publisher_id)
            return registry.list_nodes(connection, publisher_id, (), start, limit + 1)

        return _page(await self._read(work), limit, lambda node: node.id)

    async def versions(self, node_id: str, after: str | None, limit: int) -> RegistryPage[NodeVersion]:
        """A page of the versions of a node, the last published one first."""
        check_id(Kind.NODE, node_id)
        before = _place_before(after)

        def work(connection: Transaction) -> Sequence[NodeVersion]:
            _require(registry.find_node(connection, node_id), Kind.NODE, node_id)
            return registry.list_versions(connection, node_id, before, limit + 1)

        return _page(await self._read(work), limit, lambda version: str(version.place))

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("The registry cannot be read right now.")) from error

    async def _write(self, work: Work[T]) -> T:
        try:
            return await self._database.write(work)
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("The registry cannot be changed right now.")) from error


async def set_banned(
    database: Database, kind: Kind, id_: str, clock: Clock, *, banned: bool, by: rights.Actor = rights.SERVER
) -> bool:
    """Ban a publisher or a node, or end its ban; False if nothing changes. UnknownEntryError."""
    now = clock.now_ms()
    act = Act(f"registry.{'banned' if banned else 'unbanned'}", target=id_, detail={"kind": kind.value})
    work = partial(registry.set_banned, kind=kind, id_=id_, now=now, banned=banned)
    return await database.write(with_entry(work, by, lambda changed: act if changed else None, now))


async def list_acts(
    database: Database, publisher_id: str | None, limit: int, before: int | None = None
) -> list[dict[str, object]]:
    """The acts on one publisher and its nodes, or on all, the newest first, before a given act.

    An act is given by its id.
    """
    return await database.read(lambda c: registry.list_acts(c, publisher_id, limit, before))


def actor_of(caller: Caller) -> Actor:
    """The caller as the list of acts names them."""
    return Actor(caller.workspace_id, caller.key_id, caller.subject)


def check_id(kind: Kind, id_: str) -> None:
    """Refuse an id that nothing can have; RegistryFaultError(NotThere)."""
    if not is_registry_id(id_):  # nothing is called so
        raise RegistryFaultError(NotThere(kind, id_))


def _require(found: T | None, kind: Kind, id_: str) -> T:
    if found is None:
        raise RegistryFaultError(NotThere(kind, id_))
    return found


def _id_after(after: str | None) -> str:
    if after is not None and not is_registry_id(after):
        raise FaultError(InvalidInput("The cursor is malformed."))
    return after or ""


def _place_before(after: str | None) -> int | None:
    if after is None:
        return None
    if not (after.isascii() and after.isdigit() and len(after) <= _PLACE_DIGITS_MAX):
        raise FaultError(InvalidInput("The cursor is malformed."))
    return int(after)


def _page(found: Sequence[T], limit: int, position: Callable[[T], str]) -> RegistryPage[T]:
    shown = found[:limit]
    return RegistryPage(shown, position(shown[-1]) if len(found) > limit else None)


class InstallLimits:
    """Decides for each installation whether it is counted; hours are those of the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hour = 0
        self._counted: dict[str, int] = {}

    def may_count(self, address: IPv4Address | IPv6Address | None) -> bool:
        """Whether an installation from an address is counted; the address is None if it is unknown.

        An IPv6 address stands for its network of 64 bits, which is what a subscriber is given.
        """
        hour = self._clock.now_ms() // _HOUR_MS
        if hour != self._hour:
            self._hour, self._counted = hour, {}
        key = _key(address)
        counted = self._counted.get(key, 0)
        if counted >= COUNTED_PER_HOUR or (not counted and len(self._counted) >= ADDRESSES_MAX):
            return False
        self._counted[key] = counted + 1
        return True


def _key(address: IPv4Address | IPv6Address | None) -> str:
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _HOST_NETWORK_BITS), strict=False))
    return str(address)
