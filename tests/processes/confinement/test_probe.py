"""The probe tells what holds by trying it, and says of each mechanism why it does not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fairlead.processes.confinement.cgroups import find_control_groups
from fairlead.processes.confinement.filters import syscall_filters
from fairlead.processes.confinement.policy import (
    DESCENDANTS,
    LANDLOCK,
    MECHANISMS,
    MEMORY,
    NETWORK,
    SECCOMP,
    ConfinementError,
    Policy,
)
from fairlead.processes.confinement.probe import probe, with_filters
from fairlead.processes.confinement.trial import Trial, Tried
from processes.confinement.attackers import needs_landlock

pytestmark = [needs_landlock, pytest.mark.req("S-05")]


def test_everything_holds_on_this_machine() -> None:
    """Each mechanism is named, and says what of it there is."""
    report = probe(Policy(is_required=True), None)
    assert [mechanism.name for mechanism in report.mechanisms] == list(MECHANISMS)
    assert [mechanism for mechanism in report.mechanisms if not mechanism.is_held or not mechanism.detail] == []


def test_control_group_is_found_and_used() -> None:
    """Where there may be one, its tree ends by it."""
    groups = find_control_groups()
    if groups is None:
        pytest.skip("this process may make no control groups")
    told = {mechanism.name: mechanism for mechanism in probe(Policy(), groups).mechanisms}
    assert told[DESCENDANTS].is_held
    assert "control group" in told[DESCENDANTS].detail
    assert told[MEMORY].is_held


def test_kernel_without_landlock_is_told_of_and_shown() -> None:
    """The report shows what a process could then do: signals are left to the filter, files to nothing."""
    told = {mechanism.name: mechanism for mechanism in probe(Policy(landlock_version_max=0), None).mechanisms}
    assert not told[LANDLOCK].is_held
    assert "no Landlock" in told[LANDLOCK].detail
    assert "could read a file, write a file, list a folder" in told[LANDLOCK].detail
    assert "signal" not in told[LANDLOCK].detail
    assert told[SECCOMP].is_held


def test_policy_that_cannot_be_kept_to_is_an_error(tmp_path: Path) -> None:
    """No process is confined by one that shows what is to be protected."""
    with pytest.raises(ConfinementError, match="move it somewhere else"):
        probe(Policy(readable=(str(tmp_path),), protected=(str(tmp_path / "data"),)), None)


@pytest.mark.parametrize("counts", [True, False])
def test_memory_holds_only_where_buffers_cannot_be_enlarged_or_hidden(tmp_path: Path, *, counts: bool) -> None:
    """With the filter for a control group, which counts them, and without that group, each attempt is told."""
    policy = with_filters(Policy(), shared_memory=counts)
    trial = Trial(policy, str(tmp_path / "file"), str(tmp_path / "socket"), 9, may_share=False)
    program = [sys.executable, "-P", "-m", "fairlead.processes.confinement.trial"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(trial) + b"\n")
        process.stdin.flush()
        tried = msgspec.json.decode(process.stdout.readline(), type=Tried)
        os.kill(tried.hidden, signal.SIGKILL)
    told = [what for mechanism, what in tried.succeeded if mechanism == MEMORY]
    everything = [
        "share memory",
        "enlarge the buffer of a socket",
        "enlarge a pipe",
        "move pages into a pipe",
        "hide a descriptor in a socket",
    ]
    assert told == (everything if counts else [])


def test_granted_network_is_no_fault() -> None:
    """It holds as what it is, and says that it was granted."""
    told = {mechanism.name: mechanism for mechanism in probe(Policy(allows_network=True), None).mechanisms}
    assert told[NETWORK].is_held
    assert "granted" in told[NETWORK].detail


def test_filter_of_a_machine_without_libseccomp_is_an_error(tmp_path: Path) -> None:
    """The message says what to install, also where the library's own binding raises the error."""
    (tmp_path / "seccomp.py").write_text("raise ImportError('libseccomp.so.2: cannot open shared object file')\n")
    code = (
        "from fairlead.processes.confinement.filters import syscall_filters\n"
        "syscall_filters(network=False, shared_memory=False, signals=True, truncate=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "ConfinementError" in done.stderr
    assert "install libseccomp2" in done.stderr


def test_filter_is_small_and_the_same_each_time() -> None:
    """The kernel takes 4,096 instructions; every call walks through them."""
    made = [
        syscall_filters(network=network, shared_memory=False, signals=False, truncate=False)
        for network in (False, True)
    ]
    assert all(len(one) % 8 == 0 and len(one) // 8 < 1_000 for filters in made for one in filters)
    assert made[0][-1:] != made[1]
    assert made[0] == syscall_filters.__wrapped__(network=False, shared_memory=False, signals=False, truncate=False)
