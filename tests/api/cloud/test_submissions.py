"""What is read of a submitted body, and what must not be left of it."""

import json
from typing import Any, Final

import msgspec
import pytest

from cases import for_each
from fairlead.api.cloud.submissions import EXTRA_BYTES_MAX, SUBMITTED, TARGETS_MAX, malformed_body, read_submission
from fairlead.documents.members import BadDocumentError, members_of
from fairlead.domain.faults import BodyTooLarge, FaultError
from fairlead.domain.jobs.faults import BadSubmission, JobFaultError
from fairlead.domain.jobs.jobs import NewJob

_FIELDS: Final = ("api_key_acme_org", "api_key_service_org")
_GRAPH: Final = {"1": {"class_type": "A", "inputs": {}}}
_ID: Final = "0191d3a5-7c5e-7b7e-8f35-0c6f6a4b1c2d"


def read(body: Any, usage_source: str | None = None) -> NewJob:
    """Read a body, which is JSON unless it is bytes already."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        members = members_of(content, SUBMITTED)
    except BadDocumentError as error:
        raise malformed_body(error.reason) from error
    return read_submission(members, _FIELDS, usage_source)


def refusal_of(body: Any) -> str:
    """Return the type of the error a body is refused with."""
    with pytest.raises(JobFaultError) as raised:
        read(body)
    assert isinstance(raised.value.fault, BadSubmission)
    assert raised.value.fault.message
    return raised.value.fault.type


@pytest.mark.req("C-04")
def test_workflow_is_handed_on_byte_by_byte() -> None:
    """A workflow is handed on byte by byte, whatever it looks like."""
    assert read(b'{"prompt" : {"1":{"a" :1e3}} }').workflow == b'{"1":{"a" :1e3}}'
    assert read(b'{"prompt":{},"prompt":{"2":1}}').workflow == b'{"2":1}'


@pytest.mark.req("C-04")
def test_prompt_alone_is_a_submission() -> None:
    """A prompt alone is enough."""
    new = read({"prompt": _GRAPH})
    assert json.loads(new.workflow) == _GRAPH
    assert (new.extra, new.partner_key, new.chosen_id, new.targets) == (b"{}", None, None, None)


@pytest.mark.req("C-04")
def test_million_nodes_are_not_decoded() -> None:
    """The workflow stays bytes: a million nodes make no more objects than one."""
    graph = b"{" + b",".join(b'"%d":{"class_type":"A","inputs":{}}' % number for number in range(1_000_000)) + b"}"
    assert read(b'{"prompt":' + graph + b"}").workflow == graph


@pytest.mark.req("C-14")
@for_each(
    ("body", "kind"),
    [
        (b"", "invalid_json"),
        (b"not json", "invalid_json"),
        (b'{"prompt": {', "invalid_json"),
        (b'{"prompt": {"a": NaN}}', "invalid_json"),
        (b'{"prompt": {"a": "\xff"}}', "invalid_json"),
        (b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid_json"),
        (b"null", "invalid_json"),
        (b"[]", "invalid_json"),
        ({}, "no_prompt"),
        ({"extra_data": {}}, "no_prompt"),
        ({"prompt": None}, "invalid_prompt"),
        ({"prompt": [1]}, "invalid_prompt"),
        ({"prompt": "1"}, "invalid_prompt"),
        ({"prompt": 1}, "invalid_prompt"),
        ({"prompt": _GRAPH, "extra_data": []}, "invalid_extra_data"),
        ({"prompt": _GRAPH, "extra_data": "a"}, "invalid_extra_data"),
        ({"prompt": _GRAPH, "prompt_id": 7}, "invalid_prompt_id"),
        ({"prompt": _GRAPH, "prompt_id": ""}, "invalid_prompt_id"),
        ({"prompt": _GRAPH, "prompt_id": _ID.upper()}, "invalid_prompt_id"),
        ({"prompt": _GRAPH, "prompt_id": _ID.replace("-", "")}, "invalid_prompt_id"),
        ({"prompt": _GRAPH, "prompt_id": f"{{{_ID}}}"}, "invalid_prompt_id"),
        ({"prompt": _GRAPH, "prompt_id": f"{_ID}\n"}, "invalid_prompt_id"),
        ({"prompt": _GRAPH, "prompt_id": [_ID]}, "invalid_prompt_id"),
        ({"prompt": _GRAPH, "client_id": 7}, "invalid_request"),
        ({"prompt": _GRAPH, "client_id": "a" * 2000}, "invalid_request"),
        ({"prompt": _GRAPH, "partial_execution_targets": "1"}, "invalid_request"),
        ({"prompt": _GRAPH, "partial_execution_targets": [1]}, "invalid_request"),
        ({"prompt": _GRAPH, "partial_execution_targets": ["1"] * (TARGETS_MAX + 1)}, "invalid_targets"),
        ({"prompt": _GRAPH, "extra_data": {"api_key_service_org": 7}}, "invalid_request"),
        ({"prompt": _GRAPH, "extra_data": {"api_key_service_org": "k" * 9000}}, "invalid_request"),
    ],
)
def test_each_malformed_submission_has_its_own_error(body: Any, kind: str) -> None:
    """Everything that cannot be submitted has an error of its own kind."""
    assert refusal_of(body) == kind


@pytest.mark.req("C-04")
def test_ids_targets_and_places_of_editors_are_taken() -> None:
    """Ids, targets and a place in the queue are taken as editors send them; null stands for nothing."""
    body = {
        "client_id": "tab-1", "prompt": _GRAPH, "prompt_id": _ID, "front": True, "number": -3.5,
        "partial_execution_targets": ["1"], "extra_data": {"extra_pnginfo": {"workflow": {"id": "w"}}}, "more": [[]],
    }  # fmt: skip
    new = read(body, "editor/1")
    assert (new.chosen_id, new.targets) == (_ID, ["1"])
    assert json.loads(new.extra) == {
        "extra_pnginfo": {"workflow": {"id": "w"}}, "client_id": "tab-1", "comfy_usage_source": "editor/1",
    }  # fmt: skip
    nothing = {**dict.fromkeys(("client_id", "prompt_id", "extra_data", "partial_execution_targets")), "prompt": _GRAPH}
    assert read(nothing) == read({"prompt": _GRAPH})


@pytest.mark.req("C-11")
def test_keys_are_taken_out_of_what_is_kept() -> None:
    """Keys and tokens are taken out of what is kept, by any name they may have; the brand's own pays."""
    secrets = {
        "api_key_service_org": "paid-by-1", "api_key_other_org": "secret-2", "auth_token_service_org": "secret-3",
        "auth_token_": ["secret-4"],
    }  # fmt: skip
    body = {"prompt": _GRAPH, "extra_data": {**secrets, "preview_method": "auto"}}
    new = read(body)
    assert json.loads(new.extra) == {"preview_method": "auto"}
    assert new.partner_key == "paid-by-1"
    both = read({"prompt": _GRAPH, "extra_data": {**secrets, "api_key_acme_org": "paid-by-5"}})
    assert both.partner_key == "paid-by-5"
    escaped = read(b'{"prompt":{},"extra_data":{"\\u0061pi_key_service_org":"paid-by-6"}}')
    assert (escaped.extra, escaped.partner_key) == (b"{}", "paid-by-6")


@pytest.mark.req("C-11")
def test_empty_key_counts_as_absent() -> None:
    """A field that is empty or null is as if it was not there, and another may pay."""
    for empty in ("", None):
        new = read({"prompt": _GRAPH, "extra_data": {"api_key_acme_org": empty, "api_key_service_org": "paid-by-1"}})
        assert new.partner_key == "paid-by-1"
        assert read({"prompt": _GRAPH, "extra_data": {"api_key_acme_org": empty}}).partner_key is None


def test_extra_data_is_bounded() -> None:
    """What comes beside a workflow has a bound of its own."""
    with pytest.raises(FaultError) as raised:
        read({"prompt": _GRAPH, "extra_data": {"a": "x" * EXTRA_BYTES_MAX}})
    assert raised.value.fault == BodyTooLarge(EXTRA_BYTES_MAX)


def test_error_never_repeats_a_body() -> None:
    """A body may hold keys: what is said of it names a place, and no word of it."""
    for body in (
        {"prompt": _GRAPH, "extra_data": {"api_key_service_org": ["flk_secret"]}},
        {"prompt": _GRAPH, "client_id": ["flk_secret"]},
        b'{"prompt": {}, "flk_secret"}',
        {"prompt": _GRAPH, "prompt_id": "flk_secret"},
    ):
        with pytest.raises(JobFaultError) as raised:
            read(body)
        assert "flk_secret" not in str(raised.value.fault)


def test_extra_data_is_kept_as_embeddable_json() -> None:
    """What is kept is JSON that can be embedded as it is."""
    new = read(b'{"prompt":{},"extra_data":{"a" : [1 , 2.50], "\xc3\xa9": "\\ud83d\\ude00"}}')
    assert msgspec.json.decode(new.extra) == {"a": [1, 2.5], "é": "😀"}
