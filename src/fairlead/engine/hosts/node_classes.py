"""The classes of nodes as editors are told of them: the engine's own, partners' models, and those of packs."""

import asyncio
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from fairlead.domain.deployments import PackSet
from fairlead.engine.hosts.faults import EngineUnavailableError
from fairlead.engine.hosts.pack_catalog import Classes, PackCatalog
from fairlead.engine.hosts.process import HostNotStartedError
from fairlead.engine.hosts.templates import Templates

_OWNER: Final = "the engine's own nodes"


class NodeClasses:
    """What templates have said of their classes, kept until it is out of date."""

    def __init__(self, templates: Templates, catalog: PackCatalog) -> None:
        self._templates = templates
        self._catalog = catalog
        self._own: Classes = {}
        self._generation = 0
        self._generation_known = -1
        self._asking = asyncio.Lock()

    @property
    def is_current(self) -> bool:
        """Whether the engine's own classes that are known are those there are now."""
        return self._generation_known == self._generation

    def expire(self) -> None:
        """Note that the engine's own classes are others now; those that were known serve until these are."""
        self._generation += 1

    async def own(self) -> AbstractSet[str]:
        """The names of the classes that are of no pack. EngineUnavailableError."""
        if not self._own:
            await self.refresh()
        return self._own.keys()

    async def refresh(self) -> None:
        """Ask for the engine's own classes, where those that are known are out of date. EngineUnavailableError."""
        async with self._asking:
            while not self.is_current:
                generation = self._generation
                try:
                    ready = await self._templates.load((), _OWNER)
                except HostNotStartedError as error:
                    raise EngineUnavailableError(str(error)) from error
                self._own = await asyncio.to_thread(_read, ready.object_info)
                self._generation_known = generation

    async def describe(self, packs: PackSet) -> bytes:
        """The classes there are with some packs, as one JSON object. EngineUnavailableError."""
        await self.own()
        return await asyncio.to_thread(_written, self._own, self._catalog.classes(packs))


def _read(object_info: bytes) -> Classes:
    told = msgspec.json.decode(object_info, type=dict[str, msgspec.Raw])
    return {name: bytes(raw) for name, raw in told.items()}


def _written(own: Classes, of_packs: Classes) -> bytes:
    classes = {**of_packs, **own}
    return msgspec.json.encode({name: msgspec.Raw(raw) for name, raw in classes.items()})
