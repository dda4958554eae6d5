"""What classes say of the world outside the graph, such as the bytes of a file: part of their nodes' signatures."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from fairlead.engine.graph.live import LiveNode
from fairlead.engine.graph.signatures import encode
from fairlead.engine.nodes.interface import accepted
from fairlead.engine.nodes.node_context import current


def fingerprints(nodes: Iterable[LiveNode], context_of: Callable[[LiveNode], object]) -> dict[str, bytes | None]:
    """The fingerprint of each node whose class makes one, given its constants; links are None to it.

    It is None, which equals nothing, where the class fails to make it or gives NaN. Meant for a thread.
    """
    return {node.id: _fingerprint(node, context_of(node)) for node in nodes}


def _fingerprint(node: LiveNode, context: Any) -> bytes | None:
    context.check()
    make = node.interface.definition.fingerprint
    if make is None:
        return b""
    values = {**dict.fromkeys(node.links), **node.constants}
    if node.interface.definition.is_input_list:
        values = {path: [value] for path, value in values.items()}
    arguments = accepted(make, node.interface.nested(values, node.expected), context)
    try:
        with current(context):
            made = make(**arguments)
            return encode(asyncio.run(_awaited(made)) if inspect.isawaitable(made) else made)
    except (Exception, SystemExit):  # noqa: BLE001 -- a class that cannot say what it depends on depends on everything
        return None


async def _awaited(value: Awaitable[object]) -> object:
    return await value
