"""Names say what is ours: no drawer for leftovers, no word the trade has left behind."""

import re
from typing import Final

from form.sources import ROOT, modules, project_files

_BANNED_NAMES: Final = frozenset({"utils", "util", "common", "helpers", "helper", "misc", "types"})

_BANNED_WORDS: Final = {
    r"\b(?:TODO|FIXME|XXX)\b(?!.*#\d+)": "name its issue on the same line, as in #12, or do it now",
    r"(?i)\bblack-?list": "say what it does: denied, refused, blocked",
    r"(?i)\bwhite-?list": "say what it does: allowed",
    r"(?i)\bsanity[ -]check": "say what is checked",
    r"(?i)\bdummy\b": "say what it stands for: placeholder, made-up, fake",
}
_SEARCHED: Final = frozenset({".py", ".toml", ".md", ".html", ".css", ".js", ".sh", ".yaml", ".yml"})


def test_every_module_and_folder_is_named_after_its_purpose() -> None:
    """A name that would fit any project says nothing about this one."""
    vague = [module.name for module in modules("src") if _BANNED_NAMES.intersection(module.dotted.split("."))]
    assert vague == [], "name these after what they are responsible for"


def test_no_banned_word_is_used() -> None:
    """Each banned word has a better one; leftover notes name their issue."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: {instead}"
        for path in project_files()
        if path.suffix in _SEARCHED and path.name != "test_names.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for pattern, instead in _BANNED_WORDS.items()
        if (match := re.search(pattern, line))
    ]
    assert found == []
