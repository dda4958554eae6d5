"""Names say what is ours: no drawer for leftovers, no outdated word; functions are verbs, and booleans questions."""

import ast
import re
from typing import Final

from form.sources import ROOT, Function, modules, project_files

_BANNED_NAMES: Final = frozenset({"utils", "util", "common", "helpers", "helper", "misc", "types"})

_BANNED_WORDS: Final = {
    r"\b(?:TODO|FIXME|XXX)\b(?!.*#\d+)": "name its issue on the same line, as in #12, or do it now",
    r"(?i)\bblack-?list": "say what it does: denied, refused, blocked",
    r"(?i)\bwhite-?list": "say what it does: allowed",
    r"(?i)\bsanity[ -]check": "say what is checked",
    r"(?i)\bdummy\b": "say what it stands for: placeholder, made-up, fake",
}
_VERBS: Final = re.compile(r"embed|exceed|feed|heed|need|proceed|reseed|seed|shed")
_PARTICIPLE: Final = re.compile(
    r"\w+ed|begun|bought|broken|brought|built|caught|chosen|done|drawn|driven|fallen|felt|forgotten|found|frozen|given"
    r"|gone|grown|heard|held|hidden|kept|known|laid|left|lent|lost|made|meant|met|paid|said|seen|sent|shown|sold|sought"
    r"|spent|spoken|stolen|stood|struck|stuck|sunk|taken|taught|thought|thrown|told|torn|understood|won|worn|written"
)
"""Those that are verbs as well are left out: `read`, `set`, `bound` (to limit)."""
_PARTICLE: Final = re.compile(
    r"again|ahead|also|apart|as|at|away|back|before|by|down|elsewhere|full|further|here|in|longer|now|of|off|often|on"
    r"|out|over|to|up|with"
)
_BOOLEANS: Final = frozenset({"bool", "bool | None"})
_QUESTION: Final = re.compile(r"_?(is|has|have|may|can|was|were|are|did|\w*[^s_]s|goes|passes|dot_is)_|_?\w*[^s_]s\Z")
"""Begins with a verb, which in the third person ends in an s."""
_GIVEN: Final = frozenset({
    "byok", "caller_left", "deprecated", "redirected", "sso_required", "strict", "told_refusal",  # columns
    "by_itself", "delivered", "resumed",  # keys of log lines, and of what a command prints
    "clear", "costly", "created_new", "expired", "now",  # members of documents, of faults that are stored
    "disconnected", "enable_expand", "not_idempotent", "sound",  # of uvicorn, of node packs, of the simulator
})  # fmt: skip
"""Names of booleans that something outside the code has given."""
_DEFINED: Final = re.compile(r"\bdef (\w+)")
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


def test_no_function_is_named_by_a_participle_alone() -> None:
    """A function is a verb, `find` and not `found`; a participle with its noun is fine: `kept_result`."""
    found = [
        f"{module.place(node.lineno)}: {node.name}"
        for module in modules("src", "tests", "bench", "examples")
        if any(map(_is_participle, _DEFINED.findall(module.text)))  # most need not be parsed
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not _is_value(node) and _is_participle(node.name)
    ]
    assert found == []


def _is_value(function: Function) -> bool:
    """Whether it is read like a variable: a property, or a fixture of pytest."""
    return any(
        word in ast.unparse(decorator) for decorator in function.decorator_list for word in ("property", "fixture")
    )


def _is_participle(name: str) -> bool:
    first, *others = name.strip("_").split("_")
    is_alone = not others or _PARTICLE.fullmatch(others[0]) is not None
    return is_alone and _PARTICIPLE.fullmatch(first) is not None and _VERBS.fullmatch(first) is None


def test_booleans_of_records_read_as_questions() -> None:
    """`is_strict` and not `strict`; names that a column, a file, a document or a setting has given stay."""
    found = {
        f"{module.dotted}.{owner.name}.{name}"
        for module in modules("src")
        for owner in ast.walk(module.tree)
        if isinstance(owner, ast.ClassDef) and not _is_named_elsewhere(owner)
        for name in map(_boolean_of, owner.body)
        if name is not None and name not in _GIVEN and not _QUESTION.match(name)
    }
    assert found == set()


def _is_named_elsewhere(owner: ast.ClassDef) -> bool:
    """Whether the members of a class have names of documents, of files of a catalog, of settings, or of node packs."""
    is_document = any(ast.unparse(base) == "TypedDict" for base in owner.bases)
    return is_document or owner.name == "Settings" or owner.name.endswith("File")


def _boolean_of(member: ast.stmt) -> str | None:
    """The name of a member that is a boolean: a field, or a property."""
    match member:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            return name if ast.unparse(annotation) in _BOOLEANS else None
        case ast.FunctionDef(name=name, returns=ast.Name(id="bool")) if _is_value(member):
            return name
        case _:
            return None
