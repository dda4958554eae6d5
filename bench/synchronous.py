"""What a durable synchronous run costs, beside nginx that only passes the same call on.

Three targets take turns under the same load (wrk, from one core): nginx that answers by itself, a second nginx that
passes the call on to the first, and Fairlead with that first nginx as its partner. The two that pass calls on have a
core to themselves. Fairlead is called with an idempotency key of its own for every call, and without keys. `--help`
shows the options; docs/benchmarks.md says how to read the figures.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import catalog, measuring
from bench.measuring import MIB, CannotMeasureError, Claim, Cores, Gateway

_CONNECTIONS: Final = (1, 32, 256)
_CLAIMED_AT: Final = 32
_CLAIMED_MICROSECONDS: Final = 150.0
_CLAIMED_READY_SECONDS: Final = 1.0
_CLAIMED_IDLE_MB: Final = 95.0
_IDLE_SECONDS: Final = 3.0
_SETTLE_SECONDS: Final = 0.3
_DISTURBED: Final = 1.15
"""A turn was disturbed where the yardstick beside it took more than so many times its fastest."""
_ROUNDS_AGAIN: Final = 2
"""For how many times the rounds asked for disturbed turns are measured again, at most."""
_NGINX_START_SECONDS: Final = 10.0
_DIRECT: Final = "nginx, direct"
_PROXY: Final = "nginx, proxy_pass"
_KEYED: Final = "Fairlead, with a key"
_KEYLESS: Final = "Fairlead, without"

_NGINX: Final = """\
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
{user}
events {{ worker_connections 4096; }}
http {{
  access_log off;
  default_type application/json;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  {upstream}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ {answer} }}
  }}
}}
"""
_UPSTREAM: Final = "upstream partner {{ server 127.0.0.1:{port}; keepalive 512; keepalive_requests 1000000000; }}"
_FORWARD: Final = 'proxy_pass http://partner; proxy_http_version 1.1; proxy_set_header Connection "";'

_LUA: Final = """\
local headers = {{["Content-Type"] = "application/json", ["X-API-Key"] = "{key}"}}
local body, turn, number = [[{body}]], "", 0
init = function(arguments) turn = arguments[1] end
request = function()
  number = number + 1
  {every_call}
  return wrk.format("POST", nil, headers, body)
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\\nRESULT {{"requests":%d,"microseconds":%d,"p50":%d,"p99":%d,"status":%d,"broken":%d}}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.status, e.connect + e.read + e.write + e.timeout))
end
"""
_WITH_A_KEY: Final = 'headers["Idempotency-Key"] = turn .. "-" .. number'


@dataclass(frozen=True, slots=True)
class Target:
    """Something that answers the call: where it is, and the process its cost is read from."""

    name: str
    pid: int
    url: str
    script: Path


@dataclass(frozen=True, slots=True)
class Measurement:
    """One target under one load for a few seconds."""

    target: str
    connections: int
    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    failures: int
    cpu_microseconds: float
    rss_mib: float
    yardstick_ms: float


@dataclass(frozen=True, slots=True)
class Row:
    """The medians of a target at a number of connections; `undisturbed` is its cost at the run's fastest core speed."""

    target: str
    connections: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_microseconds: float
    undisturbed: float
    rss_mib: float


@dataclass(frozen=True, slots=True)
class Start:
    """How a server with the built-in partner starts, and what it holds while it does nothing."""

    cold_seconds: float
    warm_seconds: float
    idle_rss: int
    idle_pss: int | None


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round of two seconds")
    parser.add_argument("--rounds", type=int, default=3, help="how often the targets take turns (default 3)")
    parser.add_argument("--seconds", type=int, default=4, help="how long each turn lasts (default 4)")
    parser.add_argument("--cores", metavar="LOAD,TARGET", help="which cores to use (default: the first two)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file as well")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where the data goes (default: the temporary folder)"
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 2
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    measuring.require_programs({"nginx": "nginx-light", "wrk": "wrk"})
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-", dir=options.folder)))
    cores = measuring.choose_cores(options.cores)
    print(f"{measuring.machine()}; data on {measuring.file_system_of(folder)}")
    print(f"load on core {cores.load}, proxy and gateway on core {cores.target}", flush=True)
    start = _measure_start(folder, options.rounds)
    targets, server = _open_targets(stack, folder, cores)
    measured = list(_take_turns(targets, cores, options.rounds, options.seconds))
    rows = _medians(measured, options.rounds)
    server.stop()
    books = measuring.audit(server.data)
    _print_rows(rows)
    _print_speed(measured)
    _print_start(start)
    if options.json is not None:
        _write_figures(options.json, rows, start)
    return measuring.print_claims([*_cost_claims(rows), *_start_claims(start), *_sound_claims(measured, books)])


def _open_targets(stack: ExitStack, folder: Path, cores: Cores) -> tuple[list[Target], Gateway]:
    """Start what is called: two nginx, and a gateway that is called in two ways."""
    answer = f"return 200 '{catalog.compact(catalog.ANSWER)}';"
    direct_pid, direct_port = stack.enter_context(_nginx(folder / "direct", answer, core=cores.load))
    upstream = _UPSTREAM.format(port=direct_port)
    proxy_pid, proxy_port = stack.enter_context(
        _nginx(folder / "passing", _FORWARD, upstream=upstream, core=cores.target)
    )
    files = catalog.write_catalog(folder / "catalog", direct_port)
    server = stack.enter_context(
        measuring.gateway(folder / "data", "--no-local-partner", "--catalog", files, core=cores.target)
    )
    measuring.lift_limits(server.data)
    keyed = _script(folder / "keyed.lua", server.key, _WITH_A_KEY)
    keyless = _script(folder / "keyless.lua", server.key)
    targets = [
        Target(_DIRECT, direct_pid, _address(direct_port), keyed),
        Target(_PROXY, proxy_pid, _address(proxy_port), keyed),
        Target(_KEYED, server.pid, _address(server.port), keyed),
        Target(_KEYLESS, server.pid, _address(server.port), keyless),
    ]
    return targets, server


def _script(file: Path, key: str, every_call: str = "") -> Path:
    """What wrk is told to send."""
    body = catalog.compact(catalog.BODY)
    file.write_text(_LUA.format(body=body, key=key, every_call=every_call), "utf-8")
    return file


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}/v2/models/{catalog.MODEL}"


@contextmanager
def _nginx(folder: Path, answer: str, *, core: int, upstream: str = "") -> Iterator[tuple[int, int]]:
    """Run an nginx with one worker; its process id and its port."""
    folder.mkdir()
    port = _free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    settings = folder / "nginx.conf"
    settings.write_text(_NGINX.format(folder=folder, user=user, upstream=upstream, port=port, answer=answer), "utf-8")
    log = folder / "error.log"
    command: list[str | Path] = [measuring.path_of("nginx"), "-p", folder, "-e", log, "-c", settings]
    with measuring.program(command, log, core) as process:
        _wait_for(port, log)
        yield process.pid, port


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_for(port: int, log: Path) -> None:
    deadline = time.monotonic() + _NGINX_START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise CannotMeasureError(f"nginx did not start: {log.read_text('utf-8')[-1000:]}")


def _take_turns(targets: list[Target], cores: Cores, rounds: int, seconds: int) -> Iterator[Measurement]:
    """Every target at every number of connections, round by round, so that noise meets all of them alike.

    What was measured while the machine was disturbed is measured again, for at most twice as many rounds more. Whether
    it was, the yardstick says, and never the figure itself.
    """
    for target in targets:
        yield _load(target, _CLAIMED_AT, 1, cores, label=0)
    taken: dict[tuple[int, Target], list[float]] = {
        (connections, target): [] for connections in _CONNECTIONS for target in targets
    }
    for turn in range(rounds * (1 + _ROUNDS_AGAIN)):
        fastest = min((one for some in taken.values() for one in some), default=0.0)
        wanted = [key for key, some in taken.items() if turn < rounds or _calm(some, fastest) < rounds]
        for connections, target in wanted:
            measuring.tell(f"round {turn + 1}: {connections:>3} connections, {target.name}")
            measured = _load(target, connections, seconds, cores, label=connections)
            taken[connections, target].append(measured.yardstick_ms)
            yield measured
    measuring.tell("")


def _calm(yardsticks: Iterable[float], fastest: float) -> int:
    """How many turns were not disturbed."""
    return sum(1 for one in yardsticks if one <= fastest * _DISTURBED)


def _load(target: Target, connections: int, seconds: int, cores: Cores, *, label: int) -> Measurement:
    """Put a load on a target and read what it cost; `label` 0 marks a warm-up, which no median counts."""
    command = [measuring.path_of("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s"]
    yardstick = measuring.yardstick_seconds(cores.target)
    before = measuring.cpu_seconds(target.pid)
    with measuring.pin_to(cores.load):
        done = subprocess.run(
            [*command, "-s", str(target.script), target.url, "--", str(time.time_ns())],
            capture_output=True,
            text=True,
            check=True,
        )
    time.sleep(_SETTLE_SECONDS)  # what was under way when the load stopped ends, and is paid for
    used = measuring.cpu_seconds(target.pid) - before
    yardstick = (yardstick + measuring.yardstick_seconds(cores.target)) / 2
    result = _result(done.stdout)
    return Measurement(
        target=target.name,
        connections=label,
        requests=result["requests"],
        seconds=result["microseconds"] / 1e6,
        p50_ms=result["p50"] / 1e3,
        p99_ms=result["p99"] / 1e3,
        failures=result["status"] + result["broken"],
        cpu_microseconds=used / max(1, result["requests"]) * 1e6,
        rss_mib=measuring.rss_bytes(target.pid) / MIB,
        yardstick_ms=yardstick * 1e3,
    )


def _result(output: str) -> dict[str, int]:
    line = next((line for line in output.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise CannotMeasureError(f"wrk measured nothing: {output[-1000:]}")
    found: dict[str, int] = json.loads(line.removeprefix("RESULT "))
    return found


def _medians(measured: list[Measurement], rounds: int) -> list[Row]:
    """A row for each target and number of connections, of the turns in which the machine was disturbed least."""
    groups: dict[tuple[int, str], list[Measurement]] = {}
    fastest = min(one.yardstick_ms for one in measured if one.connections)
    for one in measured:
        if one.connections:
            groups.setdefault((one.connections, one.target), []).append(one)
    calmest = {key: sorted(group, key=lambda one: one.yardstick_ms)[:rounds] for key, group in groups.items()}
    return [
        Row(
            target=target,
            connections=connections,
            per_second=_median(group, lambda one: one.requests / one.seconds),
            p50_ms=_median(group, lambda one: one.p50_ms),
            p99_ms=_median(group, lambda one: one.p99_ms),
            cpu_microseconds=_median(group, lambda one: one.cpu_microseconds),
            undisturbed=_median(group, lambda one: one.cpu_microseconds * fastest / one.yardstick_ms),
            rss_mib=_median(group, lambda one: one.rss_mib),
        )
        for (connections, target), group in calmest.items()
    ]


def _median(group: list[Measurement], figure: Callable[[Measurement], float]) -> float:
    return statistics.median(figure(one) for one in group)


def _measure_start(folder: Path, times: int) -> Start:
    """Start a server with the built-in partner on a new data directory and again on the same one; then let it idle."""
    cold, warm, rss, pss = [], [], 0, None
    for turn in range(times):
        data = folder / f"start-{turn}"
        with measuring.gateway(data) as server:
            cold.append(server.ready_seconds)
        with measuring.gateway(data) as server:
            warm.append(server.ready_seconds)
            if turn == times - 1:
                time.sleep(_IDLE_SECONDS)
                rss, pss = measuring.rss_bytes(server.pid), measuring.pss_bytes(server.pid)
    return Start(statistics.median(cold), statistics.median(warm), rss, pss)


def _print_rows(rows: list[Row]) -> None:
    proxies = _proxies(rows)
    heading = ("target", "connections", "requests/s", "p50 ms", "p99 ms", "CPU us", "undisturbed", "x proxy", "RSS MiB")
    print(measuring.table([heading, *(_cells(row, proxies[row.connections]) for row in rows)]))


def _proxies(rows: Iterable[Row]) -> Mapping[int, float]:
    """What the proxy costs at each number of connections."""
    return {row.connections: row.cpu_microseconds for row in rows if row.target == _PROXY}


def _cells(row: Row, proxy: float) -> tuple[str, ...]:
    return (
        row.target,
        str(row.connections),
        f"{row.per_second:,.0f}",
        f"{row.p50_ms:.2f}",
        f"{row.p99_ms:.2f}",
        f"{row.cpu_microseconds:.1f}",
        f"{row.undisturbed:.1f}",
        f"{row.cpu_microseconds / proxy:.1f}" if proxy else "-",
        f"{row.rss_mib:.0f}",
    )


def _print_speed(measured: list[Measurement]) -> None:
    """Say how much the machine itself changed: a shared one may slow down by half while it measures."""
    yardsticks = [one.yardstick_ms for one in measured if one.connections]
    fastest, slowest = min(yardsticks), max(yardsticks)
    print(f"the yardstick took {fastest:.1f} to {slowest:.1f} ms on the gateway's core (x{slowest / fastest:.2f})")
    disturbed = len(yardsticks) - _calm(yardsticks, fastest)
    print(f"{disturbed} of {len(yardsticks)} turns were disturbed: more than x{_DISTURBED:.2f} of the fastest")


def _print_start(start: Start) -> None:
    pss = "unreadable" if start.idle_pss is None else f"{start.idle_pss / 1e6:.1f} MB"
    print(
        f"\nready after {start.cold_seconds:.2f} s (new data directory), {start.warm_seconds:.2f} s (again)"
        f"\nidle, with the built-in partner available: RSS {start.idle_rss / 1e6:.1f} MB, PSS {pss}"
    )


def _cost_claims(rows: list[Row]) -> list[Claim]:
    return [
        _cost_claim([row for row in rows if row.target == target], how)
        for target, how in ((_KEYLESS, "a durable synchronous run"), (_KEYED, "the same with an idempotency key"))
    ]


def _cost_claim(rows: list[Row], what: str) -> Claim:
    costs = {row.connections: row.cpu_microseconds for row in rows}
    shown = "; ".join(
        f"{row.cpu_microseconds:.0f} us at {row.connections} ({row.undisturbed:.0f} undisturbed)" for row in rows
    )
    sentence = f"{what} costs {_CLAIMED_MICROSECONDS:.0f} us or less at {_CLAIMED_AT} connections"
    return Claim(sentence, shown, costs[_CLAIMED_AT] <= _CLAIMED_MICROSECONDS)


def _start_claims(start: Start) -> list[Claim]:
    slowest, idle = max(start.cold_seconds, start.warm_seconds), start.idle_rss / 1e6
    return [
        Claim("ready within a second", f"{slowest:.2f} s at worst", slowest <= _CLAIMED_READY_SECONDS),
        Claim(f"idle under {_CLAIMED_IDLE_MB:.0f} MB", f"{idle:.1f} MB", idle < _CLAIMED_IDLE_MB),
    ]


def _sound_claims(measured: list[Measurement], books: Mapping[str, Any]) -> list[Claim]:
    """Figures of calls that failed, or that the books do not know, would be worth nothing."""
    failures = sum(one.failures for one in measured)
    counted = sum(one.requests for one in measured if one.target in {_KEYED, _KEYLESS})
    succeeded = books["totals"]["runs_succeeded"]
    kept = f"{succeeded:,} runs succeeded, {counted:,} answers counted, audit {'clean' if books['clean'] else 'WRONG'}"
    return [
        Claim(
            "every answer is a success",
            f"{failures} failures in {sum(one.requests for one in measured):,}",
            not failures,
        ),
        Claim("every answered run is in the books", kept, books["clean"] and succeeded >= counted),
    ]


def _write_figures(file: Path, rows: Iterable[Row], start: Start) -> None:
    plain = [{name: getattr(row, name) for name in Row.__slots__} for row in rows]
    starts = {name: getattr(start, name) for name in Start.__slots__}
    file.write_text(json.dumps({"machine": measuring.machine(), "rows": plain, "start": starts}, indent=2), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
