"""Packages of npm that tests use: the console's own, and a provider of OpenID Connect."""

import shutil
import subprocess
from pathlib import Path

import pytest


def install(folder: Path) -> None:
    """Install what the lock file of a folder names, unless it is there; skip where there is no npm.

    Where npm is there and cannot install, the test fails: what it proves would else be lost without a word.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("Node.js and npm are not installed: `apt-get install nodejs npm` lets this test run.")
    lock, installed = folder / "package-lock.json", folder / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        done = subprocess.run(["npm", "ci", "--silent"], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"`npm ci` failed in {folder}: {done.stdout}{done.stderr}"
