"""A large document is read and rewritten by its outline, and comes out as if it had been read whole."""

import copy
import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.documents.examining import OfBody, examine
from fairlead.documents.outline import LONG_BYTES, LargeDocument, LongText, mark_of
from fairlead.domain.catalog.body import read_body

_NONCE: Final = "0123456789abcdef" * 2
_encode: Final = msgspec.json.Encoder(enc_hook=mark_of).encode
_UNITS: Final = st.sampled_from(["a", "é", "😀", '"', "\\", ",", "{}", "\n", "/", "\u007f"])
_TEXTS: Final = st.builds(lambda unit, size: unit * size, _UNITS, st.sampled_from([0, 3, 2000, 5000, 9000]))
_DOCUMENTS: Final = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        _TEXTS | st.integers(-(2**53), 2**53) | st.none(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
        max_leaves=8,
    ),
    max_size=6,
)


def large(content: bytes) -> LargeDocument:
    """The document of a body that is in order."""
    found = examine(OfBody(_NONCE), content)
    assert found.refusal is None
    return found.document(content, _NONCE)


def whole(value: Any) -> Any:
    """A document with the texts themselves for its long ones."""
    if isinstance(value, LongText):
        return value.whole()
    if isinstance(value, dict):
        return {name: whole(inner) for name, inner in value.items()}
    return [whole(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.req("S-02")
@given(document=_DOCUMENTS, escaped=st.booleans(), indent=st.sampled_from([None, 1]))
def test_outline_says_what_the_document_says(document: Any, *, escaped: bool, indent: int | None) -> None:
    """Texts are as long as they are, are found again, and every byte comes out as it went in."""
    content = json.dumps(document, ensure_ascii=escaped, indent=indent).encode()
    made = large(content)
    assert made.fill(made.outline) == content
    read = made.with_texts(read_body(made.outline))
    assert whole(read) == document
    assert json.loads(made.fill(_encode(read))) == document
    assert len(made.outline) <= len(content)


@pytest.mark.req("S-02")
def test_long_text_keeps_its_length_and_its_words() -> None:
    """Prices count its characters and look for words in it, whatever its mark is."""
    text = "Éa" * LONG_BYTES
    made = large(json.dumps({"a": text}).encode())
    long = made.with_texts(read_body(made.outline))["a"]
    assert isinstance(long, LongText)
    assert (len(long), long.lower(), copy.deepcopy({"a": long})["a"]) == (len(text), text.lower(), long)
    assert made.fill(_encode({"b": f"data:{long.mark},x"})) == b'{"b":"data:%b,x"}' % json.dumps(text)[1:-1].encode()


@pytest.mark.req("S-02")
def test_long_text_is_never_written_by_mistake() -> None:
    """An encoder that was not made for it fails instead of writing a mark."""
    made = large(json.dumps({"a": "x" * 9000}).encode())
    with pytest.raises(TypeError):
        msgspec.json.encode(made.with_texts(read_body(made.outline)))


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a":1,"a":2}', "not valid JSON"),
        (b'{"a":"\xff' + b"x" * 9000 + b'"}', "not valid JSON"),
        (b'{"a":"' + b"\\x" * 9000 + b'"}', "not valid JSON"),
        (b'{"a":1e999}', "too large"),
        (b'{"a":' + b"9" * 2000 + b"}", "too large"),
        (b'{"' + b"n" * 5000 + b'" : 1}', "4 MiB"),
        (b'{"a":[' + b'"' + b'","'.join([b"x" * 4000] * 1200) + b'"]}', "4 MiB"),
        (b"[]", "must be a JSON object"),
    ],
)
def test_document_that_cannot_be_outlined_is_refused(content: bytes, words: str) -> None:
    """What is not a clean object is refused as ever, and so is what is large otherwise than by its texts."""
    refusal = examine(OfBody(_NONCE), content).refusal
    assert refusal is not None
    assert words in refusal


@pytest.mark.req("S-02", "R-21")
def test_schema_sees_the_whole_document() -> None:
    """Lengths and patterns of long texts are checked, and the name that the path gives is filled in."""
    schema = msgspec.json.encode(
        {
            "type": "object",
            "required": ["model", "a"],
            "properties": {"model": {"type": "string"}, "a": {"type": "string", "maxLength": 9000, "pattern": "^x+$"}},
        }
    )
    asked = OfBody(_NONCE, schema, "m")
    kinds = [
        [found.type for found in examine(asked, json.dumps({"a": text}).encode()).violations]
        for text in ("x" * 9000, "x" * 9001, "x" * 8999 + "y")
    ]
    assert kinds == [[], ["string_too_long"], ["string_pattern_mismatch"]]
