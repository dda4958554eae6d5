"""What a publisher, a node and a version may be called, and what they may say."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.registry import (
    BadEntry,
    NodeEntry,
    PublisherEntry,
    RegistryFaultError,
    VersionEntry,
    document_of,
    is_registry_id,
    is_version,
    refuse_entry,
    search_text_of,
    words_of,
)

_DOWNLOAD = "https://example.com/one.zip"


def wrong(entry: Any) -> str:
    """Return what is wrong with an entry, an empty text for nothing."""
    fault = refuse_entry(entry)
    return "" if fault is None else fault.detail


@pytest.mark.parametrize("text", ["a", "7", "a-b", "a.b", "a--b", "comfy-nodes.2", "x" * 100])
def test_good_registry_id_is_taken(text: str) -> None:
    """Lower-case letters and digits, with dashes and dots between them."""
    assert is_registry_id(text)


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "-a", "a-", "a.", "A", "a_b", "a b", "a/b", "a\n", "ä", "a\x00b", "x" * 101, "%2e", "\u0661"],
)
def test_id_that_cannot_stand_in_an_address_is_refused(text: str) -> None:
    """Nothing that an address would read otherwise, and nothing that looks like something else."""
    assert not is_registry_id(text)


@pytest.mark.parametrize("text", ["0.0.0", "1.2.3", "10.20.30", "1.0.0-rc.1", "1.0.0-x-y", "1.0.0-0a", "1.0.0-0.b"])
def test_semantic_version_is_taken(text: str) -> None:
    """Three numbers, perhaps with a pre-release behind them."""
    assert is_version(text)


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+build", "v1.2.3", "1.2.3 ",
     "1.2.3\n", "-1.2.3", "1.2.x", "\u0661.2.3", "1.2.3-" + "a" * 100],
)  # fmt: skip
def test_malformed_version_is_refused(text: str) -> None:
    """No leading zeros, no build metadata, no endless ones."""
    assert not is_version(text)


@given(st.text(alphabet="09.-aZ+ é", max_size=40))
def test_accepted_text_reads_the_same_when_taken_apart(text: str) -> None:
    """Whatever is sent is judged, and what is taken says the same when it is taken apart."""
    if is_version(text):
        numbers = text.partition("-")[0].split(".")
        assert [str(int(number)) for number in numbers] == numbers
    if is_registry_id(text):
        assert text == text.strip(".-").lower()


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"id": "A"}, "An id"),
        ({"id": ""}, "An id"),
        ({"name": " "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"description": "a\x00"}, "description"),
        ({"author": "a\x1b[2J"}, "author"),
        ({"icon": "http://example.com/a.png"}, "icon"),
        ({"icon": "https://example.com/a b"}, "icon"),
        ({"icon": "https://user@example.com/"}, "icon"),
        ({"icon": "javascript:alert(1)"}, "icon"),
        ({"repository": "https:///x"}, "repository"),
        ({"repository": "https://"}, "repository"),
        ({"tags": ("fine", "a\x7f")}, "tags"),
    ],
)
def test_text_that_cannot_be_shown_is_refused(changes: dict[str, Any], about: str) -> None:
    """Addresses are https without a user, and text has nothing in it that cannot be seen."""
    assert wrong(NodeEntry(**{"id": "a", "name": "A", **changes})).startswith(about)


def test_entry_may_be_multilingual_and_sparse() -> None:
    """What there is to say may have several lines and any script, and be left out."""
    assert wrong(PublisherEntry(id="a", name="Ærø 工房", description="one\n\ttwo\r\n")) == ""
    assert wrong(NodeEntry(id="a", name="A", repository="https://[::1]:8443/x?y#z", tags=("ß",))) == ""
    assert wrong(VersionEntry(version="1.0.0", download_url=_DOWNLOAD)) == ""


def test_version_needs_a_number_and_an_https_address() -> None:
    """A version has a number and an https address to be downloaded from."""
    assert wrong(VersionEntry(version="1", download_url=_DOWNLOAD)).startswith("A version")
    for address in ("", "http://example.com/one.zip", "one.zip"):
        assert wrong(VersionEntry(version="1.0.0", download_url=address)).startswith("download_url")


@pytest.mark.parametrize(
    "sent",
    [{"name": "A", "nmae": "B"}, {}, {"name": ""}, {"name": "x" * 101}, {"name": None}, {"name": "A", "tags": "b"},
     {"name": "A", "tags": ["x"] * 21}, {"name": "A", "tags": [""]}, {"name": "A", "description": "x" * 10_001}],
)  # fmt: skip
def test_body_with_unknown_properties_is_refused(sent: dict[str, Any]) -> None:
    """Unknown properties are refused, so that a misspelt one is not lost; lengths are bounded."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(sent, NodeEntry)


def test_document_holds_only_what_was_said() -> None:
    """A document has what was said and no more; the name of its subject is not part of it."""
    assert document_of(NodeEntry(id="a", name="A", tags=("b",))) == {"name": "A", "tags": ["b"]}
    assert document_of(VersionEntry(version="1.0.0", download_url=_DOWNLOAD)) == {"download_url": _DOWNLOAD}


def test_node_is_found_by_every_text_it_has() -> None:
    """It is found by its id, name, author, category, tags and description, in lower case."""
    node = NodeEntry(id="a-1", name="Big", author="Ann", category="Image", tags=("Up",), description="Makes it so")
    assert search_text_of(node) == "a-1\nbig\nann\nimage\nup\nmakes it so"
    assert words_of("  Big big\tUP ".replace("\t", " ")) == ("big", "up")
    assert words_of("") == ()


@pytest.mark.parametrize("search", ["x" * 101, "a\x00b", "a\ud800", "\u202e"])
def test_overlong_search_is_refused(search: str) -> None:
    """What is searched for has bounds."""
    with pytest.raises(RegistryFaultError) as raised:
        words_of(search)
    assert isinstance(raised.value.fault, BadEntry)
