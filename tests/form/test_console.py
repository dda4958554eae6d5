"""The console's built files are what its source makes, small enough, and nothing that its content policy refuses."""

import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import npm
from fairlead.cli import commands
from form.sources import PACKAGE, ROOT

_SOURCE: Final = ROOT / "console"
_BUILT: Final = PACKAGE / "console"
_FIRST_LOAD_MAX: Final = 300 * 1024
_SHIPPED: Final = {"MIT", "ISC", "Apache-2.0", "BSD-3-Clause", "Unlicense", "OFL-1.1"}
_BUILDING: Final = _SHIPPED | {"0BSD", "BSD-2-Clause", "Python-2.0", "MPL-2.0", "(MIT OR CC0-1.0)"}
"""What builds and tests may also have licences of files, which do not reach what is made."""
_IMPORT: Final = re.compile(r"""(?:from|import)\s*"\./([\w.-]+\.js)\"""")
_FONT: Final = re.compile(r"url\(/console/assets/([\w.-]+\.woff2)\)")


@pytest.fixture(scope="module")
def installed() -> Path:
    """Return the folder of the source with the packages of its lock file."""
    npm.install(_SOURCE)
    return _SOURCE


def test_built_files_are_what_the_source_makes(installed: Path, tmp_path: Path) -> None:
    """Building again gives the same files, byte for byte; `make console` brings them up to date."""
    _npm(installed, "run", "--silent", "build", "--", "--outDir", str(tmp_path), "--logLevel", "error")
    assert _files(tmp_path) == _files(_BUILT), "run `make console`"


def test_source_keeps_to_the_types_of_the_api(installed: Path) -> None:
    """Every call of the console has the path, the parameters and the answer that the API's document has."""
    document = CliRunner().invoke(commands, ["openapi"])
    (installed / "openapi.json").write_text(document.stdout, encoding="utf-8")
    _npm(installed, "run", "--silent", "types")
    _npm(installed, "run", "--silent", "check")


def test_first_load_is_small() -> None:
    """All that a browser fetches before the first page is at most 300 KB, compressed."""
    index = (_BUILT / "index.html").read_text(encoding="utf-8")
    wanted = re.findall(r'(?:src|href)="/console/assets/([^"]+)"', index)
    fetched: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in fetched:
            fetched.add(name)
            wanted += _imports_of(_BUILT / "assets" / name)
    assert len(fetched) >= 2, "a script and a style at least"
    assert sum(len(gzip.compress((_BUILT / "assets" / name).read_bytes())) for name in fetched) <= _FIRST_LOAD_MAX


def _imports_of(path: Path) -> list[str]:
    """What a file has a browser fetch with it: scripts, and the fonts of a style."""
    match path.suffix:
        case ".js":
            return _IMPORT.findall(path.read_text(encoding="utf-8"))
        case ".css":
            return _FONT.findall(path.read_text(encoding="utf-8"))
        case _:
            return []


def test_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    """The page keeps to its Content-Security-Policy: scripts and styles are files of its own."""
    index = (_BUILT / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\bstyle=|\bon\w+=", index) == []
    assert re.findall(r'(?:src|href)="(?!/console/)[^"]*"', index) == []


def test_lock_file_has_no_addresses() -> None:
    """Where packages come from is the business of the machine that installs them."""
    assert [one for one in _locked_packages().values() if "resolved" in one] == []


def test_licences_are_permissive() -> None:
    """What ships is under permissive licences; what builds and tests it has no GPL."""
    packages = {name: one for name, one in _locked_packages().items() if name}
    shipped = {one["license"] for one in packages.values() if not one.get("dev")}
    others = {one["license"] for one in packages.values() if one.get("dev")}
    assert shipped <= _SHIPPED
    assert others <= _BUILDING


def _locked_packages() -> dict[str, dict[str, Any]]:
    packages: dict[str, dict[str, Any]] = json.loads((_SOURCE / "package-lock.json").read_bytes())["packages"]
    return packages


def _npm(folder: Path, *words: str) -> None:
    done = subprocess.run(["npm", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
