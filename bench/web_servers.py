"""What a call costs in each web server we could have: processor time a request, of the server and all it has started.

Each serves one application, which reads a body of JSON and answers with one as our run route does: `ours` by its own
extension for whole bodies, the others as ASGI 3 or RSGI has it. They take turns under the same load. hypercorn and
granian are not dependencies of ours; those that are not installed are left out.
"""

import argparse
import asyncio
import contextlib
import importlib
import importlib.util
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measuring
from bench.measuring import CannotMeasureError

from fairlead.api.http.asgi import WHOLE

ANSWER: Final = b'{"data":"' + b"x" * 180 + b'"}'
_HEADERS: Final = [
    (b"content-type", b"application/json"),
    (b"content-length", b"%d" % len(ANSWER)),
    *((b"x-service-%d" % number, b"0123456789abcdef") for number in range(6)),
]
_TEXTS: Final = [(name.decode(), value.decode()) for name, value in _HEADERS]
_NEEDS: Final = {
    "ours": None,
    "uvicorn": None,
    "hypercorn": "hypercorn",
    "granian-asgi": "granian",
    "granian-rsgi": "granian",
}
_SCRIPT: Final = """
wrk.method = "POST"
wrk.body = '{"prompt":"' .. string.rep("y", 280) .. '"}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["X-API-Key"] = "flk_0123456789abcdef0123456789abcdef"
"""


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Take a body, as ASGI has it, and answer."""
    if scope["type"] != "http":
        raise ValueError(scope["type"])
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


async def whole(scope: Any, receive: Any, send: Any) -> None:
    """The same by our extension, where the body has come whole."""
    exchange = scope[WHOLE]
    if exchange.take_whole() is None or not exchange.answer_whole(200, _HEADERS, ANSWER):
        await application(scope, receive, send)


async def rsgi(_scope: Any, protocol: Any) -> None:
    """The same as RSGI has it."""
    await protocol()
    protocol.response_bytes(200, _TEXTS, ANSWER)


def serve(name: str, port: int) -> None:
    """Be one of the servers, in a process of its own."""
    serving: dict[str, Callable[[int], None]] = {
        "ours": _ours,
        "uvicorn": _uvicorn,
        "hypercorn": _hypercorn,
        "granian-asgi": lambda port: _granian(port, "application", "asginl"),
        "granian-rsgi": lambda port: _granian(port, "rsgi", "rsgi"),
    }
    serving[name](port)


def _ours(port: int) -> None:
    import uvicorn  # noqa: PLC0415 -- each process imports the server that it is
    import uvloop  # noqa: PLC0415 -- same

    from fairlead.server.web_server import WebServer  # noqa: PLC0415 -- same

    config = uvicorn.Config(
        whole, port=port, loop="none", lifespan="off", interface="asgi3", log_level="warning", access_log=False
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(WebServer(config, 30.0).serve())


def _uvicorn(port: int) -> None:
    import uvicorn  # noqa: PLC0415 -- same

    uvicorn.run(application, port=port, loop="uvloop", http="httptools", lifespan="off", log_level="warning")


def _hypercorn(port: int) -> None:
    import uvloop  # noqa: PLC0415 -- same

    config = importlib.import_module("hypercorn.config").Config()
    config.bind = [f"127.0.0.1:{port}"]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(importlib.import_module("hypercorn.asyncio").serve(application, config))


def _granian(port: int, target: str, interface: str) -> None:
    options = {"--interface": interface, "--port": port, "--loop": "uvloop", "--working-dir": Path(__file__).parents[1]}
    words = [str(word) for pair in options.items() for word in pair]
    command = [sys.executable, "-m", "granian", f"bench.web_servers:{target}", "--no-ws", *words]
    os.execv(sys.executable, command)  # noqa: S606 -- it ends with the bench, where a child of this would be left


def _measure(name: str, folder: Path, connections: int, seconds: int) -> tuple[float, float]:
    """The microseconds of processor that a request costs, and the requests a second."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
    script = folder / "post.lua"
    script.write_text(_SCRIPT, "utf-8")
    with measuring.program([sys.executable, __file__, "--serve", name, "--port", str(port)], folder / "log") as process:
        give_up_at = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if time.monotonic() > give_up_at or process.poll() is not None:
                raise CannotMeasureError(f"{name} did not start: {(folder / 'log').read_text('utf-8')[-1000:]}")
            time.sleep(0.05)
        _load(port, script, connections, 1)
        before = measuring.cpu_seconds(process.pid)
        answered, rate = _load(port, script, connections, seconds)
        return (measuring.cpu_seconds(process.pid) - before) * 1e6 / answered, rate


def _load(port: int, script: Path, connections: int, seconds: int) -> tuple[int, float]:
    command = [measuring.path_of("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script),
               f"http://127.0.0.1:{port}/v2/models/a/b?model_provider=default"]  # fmt: skip
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counted = re.search(r"(\d+) requests in", output)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if counted is None or rate is None or "Non-2xx" in output or "Socket errors" in output:
        raise CannotMeasureError(output)
    return int(counted[1]), float(rate[1])


def _compare(options: argparse.Namespace, stack: ExitStack) -> bool:
    measuring.require_programs({"wrk": "wrk"})
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    names = [name for name, module in _NEEDS.items() if module is None or importlib.util.find_spec(module)]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            measuring.tell(name)
            found[name].append(_measure(name, folder, options.connections, options.seconds))
    rows: list[Sequence[str]] = [("server", "processor us/request", "requests/s")]
    for name, values in found.items():
        rows.append(
            (name, f"{statistics.median(v[0] for v in values):.0f}", f"{statistics.median(v[1] for v in values):,.0f}")
        )
    print(f"{measuring.machine()}; {options.connections} connections, {options.rounds} rounds of {options.seconds} s\n")
    print(measuring.table(rows))
    return True


def main() -> int:
    """Compare the servers, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.port)
        return 0
    return measuring.run_script(lambda stack: _compare(options, stack), check=False)


if __name__ == "__main__":
    sys.exit(main())
