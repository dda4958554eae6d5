"""The links of a result: where they are in a partner's answer, and how one is replaced by ours (R-36).

An answer is the partner's own bytes. A link is replaced in place and every other byte stays as it was, so that the
caller's answer differs from the partner's in nothing else.
"""

import copy
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from fairlead.domain.catalog.models import Assets
from fairlead.domain.pointers import Pointer, find_all

_LINK: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)


def links_in(rules: Assets, answer: object) -> dict[Pointer, str]:
    """The links that a model's rules list, by their places; inline bytes are not links."""
    return {
        pointer: value
        for location in rules.at
        for pointer, value in find_all(answer, location)
        if isinstance(value, str) and _LINK.match(value)
    }


def exchange_links(content: bytes, answer: object, links: Mapping[Pointer, str]) -> bytes:
    """Replace links. `answer` is the decoded `content`.

    Where a place is not found in the bytes, which may be in another encoding, the document is encoded again.
    """
    places = _places(content, links.keys())
    if len(places) < len(links):
        return msgspec.json.encode(_replace(answer, links), enc_hook=str)  # the mark of a long text stands for it
    parts, done = [], 0
    for (start, end), pointer in sorted((place, pointer) for pointer, place in places.items()):
        parts += [content[done:start], msgspec.json.encode(links[pointer])]
        done = end
    return b"".join([*parts, content[done:]])


def _places(content: bytes, wanted: Collection[Pointer]) -> dict[Pointer, tuple[int, int]]:
    """Where the texts at some places begin and end in a JSON document, quotes included; the last of duplicates."""
    found: dict[Pointer, tuple[int, int]] = {}
    path: list[str] = []
    arrays: list[bool] = []
    at_key = False
    depths = {len(pointer) for pointer in wanted}
    for match in _TOKEN.finditer(content):
        token = match[0]
        if token in b"{[":
            arrays.append(token == b"[")
            path.append("0")
            at_key = not arrays[-1]
        elif token in b"}]":
            if not arrays:
                return {}
            arrays.pop()
            path.pop()
        elif token == b",":
            if not arrays:
                return {}
            at_key = not arrays[-1]
            path[-1] = str(int(path[-1]) + 1) if arrays[-1] else ""
        elif at_key:
            path[-1] = _text(token)
            at_key = False
        elif len(path) in depths and (pointer := tuple(path)) in wanted:
            found[pointer] = match.span()
    return found


def _text(token: bytes) -> str:
    try:
        return str(msgspec.json.decode(token, type=str))
    except msgspec.DecodeError:
        return ""


def _replace(answer: Any, links: Mapping[Pointer, str]) -> object:
    changed = copy.deepcopy(answer)
    for pointer, link in links.items():
        *parents, last = pointer
        owner = changed
        for part in parents:
            owner = owner[int(part)] if isinstance(owner, list) else owner[part]
        owner[int(last) if isinstance(owner, list) else last] = link
    return changed
