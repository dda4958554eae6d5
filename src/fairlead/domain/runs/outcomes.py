"""What an exchange with a partner ends in, whichever partner it was."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from fairlead.domain.faults import Fault


class Completed(msgspec.Struct, frozen=True):
    """A generation that completed: the bytes to forward untouched, and what pricing may read of them."""

    content: bytes
    content_type: str
    upstream_status: int
    answer: Any = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class Failed(msgspec.Struct, frozen=True):
    """No generation: the fault the caller is told, and the partner's HTTP status where it answered."""

    fault: Fault
    upstream_status: int | None = None


Outcome: TypeAlias = Completed | Failed
