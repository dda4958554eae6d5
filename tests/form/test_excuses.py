"""What is silenced says why: swallowed exceptions, linter exceptions, type exceptions."""

import ast
import re
from collections.abc import Sequence
from typing import Final

from form.sources import Module, modules

_EXCUSED_LINT: Final = re.compile(r"# (?:ruff: )?noqa: [A-Z]+\d+(?:, [A-Z]+\d+)* -- \S")
_EXCUSED_TYPE: Final = re.compile(r"# type: ignore\[[a-z-]+(?:, ?[a-z-]+)*\]")
_EVERYTHING: Final = frozenset({"Exception", "BaseException"})


def test_no_exception_is_swallowed_in_silence() -> None:
    """A handler that does nothing says in a comment why nothing is right."""
    silent = [
        module.place(handler.lineno)
        for module in modules("src")
        for handler in ast.walk(module.tree)
        if isinstance(handler, ast.ExceptHandler)
        and all(_does_nothing(statement) for statement in handler.body)
        and not _is_commented(module, handler.lineno, handler.end_lineno)
    ]
    assert silent == []


def test_no_exception_is_suppressed_in_silence() -> None:
    """`suppress(Exception)` is the same handler in other clothes."""
    silent = [
        module.place(call.lineno)
        for module in modules("src")
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call)
        and _last_name(call.func) == "suppress"
        and _EVERYTHING.intersection(_last_name(argument) for argument in call.args)
        and not _is_commented(module, call.lineno, call.end_lineno)
    ]
    assert silent == []


def test_every_silenced_lint_rule_has_a_code_and_a_reason() -> None:
    """Every `noqa` reads `# noqa: CODE -- reason`."""
    assert _find_unexcused("noqa", _EXCUSED_LINT) == []


def test_every_silenced_type_error_has_a_code() -> None:
    """Every `type: ignore` names what it ignores."""
    assert _find_unexcused("type: ignore", _EXCUSED_TYPE) == []


def _find_unexcused(word: str, excused: re.Pattern[str]) -> Sequence[str]:
    return [
        f"{module.place(line)}: {comment}"
        for module in modules("src", "tests", "bench")
        if word in module.text
        for line, comment in module.comments.items()
        if re.search(rf"#\s*(?:\w+:\s*)?{word}", comment) and not excused.search(comment)
    ]


def _does_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case _:
            return False


def _is_commented(module: Module, first: int, last: int | None) -> bool:
    return any(line in module.comments for line in range(first, (last or first) + 1))


def _last_name(expression: ast.expr) -> str:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
