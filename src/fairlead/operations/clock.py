"""Ids and times are made here, so that rules and storage get them as parameters."""

import functools
import time
from collections.abc import Callable
from datetime import date
from typing import Final

import msgspec
import uuid_utils

_DAY_NS: Final = 86_400 * 1_000_000_000
_DAY_0: Final = date(1970, 1, 1).toordinal()


def new_id() -> str:
    """A UUIDv7: it sorts by the time it was made, which keeps indexes local."""
    return str(uuid_utils.uuid7())


class Clock(msgspec.Struct, frozen=True):
    """The time of day. `now_ns` is nanoseconds since 1970; tests give their own."""

    now_ns: Callable[[], int] = time.time_ns

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.now_ns() // 1_000_000

    def today(self) -> date:
        """The date in UTC."""
        return _date_of(self.now_ns() // _DAY_NS)


@functools.lru_cache(maxsize=4)
def _date_of(number: int) -> date:
    """The date of a day counted from 1970; every run asks twice, and it is nearly always the same."""
    return date.fromordinal(_DAY_0 + number)
