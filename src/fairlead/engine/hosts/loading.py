"""Loads the nodes of an engine process: the engine's own, those of partners' models, and those of packs."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from fairlead.engine.hosts.plain import WRITTEN, plain
from fairlead.engine.hosts.service import FRAME_BYTES_MAX, PackReport
from fairlead.engine.nodes.families import own_nodes
from fairlead.engine.nodes.partner_nodes import partner_nodes as partners_in
from fairlead.engine.nodes.registry import Registry, describe
from fairlead.engine.packs.loader import load_packs


class Loaded(msgspec.Struct, frozen=True):
    """The classes of nodes, the names of those that are partners' models, and of those that belong to no pack."""

    registry: Registry
    partner_nodes: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()

    def take_packs(
        self, selection: Sequence[str], folders: Sequence[str], announce: Callable[[str], None]
    ) -> Sequence[PackReport]:
        """Load packs from some folders, each announced before; one that cannot be loaded is reported and left out."""
        # Without a folder named here: a pack that asks for one gets one below the process's own.
        return load_packs(self.registry, folders, None, tuple(selection), announce) if selection else ()

    def describe(self) -> bytes:
        """The classes of the packs, or where there are none the others, for editors: a JSON object (C-01)."""
        of_packs = [name for name in self.registry if name not in self.own]
        classes = {name: describe(self.registry[name].definition) for name in of_packs or self.registry}
        # Declarations of packs may hold anything.
        return msgspec.json.encode(plain(classes, FRAME_BYTES_MAX // 2, WRITTEN))


def load_engine(partner_nodes: bytes) -> Loaded:
    """Load the classes that belong to no pack; `partner_nodes` as in `TemplateService.load_engine`."""
    registry = own_nodes()
    partners = partners_in(partner_nodes)
    for definition in partners:
        registry.add(definition)
    return Loaded(registry, frozenset(definition.name for definition in partners), frozenset(registry))


def preload() -> None:
    """Import the modules whose values packs are given. An error in one is reported by the pack that uses it."""
    with suppress(ImportError, OSError):
        importlib.import_module("torch")
