"""A callable of an operator as a file, which does what the bytes it is given say; and moderators that ask it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from blake3 import blake3

from fairlead.moderation.pool import ModerationSettings, Moderators
from fairlead.moderation.protocol import Question

SOURCE: Final = """
import os, subprocess, sys, time

print("loaded")

def judge(content):
    print("judging", content.path)
    with open(content.path, "rb") as file:
        told = file.read().decode()
    do, _, more = told.partition(" ")
    if do == "block":
        return more or True
    if do == "tell":
        return f"{content.content_type} {content.size} {content.hash[:8]}"
    if do == "environment":
        return " ".join(sorted(os.environ))
    if do == "process":
        time.sleep(0.05)
        return str(os.getpid())
    if do == "raise":
        raise ValueError("no\\n  verdict")
    if do == "none":
        return None
    if do == "number":
        return 1
    if do == "greedy":
        return bytearray(3 << 30)
    if do == "exit":
        sys.exit(3)
    if do == "vanish":
        os._exit(4)
    if do == "talk":
        return "\\ud800" + "a" * 1_000_000
    if do == "hang":
        with open(more, "w") as file:
            file.write(str(subprocess.Popen(["sleep", "600"]).pid))
        time.sleep(600)
    return False
"""


def callable_file(folder: Path, source: str = SOURCE) -> str:
    """Write a callable down, and return how a setting names it."""
    path = folder / "judge.py"
    path.write_text(source, encoding="utf-8")
    return f"{path}:judge"


def question_about(folder: Path, words: str) -> Question:
    """Write bytes down that want to be judged."""
    told = words.encode()
    path = folder / blake3(told).hexdigest()
    path.write_bytes(told)
    return Question(str(path), len(told), path.name)


@asynccontextmanager
async def moderators(folder: Path, source: str | None = None, **changes: Any) -> AsyncIterator[Moderators]:
    """Have moderators that can be asked; none of them is left behind."""
    usual: dict[str, Any] = {"seconds": 20.0, "processes": 2, "memory": 2**31}
    settings = ModerationSettings(source or callable_file(folder), folder / "moderators", **usual | changes)
    made = Moderators(settings)
    try:
        await made.begin()
        yield made
    finally:
        await made.close()
        assert list(settings.folder.glob("*")) == []
