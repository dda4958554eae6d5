"""`deploy/systemd`: units that systemd takes, with commands that exist, and little that they may do."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from deploy.kit import DEPLOY, assert_is_command

_UNITS: Final = sorted((DEPLOY / "systemd").glob("*.service"))
_EXPOSURE_MAX: Final = 30
"""Tenths, as systemd counts what a unit may do: up to 30 it calls it OK."""


@pytest.mark.parametrize("unit", _UNITS, ids=lambda unit: unit.name)
def test_unit_starts_a_command_that_exists(unit: Path) -> None:
    """With options that it has; its stop has longer than the server's own waits, and reaches the server alone."""
    text = unit.read_text(encoding="utf-8")
    (line,) = re.findall(r"^ExecStart=(\S+) (.*)$", text, re.MULTILINE)
    assert_is_command(re.sub(r"\$\{\w+\}", "1", line[1]).replace("%i", "default").split())
    assert "KillMode=mixed" in text
    assert "Delegate=yes" in text


@pytest.mark.parametrize("unit", _UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    """Nothing in it is unknown; what it starts and who it runs as are not on this machine, and are put in its place."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed: it is in the package systemd")
    text = re.sub(r"^(ExecStart|ExecReload)=\S+", r"\1=/bin/true", unit.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = re.sub(r"^(User|Group)=.*", r"\1=root", text, flags=re.MULTILINE)
    name = unit.name.replace("@", "@default")
    (tmp_path / name).write_text(text, encoding="utf-8")
    verify = [analyze, "verify", "--man=no", str(tmp_path / name)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if name in line or str(tmp_path) in line]
    assert ours == []
    done = subprocess.run(
        [analyze, "security", "--offline=true", f"--threshold={_EXPOSURE_MAX}", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
