"""The files in `deploy` as data, and what they say of the product: commands, options and settings."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from fairlead.cli import commands
from fairlead.server.settings import SETTINGS
from form.sources import ROOT

DEPLOY: Final = ROOT / "deploy"
_VARIABLE: Final = re.compile(r"\bFAIRLEAD_[A-Z0-9_]+\b")
_OF_THE_KIT: Final = frozenset({"FAIRLEAD_WORKER_PLACES"})
"""Variables of the kit itself, which no program of ours reads."""


def texts() -> Iterator[tuple[str, str]]:
    """Every file of the kit, with its name."""
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file():
            yield path.relative_to(DEPLOY).as_posix(), path.read_text(encoding="utf-8")


def read_yaml(path: Path) -> Any:
    """A document of YAML."""
    return msgspec.yaml.decode(path.read_bytes())


def unknown_settings(text: str) -> set[str]:
    """The variables in a text that are named like settings and are none; a provider's are known by their form."""
    known = {setting.env for setting in SETTINGS.values()} | _OF_THE_KIT
    return {name for name in _VARIABLE.findall(text) if name not in known and not name.startswith("FAIRLEAD_PROVIDER_")}


def assert_is_command(words: Sequence[str]) -> None:
    """Prove that the `fairlead` command takes these words: there is such a command, and it has such options."""
    command = commands.get_command(click.Context(commands), words[0])
    assert command is not None, f"there is no command {words[0]}"
    command.make_context(words[0], list(words[1:]))
