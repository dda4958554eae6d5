"""What a node's result depends on, as one short digest: two nodes with the same signature have the same result.

A signature is made of the class, the node's fingerprint, its constants, and the signatures of what it links to. Ids do
not matter, and each node is visited once, so the time is linear in nodes and links.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from fairlead.engine.graph.graph import Link

Signature: TypeAlias = bytes
_DIGEST_BYTES: Final = 16


def signature(
    class_type: str,
    fingerprint: bytes,
    constants: Mapping[str, object],
    links: Mapping[str, Link],
    known: Mapping[str, Signature | None],
) -> Signature | None:
    """The signature of a node, given those of its sources.

    None when it equals no other, because one of its constants cannot be compared, or one of its sources has none.
    """
    digest = hashlib.blake2b(_text(class_type) + fingerprint, digest_size=_DIGEST_BYTES)
    for path in sorted(constants):
        encoded = encode(constants[path])
        if encoded is None:
            return None
        digest.update(_text(path) + encoded)
    for path in sorted(links):
        source = known.get(links[path].node)
        if source is None:
            return None
        digest.update(b"L" + _text(path) + source + _integer(links[path].slot))
    return digest.digest()


def encode(value: object) -> bytes | None:
    """A value as bytes that no other value has; None for one that equals nothing, as NaN, or cannot be compared."""
    parts: list[bytes] = []
    waiting: list[Iterator[object]] = [iter((value,))]
    while waiting:
        item = next(waiting[-1], waiting)
        if item is waiting:
            waiting.pop()
            continue
        part = _scalar(item)
        if part is not None:
            parts.append(part)
            continue
        inner = _inner(item)
        if inner is None or len(waiting) > _DEPTH_MAX:
            return None
        parts.append(inner[0])
        waiting.append(iter(inner[1]))
    return b"".join(parts)


_DEPTH_MAX: Final = 10_000
"""Deeper values may hold themselves."""


def _scalar(value: object) -> bytes | None:
    match value:
        case None | bool():
            return repr(value).encode()
        case int():
            return _integer(value)
        case float() if value == value:  # noqa: PLR0124 -- NaN is what does not equal itself
            return b"f" + value.hex().encode() + b";"
        case str():
            return _text(value)
        case bytes():
            return b"b%d:" % len(value) + value
        case _:
            return None


def _inner(value: object) -> tuple[bytes, Iterable[object]] | None:
    """The head of a container, with the number of its items, and the items."""
    match value:
        case list() | tuple():
            return b"[%d:" % len(value), value
        case dict() if all(isinstance(key, str) for key in value):
            return b"{%d:" % len(value), [part for key in sorted(value) for part in (key, value[key])]
        case _:
            return None


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return b"s%d:" % len(encoded) + encoded


def _integer(number: int) -> bytes:
    return b"i%x;" % number
