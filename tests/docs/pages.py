"""Pages as things to run: their fenced blocks, the commands in them, and what they say the commands print."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from form.sources import DOCS
from servers import wait_until

_FENCE: Final = re.compile(r"^```(?P<language>\w*)(?: (?P<name>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS: Final = 200


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the file it is to be kept in where it names one, and its text."""

    language: str
    name: str
    text: str


def blocks(page: str) -> Sequence[Block]:
    """Return every block of a page, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [Block(found["language"], found["name"] or "", found["text"]) for found in _FENCE.finditer(text)]


def commands(page: str) -> Sequence[tuple[str, str]]:
    """Return every shell block of a page with the block after it that says what it prints, empty where none does."""
    found = blocks(page)
    following = [*found[1:], Block("sh", "", "")]
    return [
        (block.text, after.text if after.language == "" else "")
        for block, after in zip(found, following, strict=True)
        if block.language == "sh"
    ]


def with_commands(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which the command `fairlead` is found."""
    return {**env, "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}


def run(script: str, folder: Path, env: Mapping[str, str]) -> str:
    """Run a script in a folder and return what it printed; what it complains of is shown when it fails."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout.decode(errors='replace')}\n{done.stderr.decode()}"
    return done.stdout.decode()


def assert_prints(printed: str, expected: str) -> None:
    """Find every expected line among those that were printed, in order; an ellipsis stands for anything."""
    left = iter(printed.replace("\r", "").splitlines())
    for line in expected.splitlines():
        pattern = re.compile(r".*".join(_allow_spaces(part) for part in line.split("…")))
        assert any(pattern.fullmatch(found.rstrip()) for found in left), f"no line {line!r} in its place in:\n{printed}"


@contextmanager
def start_server(script: str, folder: Path, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Run the page's server and return its address, and all it printed, which it does at once."""
    with (folder / "printed").open("wb") as printed, (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            ["bash", "-euc", script], cwd=folder, env=env, stdout=printed, stderr=log, start_new_session=True
        )
    try:
        ready = re.compile(r"[^\n]*listens on (\S+)\n")
        found = wait_until(lambda: ready.match((folder / "printed").read_text()), "the server's address")
        assert found is not None
        yield found[1], found.string
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def type_in(folder: Path, pairs: Sequence[tuple[str, str]], env: Mapping[str, str]) -> None:
    """Run scripts one after another as in one terminal, and hold each against what the page says it prints."""
    before = ""
    for script, expected in pairs:
        printed = run(f"{{ {before}:; }} > before.txt\n{script}", folder, env)
        assert_prints(printed, expected)
        before += "".join(f"{line}\n" for line in script.splitlines() if re.match(r"[A-Z]+=", line))


def _allow_spaces(part: str) -> str:
    """Match a text whose columns may be wider than the page shows them."""
    return r"\s{2,}".join(re.escape(column) for column in re.split(r"\s{2,}", part))
