"""The log of received calls: what a test asks to learn what was sent. Keys leave only the start of their hash."""

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Mapping

CALLS_MAX = 2000
BODY_BYTES_MAX = 16 * 1024

_SECRET = re.compile(r"auth|key|token|secret|cookie|credential|signature", re.IGNORECASE)
_NOT_SECRET = frozenset({"idempotency-key"})


class Calls:
    """The last calls, oldest first."""

    def __init__(self) -> None:
        """Begin with none."""
        self._calls: deque[dict[str, object]] = deque(maxlen=CALLS_MAX)

    def note(
        self,
        provider: str,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
        faults: Iterable[str],
    ) -> dict[str, object]:
        """Remember a call and return its entry, to which the status is added later."""
        entry = {
            "provider": provider,
            "method": method,
            "path": path,
            "query": _redact(query),
            "headers": _redact(headers),
            "body_bytes": len(body),
            "json": _small_json(body),
            "faults": sorted(faults),
            "status": None,
        }
        self._calls.append(entry)
        return entry

    def documents(self, provider: str | None) -> list[dict[str, object]]:
        """Return the calls of one provider, or of all."""
        return [call for call in self._calls if provider in (None, call["provider"])]

    def clear(self, provider: str | None) -> None:
        """Forget the calls of one provider, or all."""
        kept = [] if provider is None else [call for call in self._calls if call["provider"] != provider]
        self._calls = deque(kept, maxlen=CALLS_MAX)


def _redact(pairs: Mapping[str, str]) -> dict[str, str]:
    return {name: _hash(value) if _is_secret(name) else value for name, value in pairs.items()}


def _is_secret(name: str) -> bool:
    return name not in _NOT_SECRET and _SECRET.search(name) is not None


def _hash(value: str) -> str:
    return "sha256:" + hashlib.sha256(value.encode()).hexdigest()[:12]


def _small_json(body: bytes) -> object:
    if not body or len(body) > BODY_BYTES_MAX:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
