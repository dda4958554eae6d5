"""What every benchmark shares: process trees and what they cost, the gateway under test, and the claims at the end.

Linux only: processes are read from /proc, cores are chosen with sched_setaffinity.
"""

import functools
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 40.0
_YARDSTICK_STEPS: Final = 500_000
MIB: Final = 1024 * 1024


class CannotMeasureError(Exception):
    """Something the measurement needs is missing or did not start."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of docs/benchmarks.md, what was found, and whether it holds."""

    sentence: str
    found: str
    holds: bool


def tree(root: int) -> list[int]:
    """A process and everything below it, as it is now."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            children.setdefault(int(_stat(path)[1]), []).append(int(path.parent.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """The processor time, user and system, that a tree of processes has used so far."""
    total = 0
    for pid in tree(root):
        with suppress(OSError):
            fields = _stat(Path(f"/proc/{pid}/stat"))
            total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def rss_bytes(root: int) -> int:
    """The resident memory of a tree; pages that its processes share count once for each."""
    return rss_of(tree(root))


def rss_of(processes: Iterable[int]) -> int:
    """The resident memory of some processes, of those that are still there: far quicker than finding them first."""
    total = 0
    for pid in processes:
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * _PAGE
    return total


def pss_bytes(root: int) -> int | None:
    """The resident memory of a tree with shared pages split among their users; None where that cannot be read."""
    total = 0
    for pid in tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
        except OSError:
            return None
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def _stat(path: Path) -> list[str]:
    """The fields of /proc/PID/stat after the command, which may itself hold spaces: state, parent, and so on."""
    return path.read_text("utf-8", "replace").rpartition(")")[2].split()


@contextmanager
def pin_to(core: int | None) -> Iterator[None]:
    """Start processes inside this, and they stay on one core; None leaves them free."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def yardstick_seconds(core: int) -> float:
    """How long a fixed piece of interpreter work takes on a core now: it tells how fast the machine lets us be."""
    with pin_to(core):
        started = time.process_time()
        total = 0
        for number in range(_YARDSTICK_STEPS):
            total += number & 7
        return time.process_time() - started


@dataclass(frozen=True, slots=True)
class Cores:
    """Which core makes the load, and which runs what is measured."""

    load: int
    target: int


def choose_cores(wanted: str | None = None) -> Cores:
    """The two cores named, as in `2,3`, or the first two we may use; one serves both where there is no second."""
    usable = sorted(os.sched_getaffinity(0))
    if wanted is not None:
        named = [int(core) for core in wanted.split(",") if core.strip().isdigit()]
        if len(named) != 2 or not set(named) <= set(usable):
            raise CannotMeasureError(f"--cores takes two of {', '.join(map(str, usable))}, as in 0,1.")
        return Cores(*named)
    return Cores(usable[0], usable[min(1, len(usable) - 1)])


@functools.cache
def leave_nothing_behind() -> None:
    """Have everything ended that this process starts from now on, also when it is killed itself."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
    from reaper import watch_this_run  # noqa: PLC0415 -- which is found now

    watch_this_run()


@contextmanager
def program(
    command: Sequence[str | Path], log: Path, core: int | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a program, its standard output piped and its errors in a file; stop it, by its id, in the end.

    It gets a session of its own: Ctrl-C is meant for us, and we stop what we started.
    """
    leave_nothing_behind()
    with log.open("ab") as errors, pin_to(core):
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env={**_environment(), **(settings or {})},
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """Ask a program to end, and insist after a while, together with what is below it."""
    if process.poll() is None:
        below = tree(process.pid)
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in below:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def first_line(process: subprocess.Popen[str], log: Path) -> str:
    """The line a program prints when it is ready; CannotMeasureError with its last words if it never does."""
    output: IO[str] | None = process.stdout
    if output is not None and select.select([output], [], [], _START_SECONDS)[0] and (line := output.readline()):
        return line
    raise CannotMeasureError(f"{process.args!r} did not start: {log.read_text('utf-8', 'replace')[-2000:]}")


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running `fairlead serve`: where it is, the key it takes, and how long it took to say so."""

    process: subprocess.Popen[str]
    data: Path
    port: int
    key: str
    ready_seconds: float

    @property
    def pid(self) -> int:
        """The root of its tree of processes."""
        return self.process.pid

    def stop(self) -> None:
        """Let its runs end and stop it."""
        stop(self.process)


def fairlead(*arguments: str | Path) -> list[str]:
    """A command line of the installed gateway."""
    return [sys.executable, "-m", "fairlead", *(str(argument) for argument in arguments)]


@contextmanager
def gateway(
    data: Path, *options: str | Path, core: int | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Gateway]:
    """Run the gateway as anybody would, on a free port; only its options, settings and its core are ours."""
    log = data.with_suffix(".log")
    known_key = data / "first-key"
    started = time.perf_counter()
    command = fairlead("serve", "--data", data, "--port", "0", "--json", *options)
    with program(command, log, core, settings) as process:
        line = json.loads(first_line(process, log))
        seconds = time.perf_counter() - started
        key = line["first_key"] or known_key.read_text("utf-8").strip()
        yield Gateway(process, data, int(line["url"].rpartition(":")[2]), key, seconds)


def lift_limits(data: Path, *more: str) -> None:
    """Let the workspace `default` run as many and owe as much as a benchmark needs; `more` names another database."""
    limit_runs(data, -1, "--cap", "1000000", *more)


def limit_runs(data: Path, in_flight: int, *more: str) -> None:
    """Let the workspace `default` run so many at a time; -1 means no limit."""
    limits = ("--in-flight-limit", str(in_flight), *more)
    _ask(fairlead("workspaces", "change", "default", *limits, "--data", data))
    time.sleep(1.2)  # what a server remembers of a caller may be a second old


def new_workspace(data: Path, name: str) -> str:
    """Make a workspace, and return a key of it."""
    _ask(fairlead("workspaces", "create", name, "--data", data))
    return _ask(fairlead("keys", "create", name, "--data", data)).strip()


def audit(data: Path, *more: str) -> dict[str, Any]:
    """What `fairlead audit` says about the books; `more` names another database."""
    report: dict[str, Any] = json.loads(_ask(fairlead("audit", "--json", "--data", data, *more), may_fail=True))
    return report


def balance(data: Path) -> str:
    """The balance of the workspace `default` in dollars, as the books have it."""
    rows = json.loads(_ask(fairlead("workspaces", "list", "--json", "--data", data)))
    listed = rows if isinstance(rows, list) else rows["workspaces"]
    return str(next(row["balance"] for row in listed if row["name"] == "default"))


def _ask(command: Sequence[str], *, may_fail: bool = False) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    if done.returncode and not (may_fail and done.stdout):
        raise CannotMeasureError(f"{' '.join(command[2:])}: {done.stderr[-2000:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Our environment without anybody's settings: what is measured are the defaults, with bytecode kept as usual.

    But for the quotas, which a measurement would spend in a second: its requests are counted and none is refused. And
    for the engine, whose processes only those need that measure workflows.
    """
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FAIRLEAD_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    quotas = dict.fromkeys(
        ("FAIRLEAD_REQUESTS_PER_MINUTE", "FAIRLEAD_READS_PER_MINUTE", "FAIRLEAD_REQUESTS_PER_DAY"), "1000000000"
    )
    return ours | quotas | {"FAIRLEAD_ENGINE": "false"}


def lift_descriptors(wanted: int) -> None:
    """Raise our limit of file descriptors, which servers inherit; CannotMeasureError where so many are not allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise CannotMeasureError(f"This machine allows {hard:,} file descriptors, and {wanted:,} are needed.")


def file_system_of(folder: Path) -> str:
    """The kind of file system a folder is on: `tmpfs` would make durability free."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text("utf-8").splitlines():
        _, mount, name, *_ = line.split()
        if folder.resolve().is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, name
    return kind


def machine() -> str:
    """The machine in general words: cores, processor family and Python, no names."""
    vendor = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    version = ".".join(str(part) for part in sys.version_info[:3])
    return f"{len(os.sched_getaffinity(0))} cores of {vendor}, Python {version}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text: the first is the heading, the first column leans left, the others right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def print_claims(claims: Iterable[Claim]) -> bool:
    """Print what is claimed and what was found; whether all of it holds."""
    listed = list(claims)
    print()
    for claim in listed:
        print(f"{'holds' if claim.holds else 'FAILS'}  {claim.sentence}: {claim.found}")
    return all(claim.holds for claim in listed)


def tell(progress: str) -> None:
    """Say at a terminal what is going on, on one line that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r{progress:<78}\r{progress}", end="", file=sys.stderr, flush=True)


def require_programs(packages: dict[str, str]) -> None:
    """Make sure some programs are installed, by their Debian packages where we may; CannotMeasureError otherwise."""
    missing = {name: package for name, package in packages.items() if _where(name) is None}
    if not missing:
        return
    names, wanted = ", ".join(missing), sorted(set(missing.values()))
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise CannotMeasureError(f"{names} must be installed first (Debian: apt-get install {' '.join(wanted)}).")
    print(f"{names}: not installed; installing {' '.join(wanted)} with apt-get.", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # RUNLEVEL: no service is started
    for arguments in (("update", "-q"), ("install", "-q", "-y", "--no-install-recommends", *wanted)):
        done = subprocess.run(["apt-get", *arguments], env=quiet, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotMeasureError(f"apt-get {arguments[0]} failed: {done.stderr[-500:].strip()}")


def path_of(name: str) -> str:
    """Where a program is; CannotMeasureError where it is not."""
    found = _where(name)
    if found is None:
        raise CannotMeasureError(f"{name} is not installed.")
    return found


def _where(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")


def run_script(work: Callable[[ExitStack], bool], *, check: bool) -> int:
    """Run a benchmark so that all it started ends with it; its exit status.

    0 when it was measured, 1 when a claim fails and `check` is set, 2 when it cannot be measured here, 130 on Ctrl-C.
    """

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        with ExitStack() as stack:
            holds = work(stack)
    except CannotMeasureError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 1 if check and not holds else 0
