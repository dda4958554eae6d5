"""A test that goes on until it is killed, with processes of each kind: what test_reaper.py runs."""

import os
import signal
import subprocess
from pathlib import Path

import psutil

from databases import Postgres
from servers import Server


def test_servers_run_until_the_run_is_killed(postgres: Postgres, tmp_path: Path) -> None:
    """Name the folder of the databases and every process below this one, and wait."""
    deaf = subprocess.Popen(["/bin/sh", "-c", "trap '' INT TERM HUP QUIT; echo; sleep 600"], stdout=subprocess.PIPE)
    assert deaf.stdout is not None
    assert deaf.stdout.readline() == b"\n"
    Server(tmp_path / "data")
    running = psutil.Process().children(recursive=True)
    assert {process.name() for process in running} >= {"postgres", "sh", "sleep"}
    told = Path(os.environ["HELD_SERVERS"])
    part = told.with_suffix(".part")
    part.write_text("\n".join([str(postgres.folder), *(str(process.pid) for process in running)]), "utf-8")
    part.rename(told)
    signal.pause()
