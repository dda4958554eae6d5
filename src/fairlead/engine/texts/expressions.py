"""Arithmetic that a caller writes as text, computed without running a program of theirs.

The text is parsed by Python's own grammar and then evaluated here: numbers, names, arithmetic, comparisons, logic, the
conditional, and a closed list of functions. Everything else is refused, and what would take long or grow large is
refused before it is computed.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Number: TypeAlias = int | float
Value: TypeAlias = Number | Sequence[Number]
"""What a name stands for: a number (a boolean counts as one), or a list of numbers for `sum`, `min` and `max`."""

_LONGEST: Final = 4000
_DEEPEST: Final = 200
_MOST_BITS: Final = 1 << 16
_MOST_EXPONENT: Final = 4000
"""As in ComfyUI; the range of a float is far below."""


class ExpressionError(ValueError):
    """An expression that cannot be read or computed; its message is for the caller."""


def evaluate(expression: str, names: Mapping[str, Value]) -> Number:
    """The value of an expression, a finite number; a comparison gives a boolean.

    ExpressionError says what is wrong with it.
    """
    tree = _parse(expression)
    _check_depth(tree)
    result = _Evaluation(expression, names).value_of(tree)
    try:
        if isinstance(result, (int, float)) and math.isfinite(result):
            return result
    except OverflowError:
        raise ExpressionError("The result of the expression is too large.") from None
    raise ExpressionError("The result of the expression is not a finite number.")


def _parse(expression: str) -> ast.expr:
    if not expression.strip():
        raise ExpressionError("The expression is empty.")
    if len(expression) > _LONGEST:
        raise ExpressionError(f"The expression has {len(expression)} characters, and {_LONGEST} is the most.")
    try:
        return ast.parse(_bracket(expression), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"The expression cannot be read: {expression.strip()[:200]}") from None


def _bracket(expression: str) -> str:
    """In brackets it may have several lines, as the editor's text box suggests."""
    return f"({expression}\n)"


def _check_depth(tree: ast.expr) -> None:
    """Refuse a tree that is too deep before anything walks it by recursion, whatever its nodes are."""
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST + 2):  # the outermost node, and those that only say how a name is used
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise ExpressionError(f"The expression is nested more than {_DEEPEST} deep.")


class _Evaluation:
    """One walk through an expression that is not too deep."""

    def __init__(self, expression: str, names: Mapping[str, Value]) -> None:
        self._expression = expression
        self._names = names

    def value_of(self, node: ast.expr) -> object:
        result: object
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                result = number
            case ast.Name(id=name):
                result = self._look_up(name)
            case ast.UnaryOp(op=sign, operand=operand):
                result = _work_out(_UNARY[type(sign)], self.value_of(operand))
            case ast.BinOp(op=sign, left=left, right=right) if type(sign) in _BINARY:
                result = _work_out(_BINARY[type(sign)], self.value_of(left), self.value_of(right))
            case ast.BoolOp(op=sign, values=parts):
                result = self._deciding(isinstance(sign, ast.Or), parts)
            case ast.Compare():
                result = self._compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                result = self.value_of(body if self.value_of(test) else orelse)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                result = self._call(name, arguments)
            case _:
                raise ExpressionError(f"The expression may not hold this: {self._text_of(node)[:200]}")
        return result

    def _text_of(self, node: ast.expr) -> str:
        """A part of the expression as its caller wrote it; `ast.unparse` would need many calls for each level."""
        return ast.get_source_segment(_bracket(self._expression), node) or self._expression.strip()

    def _look_up(self, name: str) -> Value:
        if name not in self._names:
            known = ", ".join(self._names) or "none"
            raise ExpressionError(f"There is no value {name[:200]}; there are: {known}.")
        return self._names[name]

    def _deciding(self, decides: bool, parts: Sequence[ast.expr]) -> object:  # noqa: FBT001 -- a truth value
        """The first part that decides an `and` or an `or`, else the last, as in Python."""
        value: object = None
        for part in parts:
            value = self.value_of(part)
            if bool(value) is decides:
                break
        return value

    def _compare(self, node: ast.Compare) -> bool:
        left = self.value_of(node.left)
        for sign, part in zip(node.ops, node.comparators, strict=True):
            if type(sign) not in _COMPARISONS:
                raise ExpressionError("The expression compares in a way that is not known.")
            right = self.value_of(part)
            if not _work_out(_COMPARISONS[type(sign)], left, right):
                return False
            left = right
        return True

    def _call(self, name: str, arguments: Sequence[ast.expr]) -> object:
        if name not in _FUNCTIONS:
            known = ", ".join(_FUNCTIONS)
            raise ExpressionError(f"There is no function {name[:200]}; there are: {known}.")
        return _work_out(_FUNCTIONS[name], *(self.value_of(argument) for argument in arguments))


def _work_out(work: Callable[..., object], *values: object) -> object:
    try:
        result = work(*values)
    except ExpressionError:
        raise
    except ZeroDivisionError:
        raise ExpressionError("The expression divides by zero.") from None
    except OverflowError:
        raise ExpressionError("The expression grows too large.") from None
    except (TypeError, ValueError) as reason:
        raise ExpressionError(f"The expression cannot be worked out: {reason}.") from None
    if isinstance(result, complex):
        raise ExpressionError("The expression takes a root of a negative number.")
    return result


def _check_bits(bits: float) -> None:
    if bits > _MOST_BITS:
        raise ExpressionError("The expression grows too large.")


def _product(left: Value, right: Value) -> Number:
    # A list times a number would be a longer list.
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        raise TypeError("only numbers can be multiplied")
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    return left * right


def _sum(left: Value, right: Value) -> Number:
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        raise TypeError("only numbers can be added")
    return left + right


def _power(base: Number, exponent: Number) -> object:
    if abs(exponent) > _MOST_EXPONENT:
        raise ExpressionError(f"The expression has an exponent above {_MOST_EXPONENT}.")
    if isinstance(base, int) and isinstance(exponent, int):
        _check_bits(base.bit_length() * exponent)
    return base**exponent


def _shift_left(number: int, places: int) -> int:
    _check_bits(operator.index(number).bit_length() + operator.index(places))
    return number << places


def _round(number: Number, digits: int = 0) -> Number:
    if abs(digits) > _MOST_EXPONENT:
        raise ExpressionError(f"The expression rounds to more than {_MOST_EXPONENT} digits.")
    return round(number, digits) if digits else round(number)


def _total(*values: Any) -> Number:
    return sum(values[0]) if len(values) == 1 and isinstance(values[0], Sequence) else sum(values)


_UNARY: Final[Mapping[type[ast.unaryop], Callable[..., object]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_BINARY: Final[Mapping[type[ast.operator], Callable[..., object]]] = {
    ast.Add: _sum,
    ast.Sub: operator.sub,
    ast.Mult: _product,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.LShift: _shift_left,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[..., bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, values: value in values,
    ast.NotIn: lambda value, values: value not in values,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "float": float,
    "floor": math.floor,
    "int": int,
    "log": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "max": max,
    "min": min,
    "pow": _power,
    "round": _round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "sum": _total,
    "tan": math.tan,
    "trunc": math.trunc,
}
