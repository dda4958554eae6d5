"""What an asset is served as: the media types that are safe to serve, and how bytes without a type are recognised."""

import re
from collections.abc import Callable
from typing import Final

UNKNOWN: Final = "application/octet-stream"
HEAD_BYTES: Final = 1024
"""How much of an asset's beginning `media_type` looks at."""

_EXTENSIONS: Final = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "image/avif": ".avif",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "video/quicktime": ".mov",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "audio/aac": ".aac",
    "audio/mp4": ".m4a",
    "model/gltf-binary": ".glb",
    "model/gltf+json": ".gltf",
    "model/obj": ".obj",
    "application/zip": ".zip",
    "text/plain": ".txt",
}
"""The only types that are ever served, and the extensions of their files. No HTML and no SVG: those can run scripts."""

TEXT: Final = "text/plain"
"""Servers also declare it where they know nothing, so the first bytes are looked at before it is believed."""
_OTHER_SPELLINGS: Final = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/x-m4a": "audio/mp4",
    "application/ogg": "audio/ogg",
    "application/x-zip-compressed": "application/zip",
}
_SHOWN: Final = ("image/", "video/", "audio/")
_GLTF: Final = re.compile(rb'\s*\{(?s:.)*"asset"\s*:\s*\{')
_OBJ: Final = re.compile(rb"(?m)^v[ \t]+-?[0-9.]+(?:[eE][-+]?[0-9]+)?[ \t]")
_MPEG_AUDIO: Final = re.compile(rb"ID3|\xff[\xfb\xf3\xf2\xfa]")

_SIGNATURES: Final[tuple[tuple[str, Callable[[bytes], bool]], ...]] = (
    ("image/png", lambda head: head.startswith(b"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", lambda head: head.startswith(b"\xff\xd8\xff")),
    ("image/gif", lambda head: head.startswith((b"GIF87a", b"GIF89a"))),
    ("image/webp", lambda head: head.startswith(b"RIFF") and head[8:12] == b"WEBP"),
    ("audio/wav", lambda head: head.startswith(b"RIFF") and head[8:12] == b"WAVE"),
    ("image/avif", lambda head: head[4:12] == b"ftypavif"),
    ("video/quicktime", lambda head: head[4:12] == b"ftypqt  "),
    ("audio/mp4", lambda head: head[4:12] == b"ftypM4A "),
    ("video/mp4", lambda head: head[4:8] == b"ftyp"),
    ("video/webm", lambda head: head.startswith(b"\x1aE\xdf\xa3") and b"webm" in head[:64]),
    ("audio/ogg", lambda head: head.startswith(b"OggS")),
    ("audio/flac", lambda head: head.startswith(b"fLaC")),
    ("audio/mpeg", lambda head: _MPEG_AUDIO.match(head) is not None),
    ("model/gltf-binary", lambda head: head.startswith(b"glTF")),
    ("application/zip", lambda head: head.startswith(b"PK\x03\x04")),
    ("model/gltf+json", lambda head: _GLTF.match(head) is not None),
    ("model/obj", lambda head: _OBJ.search(head) is not None),
)
"""How a file of each type begins; the first that matches is the type."""


def media_type(declared: str | None, head: bytes) -> str:
    """The type to serve bytes as: the declared one where it is safe, else that of their first bytes, else unknown."""
    told = (declared or "").partition(";")[0].strip().lower()
    told = _OTHER_SPELLINGS.get(told, told)
    if told in _EXTENSIONS and told != TEXT:
        return told
    return next((name for name, fits in _SIGNATURES if fits(head)), TEXT if told == TEXT else UNKNOWN)


def extension(type_: str) -> str:
    """The extension of files of a type."""
    return _EXTENSIONS.get(type_, ".bin")


def is_shown(type_: str) -> bool:
    """Whether a browser may show a type instead of saving it."""
    return type_ in _EXTENSIONS and type_.startswith(_SHOWN)
