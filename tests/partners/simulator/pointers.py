"""Comparing an answer with what is expected of it, by dotted pointers such as `data.0.url`."""

from collections.abc import Mapping
from typing import Any

import httpx


def at(document: Any, pointer: str) -> Any:
    """Return what a pointer names, or None; the empty one names the whole."""
    for part in pointer.split(".") if pointer else ():
        if isinstance(document, list):
            document = document[int(part)] if int(part) < len(document) else None
        else:
            document = document.get(part) if isinstance(document, dict) else None
    return document


def agrees(answer: httpx.Response, expected: Mapping[str, Any]) -> None:
    """Compare an answer with expected facts; the empty pointer is the status."""
    document = answer.json()
    found = {pointer: at(document, pointer) if pointer else answer.status_code for pointer in expected}
    assert found == dict(expected), answer.text
