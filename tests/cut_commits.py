"""What stands between a server and its PostgreSQL, and breaks a connection under the COMMIT of one transaction."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_COMMIT: Final = b"Q\x00\x00\x00\x0bCOMMIT\x00"
_PIECE: Final = 65536


class CommitCutter:
    """Passes connections on. The first transaction that sends `marker` loses its connection under its COMMIT.

    That is passed on, and only its answer is lost, where it `is_written`.
    """

    def __init__(self, port: int, marker: bytes, *, is_written: bool) -> None:
        self._target = port
        self._marker = marker
        self._is_written = is_written
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are there end with their server."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                is_cut = threading.Event()
                for ends in ((self._pass_on, client, server, is_cut), (_pass_back, server, client, is_cut)):
                    threading.Thread(target=ends[0], args=ends[1:], daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket, is_cut: threading.Event) -> None:
        is_marked = False
        with suppress(OSError), client, server:
            while content := client.recv(_PIECE):
                is_marked = is_marked or (not self.cuts and self._marker in content)
                if is_marked and _COMMIT in content:
                    self.cuts += 1
                    is_cut.set()
                    if self._is_written:
                        server.sendall(content)
                        server.shutdown(socket.SHUT_WR)
                        server.recv(_PIECE)  # its answer, or its end: it is written by then
                    return
                server.sendall(content)


def _pass_back(server: socket.socket, client: socket.socket, is_cut: threading.Event) -> None:
    with suppress(OSError):
        while (content := server.recv(_PIECE)) and not is_cut.is_set():
            client.sendall(content)
        client.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting(port: int, marker: bytes, *, is_written: bool) -> Iterator[CommitCutter]:
    """Stand between a server and the PostgreSQL at a port."""
    cutter = CommitCutter(port, marker, is_written=is_written)
    try:
        yield cutter
    finally:
        cutter.close()
