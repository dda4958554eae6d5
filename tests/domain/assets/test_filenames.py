"""Names of workflow files: cleaned without harm, told apart, and understood as workflows mean them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.assets.filenames import (
    NAME_BYTES_MAX,
    FileReference,
    clean_extension,
    clean_name,
    flat_name,
    is_kept_name,
    is_numbered,
    is_web_link,
    leads_elsewhere,
    number_name,
    read_reference,
    split_name,
)

DIGEST = "0123456789abcdef" * 4


@pytest.mark.req("C-02")
@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("photo.png", "photo.png"),
        ("../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("C:\\Users\\me\\photo.png", "photo.png"),
        ("C:photo.png", "C_photo.png"),
        ("a\0b\r\nc\u202egnp.exe", "abcgnp.exe"),
        (" photo.png ", "photo.png"),
        ("photo.png [output]", "photo.png"),
        ("a [temp] [input]", "a"),
        (f"blake3:{DIGEST}", f"blake3_{DIGEST}"),
        ("fjörd 🖼.png", "fjörd 🖼.png"),
        (".hidden", ".hidden"),
        ("half\ud800.png", "half.png"),
        ("Screenshot at 3.04\u202fPM.png", "Screenshot at 3.04 PM.png"),
        ("..%2fpasswd", "..%2fpasswd"),
    ],
)
def test_file_name_is_cleaned_of_folders_and_control_characters(given_name: str, name: str) -> None:
    """Folders, control characters and what would be read as something else are taken out of a name."""
    assert clean_name(given_name) == name


@pytest.mark.parametrize("given_name", ["", " ", ".", "..", "a/..", "photo/", "\\", "\0", "[input]", " [output]"])
def test_name_of_which_nothing_is_left_is_none(given_name: str) -> None:
    """A name of which nothing is left is none."""
    assert clean_name(given_name) is None


def test_long_name_keeps_its_extension() -> None:
    """A long name is cut in front of its extension, at a whole character."""
    name = clean_name("ü" * 500 + ".png")
    assert name == "ü" * ((NAME_BYTES_MAX - 4) // 2) + ".png"
    assert clean_name("x" * 10_000_000) == "x" * NAME_BYTES_MAX


@pytest.mark.req("C-02")
@given(text=st.text(max_size=300))
def test_cleaned_name_is_bounded_and_never_a_path(text: str) -> None:
    """Whatever is sent, a cleaned name has a bound, holds no separator, stays itself, and can be asked for."""
    name = clean_name(text)
    if name is not None:
        assert clean_name(name) == name
        assert is_kept_name(number_name(name, 10**9))
        assert read_reference(name) is not None
        assert not leads_elsewhere(name)


@given(text=st.text(max_size=60), number=st.integers(1, 10**6))
def test_numbered_name_belongs_to_its_own_name_alone(text: str, number: int) -> None:
    """A numbered name is known as one of its name, and as no other's."""
    name = clean_name(text)
    if name is not None:
        assert is_numbered(number_name(name, number), name)
        assert not is_numbered(name, name)
        assert not is_numbered(number_name(name, number), f"x{name}")


def test_number_stands_before_the_extension() -> None:
    """The number comes before the extension; what is too long for one is none."""
    assert number_name("photo.tar.gz", 2) == "photo.tar (2).gz"
    assert number_name("photo", 1) == "photo (1)"
    assert split_name(".png") == (".png", "")
    assert not is_numbered("photo (copy).png", "photo.png")
    assert not is_numbered("photo ().png", "photo.png")


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("photo.png", FileReference("photo.png")),
        ("photo.png [output]", FileReference("photo.png", "output")),
        ("photo [1].png[temp]", FileReference("photo [1].png", "temp")),
        ("photo.png [other]", FileReference("photo.png [other]")),
        ("clipspace/mask-1.png [input]", FileReference("mask-1.png", "input")),
        (f"blake3:{DIGEST}", FileReference(f"blake3_{DIGEST}", None, DIGEST)),
        (f"{DIGEST}.png [temp]", FileReference(f"{DIGEST}.png", "temp", DIGEST)),
        ("C:my\u202fphoto.png", FileReference("C_my photo.png")),
        (f"{DIGEST.upper()}.png", FileReference(f"{DIGEST.upper()}.png")),
    ],
)
def test_reference_may_name_a_file_its_folder_or_its_content(text: str, reference: FileReference) -> None:
    """A workflow may name a file, the folder it is in, or its content."""
    assert read_reference(text) == reference


@pytest.mark.parametrize("text", ["", "..", "a/", "\0", "x" * 3_000, " [input]", "\n"])
def test_impossible_file_name_is_never_looked_up(text: str) -> None:
    """What no file can be called is asked of no database."""
    assert read_reference(text) is None


def test_exact_names_keep_their_folders() -> None:
    """Exact names keep their folders as a part of themselves."""
    assert (flat_name("set/1.png"), flat_name("other\\1.png")) == ("set_1.png", "other_1.png")
    assert (flat_name("../../1.png"), flat_name("/"), flat_name("a/./b")) == ("1.png", None, "a_b")


def test_extension_is_letters_and_digits() -> None:
    """An extension is letters and digits."""
    assert [clean_extension(text) for text in ("png", ".mp4", "", "tar.gz", "../x", "p" * 11)] == [
        "png", "mp4", None, None, None, None,
    ]  # fmt: skip


def test_only_http_addresses_are_links() -> None:
    """Links begin with http or https, and nothing else is one."""
    assert [is_web_link(text) for text in ("https://a/b", "HTTP://a", "ftp://a", "file:///etc/passwd", "a.png")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert [leads_elsewhere(text) for text in ("/a", "\\a", "../a", "a/../b", "a..b.png", "a\0")] == [
        True, True, True, True, False, True,
    ]  # fmt: skip
