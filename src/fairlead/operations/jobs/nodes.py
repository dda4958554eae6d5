"""The classes of nodes (C-01): described by an engine host, and cached until they change."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping

import msgspec

from fairlead.domain.catalog.models import Catalog
from fairlead.domain.deployments import PackSet
from fairlead.domain.jobs.faults import EngineUnavailable, JobFaultError
from fairlead.engine.hosts.notes import EngineUnavailableError
from fairlead.engine.hosts.pool import Hosts


class ObjectInfo(msgspec.Struct, frozen=True):
    """Every class of nodes as editors read it: one JSON object, its ETag, and each class by itself."""

    document: bytes
    etag: str
    by_class: Mapping[str, bytes]


class NodeCatalog:
    """Knows the classes of nodes. `partner_nodes` makes the document of those that run models of the catalog.

    The hosts must have been given those of the catalog in force.
    """

    def __init__(self, hosts: Hosts, catalog: Callable[[], Catalog], partner_nodes: Callable[[Catalog], bytes]) -> None:
        self._hosts = hosts
        self._catalog = catalog
        self._partner_nodes = partner_nodes
        self._followed = catalog()
        self._known: ObjectInfo | None = None
        self._known_edition = -1
        self._asking = asyncio.Lock()

    async def follow_catalog(self) -> None:
        """Give the hosts the partner nodes of the catalog in force, if it has changed."""
        current = self._catalog()
        if current is not self._followed:
            self._followed = current
            self._hosts.set_partner_nodes(await asyncio.to_thread(self._partner_nodes, current))

    async def classes(self, packs: PackSet) -> Mapping[str, bytes]:
        """The classes with some node packs, by name; JobFaultError when no host answers."""
        if packs is None:
            return (await self.object_info()).by_class
        try:
            document = await self._hosts.describe(packs)
        except EngineUnavailableError as error:
            raise JobFaultError(EngineUnavailable()) from error
        return (await asyncio.to_thread(_read, document)).by_class

    async def object_info(self) -> ObjectInfo:
        """Every class; JobFaultError when no host answers."""
        async with self._asking:
            if self._known is not None and self._known_edition == self._hosts.edition:
                return self._known
            await self.follow_catalog()
            is_current, edition = self._hosts.is_current, self._hosts.edition
            try:
                document = await self._hosts.describe()
            except EngineUnavailableError as error:
                raise JobFaultError(EngineUnavailable()) from error
            described = await asyncio.to_thread(_read, document)
            if is_current:  # else an earlier host has answered, of which the successor is being started
                self._known, self._known_edition = described, edition
            return described


def _read(document: bytes) -> ObjectInfo:
    by_class = {name: bytes(raw) for name, raw in msgspec.json.decode(document, type=dict[str, msgspec.Raw]).items()}
    return ObjectInfo(document, f'"{hashlib.sha256(document).hexdigest()}"', by_class)
