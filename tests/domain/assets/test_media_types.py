"""What assets are served as: safe types only, recognised by what was declared, else by how the bytes begin."""

import pytest

from fairlead.domain.assets.media_types import TEXT, UNKNOWN, extension, is_shown, media_type

_BEGINNINGS = [
    ("image/png", b"\x89PNG\r\n\x1a\n\0\0"),
    ("image/jpeg", b"\xff\xd8\xff\xe0"),
    ("image/gif", b"GIF89a"),
    ("image/webp", b"RIFF\0\0\0\0WEBPVP8 "),
    ("image/avif", b"\0\0\0\x1cftypavif"),
    ("audio/wav", b"RIFF\0\0\0\0WAVEfmt "),
    ("video/mp4", b"\0\0\0\x20ftypisom"),
    ("video/quicktime", b"\0\0\0\x14ftypqt  "),
    ("audio/mp4", b"\0\0\0\x20ftypM4A "),
    ("video/webm", b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm"),
    ("audio/mpeg", b"ID3\x04"),
    ("audio/mpeg", b"\xff\xfb\x90d"),
    ("audio/ogg", b"OggS\0"),
    ("audio/flac", b"fLaC\0"),
    ("model/gltf-binary", b"glTF\x02\0\0\0"),
    ("model/gltf+json", b'{ "asset": {"version": "2.0"}}'),
    ("model/obj", b"# made by somebody\nmtllib a.mtl\nv 1.0 -2.5e-3 0\n"),
    ("application/zip", b"PK\x03\x04"),
]


@pytest.mark.parametrize(("expected", "head"), _BEGINNINGS)
def test_file_is_recognised_by_its_first_bytes(expected: str, head: bytes) -> None:
    """Bytes without a usable type are served as what they begin like."""
    for declared in (None, "", "application/octet-stream", "binary/octet-stream", "text/plain"):
        assert media_type(declared, head) == expected
    assert extension(expected).startswith(".")


@pytest.mark.parametrize(
    "declared", ["text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "IMAGE/SVG+XML"]
)
@pytest.mark.parametrize("head", [b"<html><script>", b"<svg onload=", b"", b"v is for vendetta", b"\x1aE\xdf\xa3"])
def test_page_that_could_run_a_script_is_served_as_bytes(declared: str, head: bytes) -> None:
    """What could run a script in a browser becomes bytes to be saved."""
    assert media_type(declared, head) == UNKNOWN
    assert not is_shown(UNKNOWN)
    assert extension(UNKNOWN) == ".bin"


def test_text_is_served_as_text_unless_it_begins_like_another_type() -> None:
    """Servers declare text where they know nothing, so the bytes come first; a text is saved and never shown."""
    assert media_type("text/plain; charset=utf-8", b"words") == TEXT
    assert not is_shown(TEXT)
    assert extension(TEXT) == ".txt"


def test_safe_declared_type_is_kept() -> None:
    """A declared type wins where it is safe, in its usual spelling and without its parameters."""
    assert media_type("Image/PNG; charset=binary", b"anything") == "image/png"
    assert media_type("audio/x-wav", b"") == "audio/wav"


def test_only_pictures_films_and_sounds_are_shown_in_a_browser() -> None:
    """Pictures, films and sounds are shown; anything else is saved."""
    shown = {expected for expected, _ in _BEGINNINGS if is_shown(expected)}
    assert {type_.partition("/")[0] for type_ in shown} == {"image", "video", "audio"}
    assert not is_shown("image/svg+xml")
