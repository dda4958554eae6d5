"""Signed links: good as they were made and until their time, and in no other form."""

from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.identity.links import KEY_BYTES_MIN, LinkParts, LinkRefusedError, Links

KEY: Final = bytes(range(32))
NOW: Final = 1_800_000_000
TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
PARTS: Final = ("id", "expires", "disposition", "name", "signature")


def parts_of(link: str) -> LinkParts:
    """Read a link as a server does."""
    url = urlsplit(link)
    assert url.path.startswith("/assets/")
    query = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=True))
    assert list(query) == ["expires", "disposition", "name", "signature"]
    return LinkParts(unquote(url.path.removeprefix("/assets/")), **query)


def make_parts(links: Links | None = None) -> LinkParts:
    """Make the parts of a link that is good for a minute."""
    return parts_of((links or Links(KEY)).sign("asset-1", NOW + 60, "a picture.png", "inline"))


@pytest.mark.req("R-36")
@given(asset_id=TEXTS, name=TEXTS, disposition=st.sampled_from(["inline", "attachment"]), left=st.integers(1, 10**9))
def test_signed_link_is_verified(asset_id: str, name: str, disposition: str, left: int) -> None:
    """Whatever is signed is good until its time and says what was signed."""
    link = Links(KEY).sign(asset_id, NOW + left, name, disposition)
    assert link.isascii()
    parts = parts_of(link)
    assert (parts.id, parts.name, parts.disposition) == (asset_id, name, disposition)
    for now in (0, NOW, NOW + left - 0.001):
        assert Links(KEY).verify(parts, now) == NOW + left


@pytest.mark.req("R-36")
def test_link_expires_at_its_second() -> None:
    """At its very second a link has expired, and says so."""
    for now in (NOW + 60, NOW + 61, NOW + 10**9):
        with pytest.raises(LinkRefusedError, match="expired"):
            Links(KEY).verify(make_parts(), now)


@pytest.mark.req("R-36")
@given(part=st.sampled_from(PARTS), text=TEXTS)
def test_no_part_of_a_link_can_be_replaced(part: str, text: str) -> None:
    """No part of a link can be another text."""
    good = make_parts()
    if text != getattr(good, part):
        with pytest.raises(LinkRefusedError, match="not one of ours"):
            Links(KEY).verify(replace(good, **{part: text}), NOW)


@pytest.mark.req("R-36")
@given(part=st.sampled_from(PARTS), place=st.integers(0, 60), char=st.characters(exclude_categories=["Cs"]))
def test_no_part_of_a_link_has_a_second_spelling(part: str, place: int, char: str) -> None:
    """Neither one more character nor one other passes: no part has a second spelling."""
    good = make_parts()
    text: str = getattr(good, part)
    place %= len(text)
    for altered in (text[:place] + char + text[place:], text[:place] + char + text[place + 1 :], text[:-1]):
        if altered != text:
            with pytest.raises(LinkRefusedError, match="not one of ours"):
                Links(KEY).verify(replace(good, **{part: altered}), NOW)


@pytest.mark.parametrize(
    "expires", [f"0{NOW + 60}", f"+{NOW + 60}", f" {NOW + 60}", f"{NOW + 60}.0", "\uff19" * 10, ""]
)
def test_time_of_a_link_has_one_spelling(expires: str) -> None:
    """The very text of the time is signed, and one that is not a time is refused even when it was."""
    with pytest.raises(LinkRefusedError):
        Links(KEY).verify(replace(make_parts(), expires=expires), NOW)


@pytest.mark.parametrize("time", [-1, 10**15])
def test_impossible_time_is_refused(time: int) -> None:
    """A signed time that is before 1970, or so far away that it must be a mistake, is refused all the same."""
    with pytest.raises(LinkRefusedError):
        Links(KEY).verify(parts_of(Links(KEY).sign("asset-1", time, "a", "inline")), NOW)


def test_parts_of_a_link_are_signed_apart() -> None:
    """Two links whose parts would read the same when joined have different signatures."""
    one = parts_of(Links(KEY).sign("a", NOW, "b", "inline"))
    assert one.signature != parts_of(Links(KEY).sign("a", NOW, "", "inlineb")).signature


def test_link_signed_with_another_key_is_refused() -> None:
    """A link that was signed with another key is not ours."""
    with pytest.raises(LinkRefusedError):
        Links(KEY).verify(make_parts(Links(bytes(32))), NOW)


def test_short_key_is_refused() -> None:
    """A key that could be guessed is refused before anything is signed with it."""
    with pytest.raises(ValueError, match="32 bytes"):
        Links(b"x" * (KEY_BYTES_MIN - 1))


def test_surrogate_in_a_link_is_refused() -> None:
    """What no UTF-8 can say is refused as any other link."""
    for part in PARTS:
        with pytest.raises(LinkRefusedError):
            Links(KEY).verify(replace(make_parts(), **{part: "\ud800"}), NOW)
