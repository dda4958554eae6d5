"""Loads the nodes of an engine process: the engine's own, those of partners' models, and those of packs."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from fairlead.engine.hosts.plain import WRITTEN, plain
from fairlead.engine.hosts.service import FRAME_BYTES_MAX, LoadedNodes, PackReport
from fairlead.engine.nodes.families import own_nodes
from fairlead.engine.nodes.partner_nodes import partner_nodes as partners_in
from fairlead.engine.nodes.registry import Registry, describe
from fairlead.engine.packs.loader import load_packs


class Loaded(msgspec.Struct, frozen=True):
    """The classes of nodes, the names of those that are partners' models, and the reports about packs.

    `keeps_folder` says that a pack has left something in the folder that it may write to, or knows its path.
    """

    registry: Registry
    partner_nodes: frozenset[str]
    packs: Sequence[PackReport]
    keeps_folder: bool
    own: frozenset[str] = frozenset()
    """The names of the classes that are of no pack."""

    def report(self) -> LoadedNodes:
        """The report to the server."""
        wanted = [name for name in self.registry if not (self.packs and name in self.own)]
        classes = {name: describe(self.registry[name].definition) for name in wanted}
        # Declarations of packs may hold anything.
        object_info = msgspec.json.encode(plain(classes, FRAME_BYTES_MAX // 2, WRITTEN))
        return LoadedNodes(self.packs, object_info, self.keeps_folder)


def preload() -> None:
    """Import the modules whose values packs are given. An error in one is reported by the pack that uses it."""
    with suppress(ImportError, OSError):
        importlib.import_module("torch")


def load(
    folder: str,
    partner_nodes: bytes,
    selection: Sequence[str],
    folders: Sequence[str],
    announce: Callable[[str], None],
) -> Loaded:
    """Load what `TemplateService.load` asks for: packs from some folders, each announced before.

    A pack that cannot be loaded is reported and left out.
    """
    registry = own_nodes()
    partners = partners_in(partner_nodes)
    for definition in partners:
        registry.add(definition)
    own = frozenset(registry)
    # Without a folder named here: a pack that asks for one later, in a host, gets one below that host's own.
    packs = load_packs(registry, folders, None, tuple(selection), announce) if selection else ()
    is_left = any(Path(folder).iterdir())
    return Loaded(registry, frozenset(definition.name for definition in partners), packs, is_left, own)
