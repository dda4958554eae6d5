"""What the tests of form read: the project's files, as text and as syntax trees."""

import ast
import io
import subprocess
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"
PACKAGE: Final = SOURCE / "fairlead"
DOCS: Final = ROOT / "docs"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_NOT_WALKED: Final = frozenset({"__pycache__", "demo-output", "demo-data", "dist", "node_modules", "results"})


@dataclass(frozen=True)
class Module:
    """One Python file."""

    path: Path

    @property
    def name(self) -> str:
        """Its path from the root of the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def dotted(self) -> str:
        """Its name as imported, for modules under src."""
        parts = self.path.relative_to(SOURCE).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def text(self) -> str:
        """Its source."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def lines(self) -> list[str]:
        """Its source, by line."""
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, self.name)

    @cached_property
    def comments(self) -> dict[int, str]:
        """Its comments by line number; text inside strings is none."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}

    def place(self, line: int) -> str:
        """Name a line the way an editor opens it."""
        return f"{self.name}:{line}"

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Every function with its dotted name, nested ones included."""
        return _functions(self.tree, self.dotted)


def _functions(node: ast.AST, owner: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"{owner}.{name}", child
                yield from _functions(child, f"{owner}.{name}")
            case ast.ClassDef(name=name):
                yield from _functions(child, f"{owner}.{name}")
            case _:
                yield from _functions(child, owner)


@cache
def modules(*folders: str) -> Sequence[Module]:
    """Every Python file under some folders of the repository, sorted."""
    return tuple(_module(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


_module: Final = cache(Module)
"""One Module per file, so that tests share its parsed form."""


def without_docstring(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Leave out a docstring at the head of a body."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body


@cache
def project_files() -> Sequence[Path]:
    """Every file that is, or is about to be, in the repository; outside a checkout, what an archive of it holds."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
        return tuple(path for name in sorted(names) if name and (path := ROOT / name).is_file())
    return tuple(path for path in sorted(ROOT.rglob("*")) if path.is_file() and not _is_product(path))


def _is_product(path: Path) -> bool:
    folders = path.relative_to(ROOT).parts[:-1]
    return any(folder in _NOT_WALKED or folder.startswith(".") or folder.endswith(".egg-info") for folder in folders)
