"""The metrics and labels that expressions of PromQL name; whether an expression is valid is promtool's to say."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'")
_SELECTOR: Final = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)?\s*\{([^}]*)\}")
_LABEL: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*(?:=~|!~|!=|=)")
_RANGE: Final = re.compile(r"\[[^\]]*\]")
_GROUPING: Final = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NAME: Final = re.compile(r"(?<![\w.$])([A-Za-z_:][A-Za-z0-9_:]*)(\s*\()?")
_WORDS: Final = frozenset({"and", "or", "unless", "bool", "offset", "by", "without", "inf", "nan"})


class Named(msgspec.Struct, frozen=True):
    """A metric that an expression names, and the labels that it selects by."""

    metric: str
    labels: frozenset[str] = frozenset()


def metrics_in(expression: str) -> Iterator[Named]:
    """Every metric that an expression names, once for each place."""
    text = _GROUPING.sub(" ", _RANGE.sub(" ", _STRING.sub('""', expression)))
    for name, labels in _SELECTOR.findall(text):
        yield Named(name, frozenset(_LABEL.findall(labels)))
    for name, is_function in _NAME.findall(_SELECTOR.sub(" ", text)):
        if not is_function and name not in _WORDS:
            yield Named(name)


def groupings_in(expression: str) -> set[str]:
    """The labels that an expression groups or matches by."""
    found = _GROUPING.findall(_STRING.sub('""', expression))
    return {label.strip() for _, labels in found for label in labels.split(",") if label.strip()}
