"""Nodes that work on texts: join, cut, compare, search, replace, fill in, and write values as text."""

import json
import string as alphabets
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

from fairlead.engine.nodes.node import Output, boolean, combo, integer, node, socket, text
from fairlead.engine.texts.bounds import as_json, check_length
from fairlead.engine.texts.patterns import FaultyPatternError, Pattern
from fairlead.engine.texts.templates import fill

_CATEGORY: Final = "text"
_TEXT: Final = (Output("STRING"),)
_TEXTS: Final = (Output("STRING", "texts", is_list=None),)
_MOST_ATTEMPTS: Final = 100
_VALUES_TEMPLATE: Final = {
    "input": {"required": {"value": ["*", {}]}},
    "names": list(alphabets.ascii_lowercase),
    "min": 0,
}

# --- Joining and cutting ----------------------------------------------------------------------------------------------


@node("StringConcatenate", "Concatenate Text", _CATEGORY, outputs=_TEXT)
def concatenate(
    string_a: Annotated[str, text(multiline=True)],
    string_b: Annotated[str, text(multiline=True)],
    delimiter: Annotated[str, text("", multiline=False)],
) -> str:
    """Two texts with something between them."""
    check_length(len(string_a) + len(delimiter) + len(string_b))
    return string_a + delimiter + string_b


@node("StringSubstring", "Substring", _CATEGORY, outputs=_TEXT)
def substring(
    string: Annotated[str, text(multiline=True)],
    start: Annotated[int, integer()],
    end: Annotated[int, integer()],
) -> str:
    """The characters from `start` up to but not including `end`; negative indexes count from the end."""
    return string[start:end]


@node("StringLength", "Text Length", _CATEGORY, outputs=(Output("INT", "length"),))
def length(string: Annotated[str, text(multiline=True)]) -> int:
    """How many characters a text has."""
    return len(string)


@node("StringTrim", "Trim Text", _CATEGORY, outputs=_TEXT)
def trim(
    string: Annotated[str, text(multiline=True)],
    mode: Annotated[str, combo("Both", "Left", "Right", multiselect=False)],
) -> str:
    """The text without white space at its ends."""
    match mode:
        case "Left":
            return string.lstrip()
        case "Right":
            return string.rstrip()
        case _:
            return string.strip()


@node("CaseConverter", "Convert Text Case", _CATEGORY, outputs=_TEXT)
def convert_case(
    string: Annotated[str, text(multiline=True)],
    mode: Annotated[str, combo("UPPERCASE", "lowercase", "Capitalize", "Title Case", multiselect=False)],
) -> str:
    """The text in another case; Capitalize lowers all but the first letter."""
    match mode:
        case "UPPERCASE":
            return string.upper()
        case "lowercase":
            return string.lower()
        case "Capitalize":
            return string.capitalize()
        case _:
            return string.title()


# --- Comparing and replacing ------------------------------------------------------------------------------------------


@node("StringContains", "Contains Text", _CATEGORY, outputs=(Output("BOOLEAN", "contains"),))
def contains(
    string: Annotated[str, text(multiline=True)],
    substring: Annotated[str, text(multiline=True)],
    case_sensitive: Annotated[bool, boolean(default=True, advanced=True)],
) -> bool:
    """Whether one text is part of another."""
    return substring in string if case_sensitive else substring.lower() in string.lower()


@node("StringCompare", "Compare Text", _CATEGORY, outputs=(Output("BOOLEAN"),))
def compare(
    string_a: Annotated[str, text(multiline=True)],
    string_b: Annotated[str, text(multiline=True)],
    mode: Annotated[str, combo("Starts With", "Ends With", "Equal", multiselect=False)],
    case_sensitive: Annotated[bool, boolean(default=True, advanced=True)],
) -> bool:
    """Whether the first text starts with, ends with or equals the second."""
    first, second = (string_a, string_b) if case_sensitive else (string_a.lower(), string_b.lower())
    match mode:
        case "Starts With":
            return first.startswith(second)
        case "Ends With":
            return first.endswith(second)
        case _:
            return first == second


@node("StringReplace", "Replace Text", _CATEGORY, outputs=_TEXT)
def replace(
    string: Annotated[str, text(multiline=True)],
    find: Annotated[str, text(multiline=True)],
    replace: Annotated[str, text(multiline=True)],
) -> str:
    """The text with each occurrence of another replaced."""
    return _replace(string, find, replace)


def _replace(string: str, find: str, replacement: str) -> str:
    check_length(len(string) + string.count(find) * (len(replacement) - len(find)))
    return string.replace(find, replacement)


# --- Regular expressions ----------------------------------------------------------------------------------------------


@node("RegexMatch", "Match Text", _CATEGORY, outputs=(Output("BOOLEAN", "matches"),))
def match_pattern(
    string: Annotated[str, text(multiline=True)],
    regex_pattern: Annotated[str, text(multiline=True)],
    case_insensitive: Annotated[bool, boolean(default=True, advanced=True)],
    multiline: Annotated[bool, boolean(default=False, advanced=True)],
    dotall: Annotated[bool, boolean(default=False, advanced=True)],
) -> bool:
    """Whether a pattern matches anywhere; an invalid pattern never does."""
    try:
        return Pattern(regex_pattern, case_insensitive, multiline, dotall).is_in(string)
    except FaultyPatternError:
        return False


@node("RegexExtract", "Extract Text", _CATEGORY, outputs=_TEXT)
def extract_pattern(
    string: Annotated[str, text(multiline=True)],
    regex_pattern: Annotated[str, text(multiline=True)],
    mode: Annotated[str, combo("First Match", "All Matches", "First Group", "All Groups", multiselect=False)],
    case_insensitive: Annotated[bool, boolean(default=True, advanced=True)],
    multiline: Annotated[bool, boolean(default=False, advanced=True)],
    dotall: Annotated[bool, boolean(default=False, advanced=True)],
    group_index: Annotated[int, integer(1, 0, 100, advanced=True)],
) -> str:
    """The matches of a pattern, one per line; empty for an invalid pattern.

    All Matches of a pattern with groups are those of its first group.
    """
    pattern = Pattern(regex_pattern, case_insensitive, multiline, dotall)
    try:
        match mode:
            case "First Match":
                found = pattern.find_in(string, group=0, count=1)
            case "First Group":
                found = pattern.find_in(string, group_index, count=1)
            case "All Groups":
                found = pattern.find_in(string, group_index)
            case _:
                found = pattern.find_in(string)
    except FaultyPatternError:
        return ""
    return "\n".join(found)


@node("RegexReplace", "Replace Text (Regex)", _CATEGORY, outputs=_TEXT)
def replace_pattern(
    string: Annotated[str, text(multiline=True)],
    regex_pattern: Annotated[str, text(multiline=True)],
    replace: Annotated[str, text(multiline=True)],
    case_insensitive: Annotated[bool | None, boolean(default=True, advanced=True)] = None,
    multiline: Annotated[bool | None, boolean(default=False, advanced=True)] = None,
    dotall: Annotated[bool | None, boolean(default=False, advanced=True)] = None,
    count: Annotated[int | None, integer(0, 0, 100, advanced=True)] = None,
) -> str:
    r"""The text with matches of a pattern replaced, at most `count` of them, 0 for all; `\1` stands for a group."""
    pattern = Pattern(regex_pattern, case_insensitive in {None, True}, bool(multiline), bool(dotall))
    return pattern.replace_in(string, replace, count or 0)


# --- Values as text ---------------------------------------------------------------------------------------------------


@node("StringFormat", "Format Text", _CATEGORY, outputs=_TEXT)
def fill_template(
    values: Annotated[Mapping[str, object], socket("COMFY_AUTOGROW_V3", template=_VALUES_TEMPLATE)],
    f_string: Annotated[str, text("{a}", multiline=True)],
) -> str:
    """A text with places for values, `{a}` to `{z}`."""
    return fill(f_string, values)


@node("JsonExtractString", "Extract Text from JSON", _CATEGORY, outputs=_TEXT)
def extract_from_json(
    json_string: Annotated[str, text(multiline=True)],
    key: Annotated[str, text(multiline=False)],
) -> str:
    """The value of a key of a JSON object as text; empty when there is none, or it is null.

    Where the text is not JSON, the first object in it is used, so that answers of language models, with prose and code
    fences around the object, can be read.
    """
    value = _json_in(json_string)
    found = value.get(key) if isinstance(value, dict) else None
    return "" if found is None else str(found)


def _json_in(written: str) -> object:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return next(_objects_in(written), None)


def _objects_in(written: str) -> Iterator[object]:
    decoder, start = json.JSONDecoder(), -1
    # Each attempt may read to the end, so their number is bounded.
    for _ in range(_MOST_ATTEMPTS):
        start = written.find("{", start + 1)
        if start < 0:
            return
        try:
            yield decoder.raw_decode(written, start)[0]
        except (ValueError, RecursionError):
            continue


@node("ConvertArrayToString", "Convert Array to String", _CATEGORY, outputs=_TEXT)
def array_to_text(
    array: Annotated[Sequence[object], socket("ARRAY")],
    indent: Annotated[int, integer(2, 0, 8)],
) -> str:
    """A list as JSON, on one line with an indent of 0."""
    return as_json(array, indent, otherwise=str)


@node("ConvertDictionaryToString", "Convert Dictionary to String", _CATEGORY, outputs=_TEXT)
def dictionary_to_text(
    dictionary: Annotated[Mapping[str, object], socket("DICT")],
    indent: Annotated[int, integer(2, 0, 8)],
) -> str:
    """A dictionary as JSON, on one line with an indent of 0."""
    return as_json(dictionary, indent, otherwise=str)


# --- Captions of data sets --------------------------------------------------------------------------------------------


@node("AddTextPrefix", "Add Text Prefix (DEPRECATED)", _CATEGORY, outputs=_TEXTS, is_experimental=True)
def add_prefix(
    texts: Annotated[str, text(multiline=False)],
    prefix: Annotated[str, text("", multiline=False)],
) -> list[str]:
    """A text with something before it."""
    check_length(len(prefix) + len(texts))
    return [prefix + texts]


@node("AddTextSuffix", "Add Text Suffix (DEPRECATED)", _CATEGORY, outputs=_TEXTS, is_experimental=True)
def add_suffix(
    texts: Annotated[str, text(multiline=False)],
    suffix: Annotated[str, text("", multiline=False)],
) -> list[str]:
    """A text with something after it."""
    check_length(len(texts) + len(suffix))
    return [texts + suffix]


@node("ReplaceText", "Replace Text (DEPRECATED)", _CATEGORY, outputs=_TEXTS, is_experimental=True)
def replace_text(
    texts: Annotated[str, text(multiline=False)],
    find: Annotated[str, text("", multiline=False)],
    replace: Annotated[str, text("", multiline=False)],
) -> list[str]:
    """A text with each occurrence of another replaced."""
    return [_replace(texts, find, replace)]


@node("StripWhitespace", "Strip Whitespace (DEPRECATED)", _CATEGORY, outputs=_TEXTS, is_experimental=True)
def strip_whitespace(texts: Annotated[str, text(multiline=False)]) -> list[str]:
    """A text without white space at its ends."""
    return [texts.strip()]


@node("TextToLowercase", "Convert Text to Lowercase (DEPRECATED)", _CATEGORY, outputs=_TEXTS, is_experimental=True)
def to_lowercase(texts: Annotated[str, text(multiline=False)]) -> list[str]:
    """A text in small letters."""
    return [texts.lower()]


@node("TextToUppercase", "Convert Text to Uppercase (DEPRECATED)", _CATEGORY, outputs=_TEXTS, is_experimental=True)
def to_uppercase(texts: Annotated[str, text(multiline=False)]) -> list[str]:
    """A text in capital letters."""
    return [texts.upper()]


@node("TruncateText", "Truncate Text", _CATEGORY, outputs=_TEXTS, is_experimental=True)
def truncate(
    texts: Annotated[str, text(multiline=False)],
    max_length: Annotated[int, integer(77, 1, 10000)],
) -> list[str]:
    """The first characters of a text."""
    return [texts[:max_length]]


@node(
    "MergeTextLists", "Merge Text Lists (DEPRECATED)", _CATEGORY, outputs=_TEXTS, is_input_list=True,
    is_experimental=True,
)  # fmt: skip
def merge_lists(texts: Annotated[Sequence[str], text(multiline=False)]) -> list[list[str]]:
    """All texts as one list, in a list of its own."""
    return [list(texts)]


NODES: Final = (
    concatenate,
    substring,
    length,
    trim,
    convert_case,
    contains,
    compare,
    replace,
    match_pattern,
    extract_pattern,
    replace_pattern,
    fill_template,
    extract_from_json,
    array_to_text,
    dictionary_to_text,
    add_prefix,
    add_suffix,
    replace_text,
    strip_whitespace,
    to_lowercase,
    to_uppercase,
    truncate,
    merge_lists,
)
