"""What a server loads: modules are most of its start and half of what it takes while it does nothing."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

_PROGRAM: Final = """
import asyncio, pathlib, sys
import click
from fairlead.cli import commands

commands.get_command(click.Context(commands), "serve")
from fairlead.server.lifecycle import running_server
from fairlead.server.settings import read_settings

async def start(settings):
    async with running_server(settings):
        pass

asyncio.run(start(read_settings(data=pathlib.Path(sys.argv[1]))))
{also}
print(*sys.modules, sep="\\n")
"""
"""Starts what `fairlead serve` starts, on SQLite and without the engine, and names every module."""

_OTHERS_COMMANDS: Final = (
    "audit",
    "books",
    "catalog",
    "demo",
    "demonstration",
    "deployments",
    "doctor",
    "keys",
    "members",
    "workflow_runs",
)
_NEVER: Final = (
    *(f"fairlead.cli.{name}" for name in _OTHERS_COMMANDS),
    "alembic",  # only a database of an earlier version
    "asyncpg",  # only PostgreSQL, as the next four
    "greenlet",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.ext",
    "sqlalchemy.orm",
    "structlog",  # only a terminal; it would load the next three, where they are
    "attr",
    "pygments",
    "rich",
    "cryptography",  # only sealed keys and tokens
    "jwt",
    "authlib",  # only signing in at a provider, as the next one
    "joserfc",
    "opentelemetry",  # only traces
    "fairlead_partners",  # a program of its own
    "fairlead.api.openapi.document",  # only who asks for it
)
_ONLY_IN_HOSTS: Final = (
    "PIL",
    "av",
    "cv2",
    "numpy",
    "soundfile",
    "fairlead.engine.nodes",
    "fairlead.engine.packs.loader",
)
_ONLY_WITH_ENGINE: Final = (
    "fairlead.server.jobs",
    "fairlead.engine",
    "fairlead.moderation",
    "fairlead.operations.jobs.work",
)


@pytest.mark.parametrize(
    ("also", "unwanted"),
    [
        pytest.param("", (*_NEVER, *_ONLY_WITH_ENGINE, *_ONLY_IN_HOSTS), id="without the engine"),
        pytest.param("import fairlead.server.jobs", (*_NEVER, *_ONLY_IN_HOSTS), id="with it"),
    ],
)
def test_idle_server_loads_only_what_it_needs(tmp_path: Path, also: str, unwanted: tuple[str, ...]) -> None:
    """An idle server has no modules of other commands, other databases, terminals, pictures or an absent engine."""
    settings = {"FAIRLEAD_ENGINE": "false", "FAIRLEAD_LOG_FORMAT": "json"}
    others = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(also=also), str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
        env=others | settings,
    )
    loaded = done.stdout.split()
    assert "fairlead.server.lifecycle" in loaded
    assert sorted(_among(loaded, unwanted)) == []


def _among(loaded: Iterable[str], unwanted: tuple[str, ...]) -> set[str]:
    """The unwanted that are loaded, themselves or in parts."""
    return {name for name in unwanted for module in loaded if module == name or module.startswith(f"{name}.")}
