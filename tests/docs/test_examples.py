"""The files in examples/: callers make a picture, and what pages show is what is there."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from docs.pages import blocks
from form.sources import ROOT
from servers import Server, environment, serving

_EXAMPLES: Final = ROOT / "examples"
_CALLERS: Final = {".sh": "bash", ".py": sys.executable, ".mjs": "node"}
_SHOWN: Final = {
    ("add-a-partner.md", "my-catalog/"): "partner/",
    ("cloud.md", "packs/"): "packs/",
    ("workflows.md", ""): "",
}
"""The pages that show files, what the names of these begin with there, and where the files are here."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with the built-in partner."""
    with serving(tmp_path_factory.mktemp("examples") / "data") as running:
        yield running


def _call(caller: Path, server: Server, key: str, file: Path) -> subprocess.CompletedProcess[str]:
    program = _CALLERS[caller.suffix]
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    env = {**environment(), "URL": server.url, "KEY": key}
    command = [program, str(caller), 'a "harbour" at dawn', str(file)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.parametrize("caller", sorted(_EXAMPLES.glob("callers/*")), ids=lambda path: path.name)
def test_caller_makes_a_picture_and_tells_what_it_cost_or_why_not(server: Server, tmp_path: Path, caller: Path) -> None:
    """With a good key it keeps a PNG; with a bad one it ends with status 1 and the error's type."""
    done = _call(caller, server, server.key, tmp_path / "picture.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("picture.png: 0.46 credits\n")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    refused = _call(caller, server, "flk_wrong", tmp_path / "none.png")
    assert refused.returncode == 1
    assert refused.stderr.startswith("status 401, unauthorized\n")
    assert not (tmp_path / "none.png").exists()


def test_files_that_pages_show_are_the_examples() -> None:
    """A page's test runs what it shows; so it has run the example as well."""
    shown = {
        _EXAMPLES / folder / block.name.removeprefix(begin): block.text
        for (page, begin), folder in _SHOWN.items()
        for block in blocks(page)
        if block.name.startswith(begin) and block.name
    }
    examples = [path for path in _EXAMPLES.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    examples = [path for path in examples if path.parent.name != "callers" and path.name != "README.md"]
    assert {path: path.read_text(encoding="utf-8") for path in examples} == shown
