"""What is told of a request that is wrong has a bound, whatever stands in it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.documents.fitting import ERROR_BYTES, fit

LEAST = 12 * 1024
_TEXTS = st.builds(lambda text, times: text * times, st.text(max_size=4), st.sampled_from([1, 300, 30_000]))
_DOCUMENTS = st.recursive(
    st.none() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=5).map(lambda values: values * 60) | st.dictionaries(_TEXTS, inner, max_size=8)
    ),
    max_leaves=6,
)


@pytest.mark.req("S-02")
@given(document=_DOCUMENTS)
def test_fitted_document_never_passes_its_bound(document: Any) -> None:
    """Long texts and names, long lists and huge numbers are cut; the document stays JSON of the same kind."""
    content = fit(document, LEAST)
    assert len(content) <= LEAST
    assert isinstance(json.loads(content), dict | list) is isinstance(document, dict | list)


def test_document_within_the_bound_is_told_whole() -> None:
    """Nothing is cut that need not be."""
    document = {"detail": "x" * 60_000, "errors": [{"loc": ["body", index]} for index in range(100)]}
    assert json.loads(fit(document)) == document
    assert len(fit(document)) <= ERROR_BYTES


def test_first_members_survive() -> None:
    """The first entries of a long list are kept, each in its own shape."""
    document = {"detail": [{"loc": ["body", f"{index}-{'n' * 190}"] * 20, "msg": "m"} for index in range(50)]}
    told = json.loads(fit(document))
    assert told["detail"][0]["loc"][:2] == document["detail"][0]["loc"][:2]
    assert told["detail"][0]["msg"] == "m"
