"""What a host knows before it takes work: the engine's own nodes, those of partners' models, and those of packs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairlead.engine.families import own_nodes
from fairlead.engine.hosts.protocol import Order, PackReport
from fairlead.engine.packs.loader import load_packs
from fairlead.engine.partner_nodes import partner_nodes
from fairlead.engine.registry import Registry


@dataclass(frozen=True, slots=True)
class Loaded:
    """The classes of nodes there are, the names of those that are partners' models, and how packs fared."""

    registry: Registry
    partner_nodes: frozenset[str]
    packs: Sequence[PackReport]


def load(order: Order, announce: Callable[[str], None]) -> Loaded:
    """Load everything an order names, each pack announced before. One that cannot be is reported and left out."""
    registry = own_nodes()
    partners = partner_nodes(order.partner_nodes)
    for definition in partners:
        registry.add(definition)
    packs = load_packs(registry, order.packs, order.scratch, order.selection, announce)
    return Loaded(registry, frozenset(definition.name for definition in partners), packs)
