"""Ids of keys as arguments. A key itself given in the place of its id is never repeated."""

import re
import sys
from typing import Final

import click

_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
READ_IT: Final = "-"
"""The argument that means: the key is on standard input."""
_KEY_CHARACTERS_MAX: Final = 1_000


class KeyId(click.ParamType[str]):
    """The id of a key; with `or_read` also `-`, for a key on standard input."""

    name = "key id"

    def __init__(self, *, or_read: bool = False) -> None:
        self._or_read = or_read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The id as it was given. What is no id is refused without being repeated: it may be the key."""
        text = str(value)
        if _ID.fullmatch(text) or (self._or_read and text == READ_IT):
            return text
        raise click.BadParameter(
            "this is no id of a key; `fairlead keys list` shows them. If it is a key itself, it is in the history of "
            "your shell now: delete it there, and revoke the key with `fairlead keys revoke -`, which reads it from "
            "standard input.",
            ctx,
            param,
        )


def read_key() -> str:
    """The key on standard input, hidden where a person types it."""
    typed = click.prompt("Key", hide_input=True) if sys.stdin.isatty() else sys.stdin.read(_KEY_CHARACTERS_MAX + 1)
    return str(typed).strip()


def hide_arguments(error: click.UsageError) -> click.UsageError:
    """An error about too many arguments without these: one may be a secret that belongs on standard input."""
    if error.message.startswith("Got unexpected extra argument"):
        words = "There are more arguments than this command takes; a secret is read from standard input."
        return click.UsageError(words, error.ctx)
    return error
