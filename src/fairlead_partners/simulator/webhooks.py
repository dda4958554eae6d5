"""Webhooks: a completion is posted to the address the caller gave, on this machine's own network only."""

import asyncio
import ipaddress
import json
import logging
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from .tasks import Clock, Task

WAITING_MAX = 1000
POST_SECONDS = 10.0
ANSWER_BYTES_MAX = 64 * 1024

log = logging.getLogger("simulator")


class Webhooks:
    """The posts that wait for their task to end, bounded in number."""

    def __init__(self, clock: Clock) -> None:
        """Begin with none."""
        self._clock = clock
        self._waiting: set[asyncio.Task[None]] = set()

    def post_at_end(self, task: Task, address: str, body: Callable[[], object]) -> None:
        """Post `body()` once the task ended, twice when it has the fault `duplicate-webhook`."""
        if not is_near(address) or len(self._waiting) >= WAITING_MAX:
            return
        waiting = asyncio.get_running_loop().create_task(self._post(task, address, body))
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)

    async def close(self) -> None:
        """Forget the posts that wait."""
        for waiting in tuple(self._waiting):
            waiting.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _post(self, task: Task, address: str, body: Callable[[], object]) -> None:
        await asyncio.sleep(self._clock.task_seconds + 0.01)
        if task.stage != "ended":
            return
        content = json.dumps(body()).encode()
        for _ in range(2 if task.has("duplicate-webhook") else 1):
            try:
                await asyncio.to_thread(_send, address, content)
            except (HTTPException, OSError) as error:
                log.warning("webhook of %s task: %s", task.vendor, type(error).__name__)


def _send(address: str, content: bytes) -> None:
    """Post once; where the answer leads is not followed."""
    parts = urlsplit(address)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=POST_SECONDS)
    try:
        path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        connection.request("POST", path, content, {"Content-Type": "application/json"})
        connection.getresponse().read(ANSWER_BYTES_MAX)
    finally:
        connection.close()


def is_near(address: str) -> bool:
    """Tell whether an address is on this machine or a private network; a name other than localhost never is."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https"):
            return False
        if host == "localhost":
            return True
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return found.is_loopback or (found.is_private and not found.is_link_local and not found.is_unspecified)
