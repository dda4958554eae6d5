"""What one caller's request does to another's: hostile documents, one at a time, and how late the server is meanwhile.

A second workspace asks `/healthz` and makes small runs, one after another, from a process of its own. Beside its waits
stand the delays of the event loop that the server measures itself. `--help` shows the options.
"""

import argparse
import http.client
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import catalog, measuring
from bench.measuring import Gateway

_MIB: Final = 2**20
_CLAIMED_SECONDS: Final = 0.05
_RUN: Final = f"/v2/models/{catalog.MODEL}"
_PROMPT: Final = "/api/prompt"
_JOBS: Final = "/api/v2/jobs"
_UPLOAD: Final = "/api/upload/image"


def fill(unit: bytes, size: int, start: bytes, end: bytes) -> bytes:
    """A document of about so many bytes: a unit, again and again."""
    return start + unit * (size // len(unit)) + end


def attacks(size: int) -> Iterator[tuple[str, str, bytes]]:
    """What is sent: a name, a path, and a body of about `size` bytes."""
    objects = fill(b"{},", size, b'{"prompt":[', b"{}]}")
    for path in (_RUN, f"{_RUN}/estimate", f"{_RUN}/requests", _PROMPT, _JOBS):
        yield f"[{{}},…] to {path}", path, objects
    yield "deep nesting", _RUN, fill(b"[", size, b'{"prompt":', b"")
    yield "many names", _RUN, b"{" + b",".join(b'"k%d":1' % n for n in range(size // 12)) + b"}"
    yield "floats", _RUN, fill(b"1.5e10,", size, b'{"tags":[', b"1]}")
    yield "long integers", _RUN, fill(b"9" * 3000 + b",", size, b'{"tags":[', b"1]}")
    yield "long names", _RUN, b"{" + b",".join(b'"%b%d":1' % (b"k" * 3000, n) for n in range(size // 3010)) + b"}"
    for name, unit in (("plain", b"QUJD"), ("escaped", b"\\n"), ("not ASCII", "é😀".encode()), ("commas", b",{[")):
        yield f"a text, {name}", _RUN, fill(unit, size, b'{"prompt":"ok","image":"data:image/png;base64,', b'"}')
        yield f"a text to {_PROMPT}, {name}", _PROMPT, fill(unit, size, b'{"prompt":{"1":{"class_type":"', b'"}}}')
    yield "spaces", _RUN, fill(b" ", size, b'{"prompt":"a",', b'"width":"x"}')
    fields = b"".join(b'--b\r\nContent-Disposition: form-data; name="f%d"\r\n\r\nx\r\n' % n for n in range(size // 60))
    yield "a form of many fields", _UPLOAD, fields + b"--b--\r\n"


def ask(port: int, key: str, path: str, body: bytes | None, timeout: float = 120) -> int:
    """Ask once, on a connection of its own; the status, 0 for a connection that broke off."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    kind = "multipart/form-data; boundary=b" if path == _UPLOAD else "application/json"
    try:
        connection.request("GET" if body is None else "POST", path, body, {"X-API-Key": key, "Content-Type": kind})
        response = connection.getresponse()
        response.read()
    except OSError:
        return 0
    else:
        return response.status
    finally:
        connection.close()


def observe(port: int, key: str, stop: Event, told: Any) -> None:
    """Ask as another caller until told to stop: the waits for a health check and for a run, in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = catalog.compact(catalog.BODY).encode()
    waits: dict[str, list[float]] = {"health": [], "run": []}
    while not stop.is_set():
        for name, path, content in (("health", "/healthz", None), ("run", _RUN, body)):
            began = time.perf_counter()
            headers = {"X-API-Key": key, "Content-Type": "application/json"}
            connection.request("GET" if content is None else "POST", path, content, headers)
            response = connection.getresponse()
            response.read()
            waits[name].append(time.perf_counter() - began if response.status == 200 else 120.0)
        time.sleep(0.002)
    told.send(waits)


def lags(port: int) -> dict[float, float]:
    """How often the event loop was at most so late, by the upper bound in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    start = 'fairlead_event_loop_lag_seconds_bucket{le="'
    found = (line.removeprefix(start).split('"} ') for line in lines if line.startswith(start))
    return {float(bound): float(count) for bound, count in found}


def measure(port: int, key: str, attack: Callable[[], object]) -> tuple[dict[str, list[float]], dict[float, float]]:
    """What another caller waits while something is done, and how often the event loop was how late."""
    stop, (ours, theirs) = multiprocessing.Event(), multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=observe, args=(port, key, stop, theirs))
    process.start()
    time.sleep(0.5)
    before = lags(port)
    attack()
    after = lags(port)
    stop.set()
    waits = ours.recv()
    process.join()
    return waits, {bound: after[bound] - before[bound] for bound in after}


def describe(waits: dict[str, list[float]], late: dict[float, float]) -> list[str]:
    """A row of figures in milliseconds: p50, p99 and the longest wait of each kind, and what the event loop says."""
    cells = []
    for found in waits.values():
        ordered = sorted(found)
        figures = (statistics.median(ordered), ordered[int(len(ordered) * 0.99)], ordered[-1])
        cells.append(" / ".join(f"{figure * 1000:.0f}" for figure in figures))
    total = late[float("inf")]
    worst = next((bound for bound, count in late.items() if count >= total), 0.0)
    return [*cells, f"{total - late[_CLAIMED_SECONDS]:.0f} of {total:.0f}, all within {worst * 1000:.0f}"]


@contextmanager
def crowded_server(folder: Path) -> Iterator[Gateway]:
    """A server with the engine, and a partner of its own."""
    log = folder / "partner.log"
    partner = [sys.executable, str(Path(__file__).with_name("slow_partner.py")), "0"]
    with measuring.program(partner, log) as running:
        models = catalog.write_catalog(folder / "catalog", int(measuring.first_line(running, log)))
        settings = {"FAIRLEAD_REQUESTS_PER_MINUTE": "0", "FAIRLEAD_REQUESTS_PER_DAY": "0"}
        with measuring.gateway(
            folder / "data", "--catalog", models, "--no-local-partner", settings=settings
        ) as gateway:
            measuring.lift_limits(gateway.data)
            yield gateway


def main() -> None:
    """Make each attack some times, and print what another caller notices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=float, nargs="*", default=[5.0, 60.0], help="of the bodies, in MiB")
    parser.add_argument("--times", type=int, default=5, help="how often each is sent (default 5)")
    parser.add_argument("--only", default="", help="what the name of an attack must hold")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, crowded_server(Path(name)) as gateway:
        made = measuring.fairlead("keys", "create", "default", "--json", "--data", gateway.data)
        key = json.loads(subprocess.run(made, check=True, capture_output=True, text=True).stdout)["key"]
        print("| attack | MiB | answers | health, ms (p50 / p99 / longest) | run, ms | loop over 50 ms |")
        print("|---|---|---|---|---|---|")
        row = describe(*measure(gateway.port, key, lambda: time.sleep(3)))
        print(f"| none | | | {' | '.join(row)} |", flush=True)
        for size in chosen.sizes:
            for name_, path, body in attacks(int(size * _MIB)):
                if chosen.only not in name_:
                    continue
                statuses: list[int] = []

                def attack(path: str = path, body: bytes = body, statuses: list[int] = statuses) -> None:
                    statuses.extend(ask(gateway.port, gateway.key, path, body) for _ in range(chosen.times))

                row = describe(*measure(gateway.port, key, attack))
                answers = ", ".join(map(str, sorted(set(statuses))))
                print(f"| {name_} | {size:g} | {answers} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
