"""Names of workflow files (C-02): how they are cleaned, how they differ, and what a workflow means by one.

The namespace of a workspace is flat. A name is a key of a table and never a path, so folders in it are dropped rather
than refused, wherever clients of this format send some.
"""

import re
import unicodedata
from typing import Final

import msgspec

KINDS: Final = ("input", "output", "temp")
"""What a file is for: uploaded by callers, made by jobs, or made by jobs to be shown for a while."""
NAME_BYTES_MAX: Final = 200
_KEPT_BYTES_MAX: Final = 255
_GIVEN_MAX: Final = 2_000
_EXTENSION_MAX: Final = 20
_CONTENT: Final = re.compile(r"(?:blake3:)?(?P<digest>[0-9a-f]{64})(?:\.[A-Za-z0-9]{1,10})?")
_ANNOTATED: Final = re.compile(r"(?P<name>.*?)\s*\[(?P<kind>input|output|temp)\]", re.DOTALL)
_WEB: Final = re.compile(r"https?://", re.IGNORECASE)
_OUTPUT: Final = re.compile(r"(.+)_([0-9]{5,})_\.[^.]+", re.DOTALL)
_EXTENSION: Final = re.compile(r"\.?(?P<extension>[A-Za-z0-9]{1,10})")


class FileReference(msgspec.Struct, frozen=True):
    """A file as it is asked for: by its name, or by its content where that is a digest; `kind` where it names one."""

    name: str
    kind: str | None = None
    content: str | None = None


def clean_name(given: str) -> str | None:
    """The name a file is stored under: no folders or control characters, at most 200 bytes; None when nothing is left.

    Colons become underscores, because they mark drives, and names that stand for content.
    """
    plain = _plain(_last_part(given[:_GIVEN_MAX]))
    while annotated := _ANNOTATED.fullmatch(plain):  # a name with this end could not be asked for
        plain = annotated["name"]
    return None if plain.strip(". ") == "" else _shorten(plain)


def number_name(name: str, number: int) -> str:
    """The name of a file whose name is taken, such as `photo (1).png`."""
    stem, extension = split_name(name)
    return f"{stem} ({number}){extension}"


def is_numbered(candidate: str, name: str) -> bool:
    """Whether a name is one that `number_name` makes of another."""
    stem, extension = split_name(name)
    middle = candidate.removeprefix(f"{stem} (").removesuffix(f"){extension}")
    return middle.isascii() and middle.isdecimal() and candidate == f"{stem} ({middle}){extension}"


def split_name(name: str) -> tuple[str, str]:
    """A name in two: what comes before its extension, and the extension with its dot, which may be empty."""
    stem, dot, extension = name.rpartition(".")
    return (stem, dot + extension) if stem and len(extension) <= _EXTENSION_MAX else (name, "")


def output_name(beginning: str, extension: str, number: int) -> str:
    """The name of a file that a job makes, such as `picture_00001_.png`."""
    return f"{beginning}_{number:05}_.{extension}"


def numbered_output(name: str) -> tuple[str, int] | None:
    """The beginning and the number of a name that `output_name` made; None for another name."""
    found = _OUTPUT.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


def clean_extension(given: str) -> str | None:
    """An extension without its dot; None if it is not one."""
    found = _EXTENSION.fullmatch(given)
    return None if found is None else found["extension"]


def flat_name(given: str) -> str | None:
    """A name with folders as one name that contains them: `set/1.png` is `set_1.png`. None for no name."""
    parts = [part for part in given[:_GIVEN_MAX].replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return clean_name("_".join(parts))


def read_reference(given: str) -> FileReference | None:
    """The file that a name means, such as `photo.png [output]` or `blake3:…`; None for what cannot be a name."""
    annotated = _ANNOTATED.fullmatch(given) if len(given) <= _GIVEN_MAX else None
    text, kind = (annotated["name"], annotated["kind"]) if annotated else (given, None)
    last = _last_part(text)
    name, content = _plain(last), _CONTENT.fullmatch(last)
    if len(given) > _GIVEN_MAX or name in ("", ".", ".."):
        return None
    return FileReference(name, kind, content["digest"] if content else None)


def is_kept_name(name: str) -> bool:
    """Whether a file can have this name: it was cleaned, and perhaps numbered."""
    is_plain = name.isprintable() and not set(name) & set("/\\:") and name not in ("", ".", "..")
    return is_plain and len(name.encode()) <= _KEPT_BYTES_MAX


def is_web_link(given: str) -> bool:
    """Whether a name is a link to be downloaded."""
    return _WEB.match(given) is not None


def leads_elsewhere(given: str) -> bool:
    """Whether a name is a path out of its folder, by mistake or in an attack."""
    return given.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", given) or "\0" in given


def _last_part(text: str) -> str:
    return text.replace("\\", "/").rpartition("/")[2]


def _plain(text: str) -> str:
    """A text of one line without invisible characters; every kind of space becomes a space."""
    spaced = (" " if unicodedata.category(char) == "Zs" else char for char in text)
    return "".join(char for char in spaced if char.isprintable()).replace(":", "_").strip()


def _shorten(name: str) -> str:
    stem, extension = split_name(name)
    room = NAME_BYTES_MAX - len(extension.encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip() + extension
