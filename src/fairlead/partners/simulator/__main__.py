"""Run the simulator: `python -m fairlead.partners.simulator --port 0`."""

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

import uvicorn
import uvloop
from starlette.applications import Starlette

from .app import build

SHUTDOWN_SECONDS = 2
KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048
CONNECTIONS_MAX = 20_000
TASK_SECONDS = 0.3


class Server(uvicorn.Server):
    """A uvicorn server that says where it listens and leaves signals to `serve`."""

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


def main() -> None:
    """Parse the arguments and serve until told to stop."""
    arguments = _arguments()
    listener = _listen(arguments)
    app = build(task_seconds=arguments.task_seconds)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(app, listener, exit_with_stdin=arguments.exit_with_stdin))
    sys.stdout.flush()


async def serve(app: Starlette, listener: socket.socket, *, exit_with_stdin: bool) -> None:
    """Serve on a bound socket until SIGTERM, SIGINT or, when asked, the end of stdin."""
    server = Server(_config(app))
    server.address = _address(listener)
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


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        interface="asgi3",
        # Half an answer is an error to uvicorn; here it is a fault somebody asked for.
        log_level="critical",
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fairlead.partners.simulator", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    parser.add_argument("--fd", type=int, help="an inherited listening socket, instead of host and port")
    parser.add_argument("--task-seconds", type=float, default=TASK_SECONDS, help="how long a submitted task takes")
    parser.add_argument("--exit-with-stdin", action="store_true", help="end when stdin reaches its end")
    return parser.parse_args()


def _listen(arguments: argparse.Namespace) -> socket.socket:
    if arguments.fd is not None:
        return socket.socket(fileno=arguments.fd)
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    return socket.create_server((arguments.host, arguments.port), family=family, backlog=BACKLOG)


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


if __name__ == "__main__":
    main()
