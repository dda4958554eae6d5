"""Links of a result: found where the rules say, and exchanged without touching another byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.assets.links import exchange_links, links_in
from fairlead.domain.catalog.models import Assets
from fairlead.domain.pointers import find, parse_pointer

LINK = "https://cdn.example/a/b.png?sig=1&x=2"
OURS = "http://127.0.0.1:8080/assets/1?a=b&c=d"


def rules(*places: str) -> Assets:
    """Return rules that list some places."""
    return Assets(tuple(parse_pointer(place) for place in places))


@pytest.mark.req("R-36")
def test_only_links_at_listed_places_are_found() -> None:
    """Links are found at the listed places only, and inline bytes are left where they are."""
    answer = {
        "data": [{"url": LINK, "thumb": LINK}, {"b64_json": "aGk="}, {"url": None}, {"url": "data:;base64,aGk="}],
        "response": {"videos": [{"gcsUri": "gs://bucket/a"}, {"bytesBase64Encoded": "aGk="}]},
        "url": LINK,
    }  # fmt: skip
    found = links_in(rules("/data/*/url", "/response/videos/*/gcsUri", "/nothing/*"), answer)
    assert found == {("data", "0", "url"): LINK, ("response", "videos", "0", "gcsUri"): "gs://bucket/a"}


@pytest.mark.req("R-36")
@pytest.mark.parametrize(
    "spelled",
    [
        '"https://cdn.example/a/b.png?sig=1&x=2"',
        r'"https:\/\/cdn.example\/a\/b.png?sig=1&x=2"',
        r'"https://cdn.example/a/b.png?sig=1\u0026x=2"',
        r'"https:\/\/cdn.example/\u0061/b.png?sig\u003D1\u0026x=2"',
    ],
)
def test_exchanging_a_link_changes_no_other_byte(spelled: str) -> None:
    """Only the listed link is exchanged, however it is escaped: spaces, order, numbers and equal links stay."""
    before = '{ "n" : 1.0e2,\n\t"also":"' + LINK + '", "a,{[":"\\"}]","data" :[ [1,2,{"x":[]}],{"u\\u0072l" :'
    after = ', "url2":' + spelled + r'}, "é\\"], "z": "' + LINK + '"}\n'
    content = (before + spelled + after).encode()
    changed = exchange_links(content, json.loads(content), {("data", "1", "url"): OURS})
    assert changed == (before + json.dumps(OURS) + after).encode()


def test_document_in_another_encoding_is_rewritten_with_the_new_link() -> None:
    """A document whose bytes do not show the link is written again with the new link in it."""
    answer = {"data": [{"url": LINK, "n": 1}]}
    changed = exchange_links(json.dumps(answer).encode("utf-16"), answer, {("data", "0", "url"): OURS})
    assert json.loads(changed) == {"data": [{"url": OURS, "n": 1}]}
    assert answer["data"][0]["url"] == LINK


@pytest.mark.parametrize("content", [b"]", b",", b'"', b"}{", b"", b'{"a":', b'{"\\x":"b"}'])
def test_bytes_that_are_no_document_are_replaced_by_one_that_is(content: bytes) -> None:
    """Bytes that do not say what the answer says are replaced by a document that does."""
    assert json.loads(exchange_links(content, {"a": LINK}, {("a",): OURS})) == {"a": OURS}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(LINK),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(document=_JSON, ascii_only=st.booleans(), indent=st.none() | st.integers(0, 2))
def test_link_is_exchanged_wherever_it_stands(document: Any, *, ascii_only: bool, indent: int | None) -> None:
    """Every link of any document can be exchanged at its place, and nothing else changes."""
    content = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode()
    every = list(_places(document, ()))
    changed = exchange_links(content, document, {place: f"new:{number}" for number, place in enumerate(every)})
    reread = json.loads(changed)
    assert [find(reread, place) for place in every] == [f"new:{number}" for number in range(len(every))]
    for number in range(len(every)):
        changed = changed.replace(f'"new:{number}"'.encode(), json.dumps(LINK).encode(), 1)
    assert changed == content


def _places(document: Any, above: tuple[str, ...]) -> Any:
    match document:
        case dict():
            for key, value in document.items():
                yield from _places(value, (*above, key))
        case list():
            for index, value in enumerate(document):
                yield from _places(value, (*above, str(index)))
        case _ if document == LINK:
            yield above
