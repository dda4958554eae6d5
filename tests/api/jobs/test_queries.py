"""Queries and bodies as they are read: whatever is sent is taken or refused (J-02 to J-04, J-12, J-16)."""

import json
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.jobs.jobs import SUBMITTED, malformed_body, read_submission
from fairlead.api.jobs.queries import read_list_query
from fairlead.documents.members import BadDocumentError, members_of
from fairlead.domain.faults import FaultError
from fairlead.domain.jobs.faults import JobFaultError
from fairlead.domain.jobs.jobs import NewJob
from fairlead.domain.jobs.listing import FILTERS_MAX, PAGE_MAX, LabelFilter, fault_of_labels

_PIECES: Final = st.sampled_from(
    [b"metadata[", b"metadata%5B", b"]", b"a", b"=", b"&", b"%", b"%41", b"%C3%A9", b"\xff", b";", b"+", b"limit=",
     b"cursor=", b"AQAAAAAAAAAF", b"7", b"[", b"\x00", b"x"]
)  # fmt: skip
_KEYS: Final = st.text(st.sampled_from("abAB09_.-"), min_size=1, max_size=40)
_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.req("J-04", "J-16")
@given(query=st.lists(_PIECES, max_size=12).map(b"".join) | st.binary(max_size=60))
def test_any_query_is_read_or_refused(query: bytes) -> None:
    """Any bytes are a query, or are refused in words."""
    try:
        read = read_list_query(query)
    except (FaultError, JobFaultError):
        return
    assert 1 <= read.limit <= PAGE_MAX
    assert len({one.key for one in read.labels}) == len(read.labels) <= FILTERS_MAX


@pytest.mark.req("J-04")
@given(labels=st.dictionaries(_KEYS, st.text(max_size=20), min_size=1, max_size=3))
def test_every_valid_label_can_be_a_filter(labels: dict[str, str]) -> None:
    """What may be a label may be a filter, encoded as usual, and comes out as it went in; what may not, may not."""
    query = urlencode({f"metadata[{key}]": value for key, value in labels.items()}, errors="surrogatepass").encode()
    if fault_of_labels(labels) is not None:
        with pytest.raises(JobFaultError):
            read_list_query(query)
    else:
        assert list(read_list_query(query).labels) == [LabelFilter(key, value) for key, value in labels.items()]


def read_body(content: bytes, key: bytes | None = None) -> NewJob:
    """Read a body."""
    try:
        members = members_of(content, SUBMITTED)
    except BadDocumentError as error:
        raise malformed_body(error) from error
    return read_submission(members, ["api_key_service_org"], key)


@pytest.mark.req("J-12", "J-16")
@given(
    body=st.dictionaries(
        st.sampled_from(["workflow", "extra_data", "metadata", "webhook_url", "inputs", "more"]), _JSON, max_size=4
    ),
    key=st.none() | st.binary(max_size=300),
)
def test_any_body_is_a_submission_or_refused(body: dict[str, Any], key: bytes | None) -> None:
    """Any body is a submission, or is refused in words."""
    try:
        new = read_body(json.dumps(body).encode(), key)
    except (FaultError, JobFaultError):
        return
    assert new.is_strict
    assert json.loads(new.workflow) == body["workflow"]
    assert new.labels == (body.get("metadata") or {})


@given(content=st.binary(max_size=200))
def test_bytes_that_are_no_json_are_refused(content: bytes) -> None:
    """Bytes that are not JSON are refused, too."""
    with pytest.raises(JobFaultError):
        read_body(content)
