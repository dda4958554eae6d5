"""A load balancer for tests, with the callers behind it."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import httpx

from servers import PLAIN, Server, wait_until

CALLERS: Final = 6
CALLS_BETWEEN: Final = 60
_PAUSE_SECONDS: Final = 0.02
"""Between two calls of a caller: some are always under way, and most of the processor is left to other tests."""


class Balancer:
    """Sends calls round-robin to the servers that say that they are ready, on connections it keeps; repeats none.

    Each of `kinds` makes one call and returns its status; several callers make calls of each kind at the same time.
    """

    def __init__(self, *kinds: Callable[[httpx.Client], int]) -> None:
        self._kinds = kinds
        self.answers: list[int | str] = []
        self._clients: dict[str, httpx.Client] = {}
        self._ready: list[str] = []
        self._turns = itertools.count()
        self._is_over = threading.Event()

    def add(self, server: Server) -> None:
        """Know a server, which gets calls when it is ready."""
        limits = httpx.Limits(max_keepalive_connections=CALLERS)
        headers = {"X-API-Key": server.key}
        self._clients[server.url] = httpx.Client(
            base_url=server.url, headers=headers, timeout=60, verify=PLAIN, limits=limits
        )

    def wait_until_noticed(self, server: Server) -> None:
        """Wait until a server gets no more calls."""
        wait_until(lambda: server.url not in self._ready, "the balancer to notice")

    def wait_for_calls(self) -> None:
        """Wait until every caller has made several more calls."""
        made = len(self.answers)
        wait_until(lambda: len(self.answers) >= made + CALLS_BETWEEN, "calls of all servers")

    @contextmanager
    def balancing(self) -> Iterator[None]:
        """Look after the servers and make calls."""
        callers = [threading.Thread(target=self._call, args=[kind]) for kind in self._kinds * CALLERS]
        threads = [threading.Thread(target=self._look), *callers]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join(60)
            for client in self._clients.values():
                client.close()

    def _look(self) -> None:
        while not self._is_over.wait(0.1):
            self._ready = [url for url in list(self._clients) if is_ready(url)]

    def _call(self, kind: Callable[[httpx.Client], int]) -> None:
        while not self._is_over.wait(_PAUSE_SECONDS):
            if not (ready := self._ready):
                continue
            url = ready[next(self._turns) % len(ready)]
            try:
                self.answers.append(kind(self._clients[url]))
            except httpx.HTTPError as error:
                self.answers.append(repr(error))


def is_ready(url: str) -> bool:
    """Whether a server says that it takes calls."""
    try:
        return httpx.get(f"{url}/readyz", timeout=60, verify=PLAIN).status_code == 200
    except httpx.HTTPError:
        return False
