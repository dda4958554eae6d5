"""Pages: the limit that is applied, and the cut of a sorted list after a key."""

import bisect
from collections.abc import Sequence
from typing import Final

CATALOG_LIMIT_DEFAULT: Final = 20
CATALOG_LIMIT_MAX: Final = 100


def catalog_limit(asked: int | None) -> int:
    """Apply the catalog's page size (R-02, R-04): absent, 0 and negatives are the default, large ones are clamped."""
    if asked is None or asked <= 0:
        return CATALOG_LIMIT_DEFAULT
    return min(asked, CATALOG_LIMIT_MAX)


def page_after(keys: Sequence[str], after: str | None, limit: int) -> tuple[Sequence[str], bool]:
    """Cut one page out of sorted keys: those behind `after`, and whether more follow."""
    start = 0 if after is None else bisect.bisect_right(keys, after)
    return keys[start : start + limit], start + limit < len(keys)
