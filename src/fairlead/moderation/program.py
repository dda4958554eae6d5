"""The moderator: a process of its own that loads an operator's callable, asks it for a server, and ends with that.

A server starts `python -m fairlead.moderation.program --fd N --memory BYTES`, and asks it over the socket.
"""

import argparse
import importlib
import importlib.util
import inspect
import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from fairlead.domain.assets.media_types import HEAD_BYTES, media_type
from fairlead.moderation.protocol import (
    FRAME_BYTES_MAX,
    MODERATOR,
    WORDS_CHARACTERS_MAX,
    Content,
    Failure,
    Question,
    Verdict,
)
from fairlead.processes.confinement.limits import bound, die_with_parent
from fairlead.processes.rpc import serve

Judge: TypeAlias = Callable[[Content], object]
_MODULE: Final = "moderation_callable"


def main(descriptor: int, memory: int) -> None:
    """Serve the server at the other end of a socket until it goes away."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003 -- the only way to call it
    die_with_parent()
    bound(memory)
    with socket.socket(fileno=descriptor) as line:
        serve(line, MODERATOR, _Moderator(), FRAME_BYTES_MAX)


class _Moderator:
    """Implements `protocol.Moderator`."""

    def __init__(self) -> None:
        self._judge: Judge = bool

    async def load(self, source: str) -> Failure | None:
        """Load the callable."""
        try:
            self._judge = load(source)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- whatever others' code raises when it is loaded
            return Failure(_words(error))
        return None

    async def judge(self, question: Question) -> Verdict | Failure:
        """Ask the callable."""
        try:
            told = self._judge(_content(question))
        except Exception as error:  # noqa: BLE001 -- whatever others' code raises, it is no verdict
            return Failure(_words(error))
        if isinstance(told, bool):
            return Verdict(told)
        if isinstance(told, str) and told:
            return Verdict(is_blocked=True, reason=_shorten(told))
        return Failure(f"it returned {type(told).__qualname__}, which is neither True nor False nor a reason")


def load(source: str) -> Judge:
    """The callable that `module:function` or `path.py:function` names; whatever its module raises, or TypeError."""
    where, _, name = source.rpartition(":")
    module = _module_of_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    function = getattr(module, name)
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} is not a plain function")
    judge: Judge = function
    return judge


def _content(question: Question) -> Content:
    with Path(question.path).open("rb") as file:
        content_type = media_type(None, file.read(HEAD_BYTES))
    return Content(question.path, content_type, question.size, question.hash)


def _module_of_file(path: Path) -> ModuleType:
    """Load a file as a module, whatever it is called; what lies beside it can be imported, after everything else."""
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a module")
    sys.path.append(str(path.parent))
    module = sys.modules[_MODULE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _words(error: BaseException) -> str:
    """An error in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    words = f"{type(error).__qualname__}: {' '.join(str(error).split())}"
    return _shorten(words[: WORDS_CHARACTERS_MAX - len(place)] + place)


def _shorten(text: str) -> str:
    """The beginning of a text, without what cannot be sent."""
    return text[:WORDS_CHARACTERS_MAX].encode("utf-8", "replace").decode("utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fairlead.moderation.program", description="Judges bytes.")
    parser.add_argument("--fd", type=int, required=True, help="the open socket to the server")
    parser.add_argument("--memory", type=int, default=0, help="the bytes of memory it may take; 0 means no limit")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    main(given.fd, given.memory)
