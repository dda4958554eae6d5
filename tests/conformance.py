"""Which test proves which rule: reads the `req` marks out of the test files, for `make conformance` to print.

The files are read, not run, so the page depends on their text alone. Marks are understood on functions and classes, in
`pytestmark` of a module or a class, and in `pytest.param(..., marks=...)`, also where the parameters are a constant of
the module. A mark anywhere else is an error, because it would prove nothing; a mark on a test that is skipped or
expected to fail is no proof.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias, TypeGuard

ROOT: Final = Path(__file__).resolve().parents[1]
TESTS: Final = ROOT / "tests"
REQUIREMENTS: Final = ROOT / "docs" / "requirements.md"

_SECTION: Final = re.compile(r"## (?P<letter>\S+) · (?P<title>.+)")
_ROW: Final = re.compile(r"\| (?P<id>[^|]*) \| (?P<text>.*) \|")
_HEADER: Final = "id"
_SHOWN: Final = 3
_OUTSIDE: Final = ("tests/end_to_end/", "tests/api/", "tests/docs/", "tests/attacks/")
_NOT_A_PROOF: Final = frozenset({"skip", "xfail"})

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class UnreadableMarkError(ValueError):
    """A `req` mark stands where it marks no test, or its ids are not plain strings."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of docs/requirements.md."""

    section: str
    letter: str
    id: str
    text: str


@dataclass(frozen=True, slots=True, order=True)
class Proof:
    """A test that names a rule."""

    path: str
    test: str
    rule_id: str


def read_rules(text: str) -> list[Rule]:
    """Read every rule of docs/requirements.md, in its order; ids are taken as they stand."""
    rules: list[Rule] = []
    letter = title = ""
    for line in text.splitlines():
        if section := _SECTION.fullmatch(line):
            letter, title = section["letter"], section["title"]
        elif (row := _ROW.fullmatch(line)) and row["id"] != _HEADER:
            rules.append(Rule(title, letter, row["id"], row["text"]))
    return rules


@cache
def read_proofs(tests: Path = TESTS) -> Sequence[Proof]:
    """Read the marks of every test file, sorted."""
    proofs: set[Proof] = set()
    for path in sorted({*tests.rglob("test_*.py"), *tests.rglob("*_test.py")}):
        name = path.relative_to(tests.parent).as_posix()
        proofs.update(proofs_in(path.read_text(encoding="utf-8"), name))
    return tuple(sorted(proofs))


def proofs_in(source: str, path: str) -> set[Proof]:
    """Read the marks of one test file; UnreadableMarkError for one that cannot be given to a test."""
    return _Reader(ast.parse(source, path), path).read()


def page(rules: Sequence[Rule], proofs: Iterable[Proof]) -> str:
    """Write the page: a count for each section, then each section's rules with the tests that prove them."""
    cells = _cells(sorted(proofs))
    sections = [(title, list(members)) for title, members in groupby(rules, key=lambda rule: rule.section)]
    counts = [_count(title, members, cells) for title, members in sections]
    parts = [_HEAD, "\n".join(["| section | rules | proven | open |", "|---|---|---|---|", *counts])]
    parts.extend(_section(title, members, cells) for title, members in sections)
    return "\n\n".join(parts) + "\n"


def _cells(proofs: Sequence[Proof]) -> dict[str, str]:
    """Write for each rule the tests that prove it best, of different files, and how many more there are.

    A test that proves few rules is the most specific proof of each; among those, one from outside comes first.
    """
    rules_of = Counter((proof.path, proof.test) for proof in proofs)
    by_rule: dict[str, list[Proof]] = {}
    for proof in proofs:
        by_rule.setdefault(proof.rule_id, []).append(proof)
    return {rule_id: _cell(members, rules_of) for rule_id, members in by_rule.items()}


def _cell(proofs: Sequence[Proof], rules_of: Mapping[tuple[str, str], int]) -> str:
    ranked = sorted(proofs, key=lambda proof: (rules_of[proof.path, proof.test], not _is_outside(proof), proof))
    best: dict[str, Proof] = {}
    for proof in ranked:
        best.setdefault(proof.path, proof)
    shown = [f"[{_sentence(proof.test)}]({proof.path})" for proof in [*best.values()][:_SHOWN]]
    more = len(proofs) - len(shown)
    return "; ".join([*shown, *([f"{more} more"] if more else [])])


def _is_outside(proof: Proof) -> bool:
    return proof.path.startswith(_OUTSIDE)


def _sentence(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


_HEAD: Final = """\
# Conformance

Which tests prove which rule of [requirements.md](docs/requirements.md).
Each rule has up to three tests that prove it most specifically, and the number of the others.
`.venv/bin/python tests/conformance.py R-01` lists every test of a rule."""


def _count(title: str, rules: Sequence[Rule], cells: Mapping[str, str]) -> str:
    proven = sum(rule.id in cells for rule in rules)
    anchor = title.lower().replace(" ", "-")
    return f"| [{title}](#{anchor}) | {len(rules)} | {proven} | {len(rules) - proven} |"


def _section(title: str, rules: Sequence[Rule], cells: Mapping[str, str]) -> str:
    rows = [f"| {rule.id} | {rule.text} | {cells.get(rule.id, 'open')} |" for rule in rules]
    return "\n".join([f"## {title}", "", "| id | rule | tests |", "|---|---|---|", *rows])


class _Reader:
    """Gives each mark of one file to its tests, and refuses what is left over."""

    def __init__(self, tree: ast.Module, path: str) -> None:
        self._tree = tree
        self._path = path
        self._constants = dict(_assignments(tree.body))
        self._seen: set[ast.Attribute] = set()
        self._proofs: set[Proof] = set()

    def read(self) -> set[Proof]:
        self._read_body(self._tree.body, frozenset())
        for node in ast.walk(self._tree):
            if _is_mark(node, "req") and node not in self._seen:
                raise UnreadableMarkError(f"{self._path}:{node.lineno}: this mark is not on a test")
        return self._proofs

    def _read_body(self, body: Sequence[ast.stmt], inherited: frozenset[str]) -> None:
        own = [value for name, value in _assignments(body) if name == "pytestmark"]
        ids = inherited.union(*(self._ids(value) for value in own))
        for statement in body:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef() if statement.name.startswith("test"):
                    self._read_test(statement, ids)
                case ast.ClassDef() if statement.name.startswith("Test"):
                    self._read_body(statement.body, ids | self._ids(*statement.decorator_list))
                case _:
                    pass  # other statements hold no tests; a mark in one of them is refused at the end

    def _read_test(self, test: _Function, inherited: frozenset[str]) -> None:
        ids = inherited | self._ids(*test.decorator_list)
        if not any(_is_mark(_callee_of(decorator), *_NOT_A_PROOF) for decorator in test.decorator_list):
            self._proofs.update(Proof(self._path, test.name, rule_id) for rule_id in ids)

    def _ids(self, *expressions: ast.expr) -> frozenset[str]:
        """The ids of every mark within some expressions, and within the module's constants they name."""
        ids: set[str] = set()
        for node in self._within(expressions):
            if isinstance(node, ast.Call) and _is_mark(node.func, "req"):
                self._seen.add(node.func)
                ids.update(self._literal(argument) for argument in node.args)
        return frozenset(ids)

    def _within(self, expressions: Sequence[ast.expr]) -> Iterator[ast.AST]:
        followed: set[str] = set()
        waiting = list(expressions)
        while waiting:
            for node in ast.walk(waiting.pop()):
                yield node
                if isinstance(node, ast.Name) and node.id in self._constants and node.id not in followed:
                    followed.add(node.id)
                    waiting.append(self._constants[node.id])

    def _literal(self, argument: ast.expr) -> str:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return argument.value
        raise UnreadableMarkError(f"{self._path}:{argument.lineno}: write the ids of a req mark as plain strings")


def _assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                pass  # only plain names can be pytestmark or a list of parameters


def _is_mark(node: ast.AST, *names: str) -> TypeGuard[ast.Attribute]:
    """Whether a node reads `pytest.mark.<name>` for one of the names."""
    match node:
        case ast.Attribute(attr=name, value=ast.Attribute(attr="mark")):
            return name in names
        case _:
            return False


def _callee_of(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def main(rule_ids: Sequence[str]) -> int:
    """Print the page; or every test of some rules."""
    proofs = read_proofs()
    if rule_ids:
        sys.stdout.writelines(f"{one.rule_id} {one.path}::{one.test}\n" for one in proofs if one.rule_id in rule_ids)
    else:
        sys.stdout.write(page(read_rules(REQUIREMENTS.read_text(encoding="utf-8")), proofs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
