"""What an idempotency key may tell again: which calls are the same, and which ends are kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from domain.every_fault import EVERY, name_of
from fairlead.domain.faults import (
    ContentPolicyViolation,
    Fault,
    InputRejected,
    InternalError,
    InvalidInput,
    ProviderError,
    ProviderTimeout,
)
from fairlead.domain.runs.outcomes import Completed, Failed, Reached
from fairlead.domain.runs.replays import fingerprint, is_recorded, key_id, names_links

KEPT = (ProviderError, ProviderTimeout, InternalError, InvalidInput, InputRejected, ContentPolicyViolation)
OURS = "https://fairlead.test/assets/"
BYTES = st.binary(max_size=3)
CALLS = st.tuples(st.sampled_from(["POST", "POS", "GET"]), BYTES, BYTES, BYTES)


@pytest.mark.req("R-18")
def test_key_id_is_distinct_for_each_workspace() -> None:
    """A key is kept as a digest of its own for every workspace, and always the same one."""
    assert key_id("lab", "a") == key_id("lab", "a")
    assert len({key_id("lab", "a"), key_id("office", "a"), key_id("lab", "b"), key_id("lab\na", "")}) == 4
    assert len(key_id("lab", "\ud800" * 255)) == 64
    assert "secret" not in key_id("lab", "secret")


@pytest.mark.req("R-18")
@given(CALLS, CALLS)
def test_fingerprints_are_equal_only_for_equal_calls(
    one: tuple[str, bytes, bytes, bytes], two: tuple[str, bytes, bytes, bytes]
) -> None:
    """Calls are the same when method, path, query and body are, byte for byte, wherever one part ends."""
    assert (fingerprint(*one) == fingerprint(*two)) is (one == two)


@pytest.mark.req("R-18")
def test_border_between_parts_counts_in_the_fingerprint() -> None:
    """The border between the parts counts."""
    assert fingerprint("POST", b"/a", b"b", b"c") != fingerprint("POST", b"/ab", b"", b"c")
    assert fingerprint("POST", b"/a", b"b", b"c") != fingerprint("POST", b"/a", b"bc", b"")
    assert fingerprint("POST", b"/a", b"", b"1:x") != fingerprint("POST", b"/a", b"x", b"")


@pytest.mark.req("R-18")
def test_completed_result_is_recorded() -> None:
    """Whatever completed is kept."""
    assert is_recorded(Completed(b"{}", "application/json", 200))


@pytest.mark.req("R-18")
@for_each("reached", Reached)
@for_each("fault", EVERY, ids=name_of)
def test_failure_that_another_try_could_mend_is_not_recorded(fault: Fault, reached: Reached) -> None:
    """Kept is what a partner answered or may have worked on, unless it may yet tell how it ends."""
    worked_on = reached in (Reached.UNKNOWN, Reached.ACCEPTED, Reached.UNBILLED)
    kept = worked_on or (reached is Reached.REFUSED and isinstance(fault, KEPT))
    assert is_recorded(Failed(fault, None, reached)) is kept


@pytest.mark.req("R-18", "R-36")
@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({"data": [{"url": "https://cdn.test/a.png"}]}, True),
        ({"data": [{"url": "HTTP://cdn.test/a.png"}]}, True),
        ({"data": [{"url": OURS + "1"}]}, False),
        ({"data": [{"url": OURS + "1"}, {"url": "https://cdn.test/b.png"}]}, True),
        ({"a": {"b": ["x", {"c": "http://x"}]}}, True),
        ("https://cdn.test/a.png", True),
        ({"text": "see https://cdn.test"}, False),
        ({"https://cdn.test": 1}, False),
        ({"b64_json": "aGk=", "uri": "data:image/png;base64,aGk=", "n": 1, "none": None}, False),
        (None, False),
    ],
)
def test_foreign_link_in_an_answer_is_noticed(answer: Any, *, names: bool) -> None:
    """A result names links when any text in it is one that does not begin as ours do."""
    assert names_links(answer, OURS) is names


@pytest.mark.req("R-18")
def test_every_link_is_foreign_without_an_address_of_ours() -> None:
    """Without an address of our own, every link is somebody's."""
    assert names_links({"url": OURS + "1"}, None)


def test_search_for_links_is_bounded() -> None:
    """The search has a bound: a document with more in it is taken to name a link, which costs a replay at most."""
    assert not names_links(["x"] * 5_000, OURS)
    assert names_links(["x"] * 20_000, OURS)
