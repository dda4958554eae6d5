"""What the partner programs share: an address to listen on, one line when ready, and an orderly end."""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
import uvloop

SHUTDOWN_SECONDS = 2
_KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048


class _Server(uvicorn.Server):
    """A uvicorn server that says where it listens and leaves signals to `_serve`."""

    address: str = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Print the address once connections are accepted."""
        await super().startup(sockets)
        sys.stdout.write(f"listening on {self.address}\n")
        sys.stdout.flush()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: uvicorn would raise the signal again after stopping, and a clean exit is wanted."""
        yield


def parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the arguments every partner program takes."""
    made = argparse.ArgumentParser(prog=program, description=description)
    made.add_argument("--host", default="127.0.0.1", help="address to listen on")
    made.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    made.add_argument("--fd", type=int, help="an inherited listening socket, instead of host and port")
    made.add_argument("--exit-with-stdin", action="store_true", help="end when stdin reaches its end")
    return made


def run(app: object, arguments: argparse.Namespace, **options: object) -> None:
    """Serve an ASGI application until SIGTERM, SIGINT or, when asked, the end of stdin.

    `options` go to uvicorn's configuration.
    """
    listener = _listen(arguments)
    server = _Server(_config(app, options))
    server.address = _address(listener)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(server, listener, exit_with_stdin=arguments.exit_with_stdin))
    sys.stdout.flush()


async def _serve(server: _Server, listener: socket.socket, *, exit_with_stdin: bool) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.should_exit = True

    def abandon() -> None:
        server.force_exit = True
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if exit_with_stdin:
        # A thread, because the event loop cannot watch a stdin that is a regular file or /dev/null.
        threading.Thread(target=_await_stdin_end, args=(loop, abandon), daemon=True).start()
    await server.serve(sockets=[listener])


def _await_stdin_end(loop: asyncio.AbstractEventLoop, abandon: Callable[[], None]) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(abandon)
    # The parent is gone, so nothing else would end this process if the event loop were stuck.
    time.sleep(SHUTDOWN_SECONDS)
    os._exit(1)


def _config(app: Any, options: dict[str, object]) -> uvicorn.Config:
    defaults: dict[str, Any] = {
        "loop": "uvloop",
        "http": "httptools",
        "ws": "none",
        "lifespan": "off",
        "interface": "asgi3",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "backlog": _BACKLOG,
        "timeout_keep_alive": _KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": SHUTDOWN_SECONDS,
    }
    return uvicorn.Config(app, **{**defaults, **options})


def _listen(arguments: argparse.Namespace) -> socket.socket:
    if arguments.fd is not None:
        return socket.socket(fileno=arguments.fd)
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    return socket.create_server((arguments.host, arguments.port), family=family, backlog=_BACKLOG)


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
