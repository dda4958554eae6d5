"""docs/cli.md, or the README, shows every command."""

import re
from collections.abc import Iterator

import click

from fairlead.cli import commands
from form.sources import DOCS, ROOT


def test_every_command_is_described() -> None:
    """Each command that is not hidden is shown as it is typed."""
    pages = (DOCS / "cli.md", ROOT / "README.md")
    manual = "\n".join(page.read_text(encoding="utf-8") for page in pages if page.exists())
    missing = [
        name for name in _commands("fairlead", commands) if not re.search(rf"{re.escape(name)}(?![\w-])", manual)
    ]
    assert missing == []


def _commands(name: str, command: click.Command) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield name
        return
    context = click.Context(command)
    for part in command.list_commands(context):
        inner = command.get_command(context, part)
        if inner is not None and not inner.hidden:
            yield from _commands(f"{name} {part}", inner)
