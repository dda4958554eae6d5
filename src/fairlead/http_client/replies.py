"""An answer as it came: status, headers, bytes."""

from collections.abc import Mapping

import msgspec


class Reply(msgspec.Struct, frozen=True):
    """An HTTP answer of a partner; its headers are asked for lower-case names."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is of HTTP's class of success."""
        return self.status // 100 == 2  # noqa: PLR2004 -- 2xx
