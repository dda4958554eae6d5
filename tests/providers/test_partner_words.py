"""A partner's own words are found where its answers have them, and never without bound."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.pointers import parse_pointer
from fairlead.http_client.outcomes import Reply
from fairlead.providers.partner_words import REASON_MAX, words_of


def _words(document: Any) -> str | None:
    return words_of(Reply(500, {"content-type": "application/json"}, b""), document)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"error": {"code": "x", "message": "too large"}}, "too large"),
        ({"error": "too large"}, "too large"),
        ({"detail": [{"loc": ["body"], "msg": "too large"}]}, "too large"),
        ({"code": 1201, "message": "too large", "request_id": "r"}, "too large"),
        ({"code": 0, "message": "SUCCEED", "data": {"task_status": "failed", "task_status_msg": "no face"}}, "no face"),
        ({"id": "g", "state": "failed", "failure_reason": "no face"}, "no face"),
        ({"status": "FAILED", "failure": "no face", "failureCode": "F.1"}, "no face"),
        ({"base_resp": {"status_code": 1026, "status_msg": "sensitive"}}, "sensitive"),
        ({"data": {"error": {"detail": "too long", "code": "c"}}}, "too long"),
        ({"status": "failed", "task_error": {"message": "no mesh"}}, "no mesh"),
        ([{"error": {"message": "no access"}}], "no access"),
        ({"input": {"prompt": "p", "description": "words of the caller"}, "status": "failed"}, None),
        ({"error": {"message": "Failed."}}, None),
        ({"error": {"message": 7}}, None),
        ({"outputs": ["x"]}, None),
        ("words", None),
        (None, None),
    ],
)
def test_words_are_found_in_the_forms_of_partners(document: Any, found: str | None) -> None:
    """The outer members come first; what repeats the caller's input, and what says nothing, is passed over."""
    assert _words(document) == found


def test_place_that_a_provider_file_names_comes_first() -> None:
    """Where there is nothing, the others are looked at."""
    reply, document = Reply(400, {}, b""), {"message": "general", "why": {"text": "in particular"}}
    assert words_of(reply, document, parse_pointer("/why/text")) == "in particular"
    assert words_of(reply, document, parse_pointer("/why/not")) == "general"


@pytest.mark.parametrize(
    ("content_type", "found"),
    [("text/plain; charset=utf-8", "over capacity"), ("text/html", None), ("application/octet-stream", None)],
)
def test_plain_text_is_words_and_a_page_is_not(content_type: str, found: str | None) -> None:
    """A page of a proxy says nothing to anybody in its first 300 characters."""
    assert words_of(Reply(503, {"content-type": content_type}, b" over\n capacity"), None) == found


_DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.text(max_size=2 * REASON_MAX),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["error", "message", "detail", "data", "x"]), inner)
    ),
)


@given(_DOCUMENTS)
def test_every_document_can_be_searched(document: Any) -> None:
    """Whatever a partner says, its words are one bounded line, or there are none."""
    found = _words(document)
    assert found is None or (0 < len(found) <= REASON_MAX and found.isprintable())


def test_search_is_bounded() -> None:
    """A wide and deep document is not searched for long: its words count no more than its first members."""
    deep: dict[str, Any] = {"message": "too deep"}
    for _ in range(300):
        deep = {"x": deep}
    assert _words(deep) is None
    assert _words({str(number): {"a": {}} for number in range(10_000)} | {"last": {"b": {"message": "m"}}}) is None
    assert _words({"message": "m" * 10_000}) == "m" * REASON_MAX
