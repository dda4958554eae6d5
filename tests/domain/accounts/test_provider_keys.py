"""Which texts may be a key at a provider, and what may be told of one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.accounts.callers import Caller, Patterns
from fairlead.domain.accounts.provider_keys import is_key, is_key_document, key_hint, refuse_managing
from fairlead.domain.faults import Forbidden


@pytest.mark.parametrize("text", ["k", "sk-" + "a" * 4093, "id:secret", "two words", "~!@#$%^&*(){}"])
def test_printable_ascii_is_a_key(text: str) -> None:
    """Up to 4096 printable ASCII characters are a key."""
    assert is_key(text)


@pytest.mark.parametrize(
    "text", ["", " ", "k" * 4097, " k", "k ", "k\n", "a\nb", "a\tb", "a\0b", "é", "a\x7f", "\udce9"]
)
def test_unsendable_text_is_no_key(text: str) -> None:
    """What could not be sent in a header, or was pasted with its surroundings, is not a key."""
    assert not is_key(text)


@pytest.mark.parametrize("text", ["{}", '{\n  "private_key": "-----BEGIN\\n"\n}\n', json.dumps({"k": "x" * 16_000})])
def test_service_account_document_is_taken(text: str) -> None:
    """A JSON object may be longer than a key, and have lines."""
    assert is_key_document(text)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '"k"', "{", '{"a":1,"a":2}', '{"a":NaN}', "{} {}", '{"a":"\udce9"}', json.dumps({"k": "x" * 17_000}),
     json.dumps({"k": "é" * 9_000}, ensure_ascii=False), "x" * 100_000],
    ids=["nothing", "array", "text", "half", "twice", "NaN", "two", "surrogate", "long", "long in UTF-8", "longer"],
)  # fmt: skip
def test_text_that_is_no_json_object_is_no_key_document(text: str) -> None:
    """Only one clean JSON object of at most 16 KiB is."""
    assert not is_key_document(text)


@pytest.mark.req("R-17")
@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_hint_shows_at_most_a_quarter_of_a_key(text: str) -> None:
    """A hint is the end of a key, and at most a quarter of it."""
    hint = key_hint(text)
    if not is_key_document(text):
        assert text.endswith(hint)
        assert len(hint) == min(4, len(text) // 4)


def test_hint_of_a_document_shows_nothing_of_it() -> None:
    """The end of a document tells nothing, so it is only said that it is one."""
    assert key_hint('{"private_key": "abcd"}') == "{…}"


@pytest.mark.req("R-17")
def test_limited_credential_manages_no_provider_keys() -> None:
    """A credential for some models manages no keys; a workspace for some models does."""
    caller = Caller("id", "lab", workspace_models=Patterns(("acme/*",)))
    assert refuse_managing(caller) is None
    limited = Caller("id", "lab", credential_models=Patterns(("acme/*",)))
    assert isinstance(refuse_managing(limited), Forbidden)
