"""Reading multipart and urlencoded forms; exact to the byte, and no more lenient than vendors are."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

import msgspec

PARTS_MAX = 256

_BOUNDARY = re.compile(r"boundary=(?:\"([^\"]{1,200})\"|([^;\s]{1,200}))", re.IGNORECASE)
_NAME = re.compile(r"[;\s]name=\"([^\"]*)\"", re.IGNORECASE)
_FILE_NAME = re.compile(r"[;\s]filename=\"([^\"]*)\"", re.IGNORECASE)


class Upload(msgspec.Struct, frozen=True):
    """A file in a form."""

    file_name: str
    content_type: str
    content: bytes


class Form(msgspec.Struct, frozen=True):
    """The fields and files of a form, by name, in order."""

    fields: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    files: Mapping[str, Sequence[Upload]] = msgspec.field(default_factory=dict)

    def first(self) -> Mapping[str, str]:
        """Return the first value of each field."""
        return {name: values[0] for name, values in self.fields.items()}


def read_form(content_type: str, body: bytes) -> Form | None:
    """Read a form, or return None if the body is not one."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        fields: dict[str, list[str]] = {}
        for name, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=PARTS_MAX):
            fields.setdefault(name, []).append(value)
        return Form(fields)
    match = _BOUNDARY.search(content_type)
    if kind != "multipart/form-data" or match is None:
        return None
    return _multipart(body, b"--" + (match[1] or match[2]).encode("latin-1"))


def _multipart(body: bytes, delimiter: bytes) -> Form | None:
    parts = (b"\r\n" + body).split(b"\r\n" + delimiter)
    if len(parts) < 2 or not parts[-1].startswith(b"--") or len(parts) > PARTS_MAX + 2:
        return None
    fields: dict[str, list[str]] = {}
    files: dict[str, list[Upload]] = {}
    for part in parts[1:-1]:
        head, separator, content = part.partition(b"\r\n\r\n")
        text = head.decode("utf-8", "replace")
        name = _NAME.search(text)
        if not separator or name is None:
            return None
        file_name = _FILE_NAME.search(text)
        if file_name is None:
            fields.setdefault(name[1], []).append(content.decode("utf-8", "replace"))
        else:
            files.setdefault(name[1], []).append(Upload(file_name[1], _content_type(text), content))
    return Form(fields, files)


def _content_type(head: str) -> str:
    for line in head.splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-type":
            return value.strip()
    return "application/octet-stream"
