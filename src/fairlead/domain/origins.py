"""Origins of pages, as browsers name them: a scheme, a host, and a port where it is not the usual one."""

import re
from typing import Final

_MAX: Final = 100
_ORIGIN: Final = re.compile(r"https?://(?:[a-z0-9_.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?")


def read_origins(text: str) -> frozenset[str]:
    """Origins with commas between them; ValueError."""
    origins = frozenset(part.strip().lower().rstrip("/") for part in text.split(","))
    if len(origins) > _MAX or not all(_ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError(f"must be at most {_MAX} origins such as https://editor.example.com, without a path")
    return origins
