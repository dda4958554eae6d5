"""Reading answers by the further words of provider files: conditions, handles of parts, results elsewhere, reach."""

import json
from typing import Any, Final

import pytest
from msgspec.structs import replace

from cases import for_each
from fairlead.domain.faults import ContentPolicyViolation, InputRejected, InvalidInput, ProviderError, ProviderTimeout
from fairlead.domain.runs.outcomes import Completed, Failed, Reached
from fairlead.http_client.outcomes import Reply
from fairlead.providers.answers import (
    HANDLE_MAX,
    Accepted,
    Ended,
    Pending,
    classify_answer,
    classify_poll,
    classify_result,
    read_handle,
    read_here,
    write_handle,
)
from fairlead.providers.spec import Call, Polling, Provider
from fairlead.providers.spec_files import load_provider

_CALLS: Final = """\
provider = "odd"
title = "A partner with odd habits"
base_url = "http://127.0.0.1:9"

[auth]
scheme = "none"

[calls.now]
protocol = "sync-json"
path = "/now"
require = ["/items/*/id"]
assets = ["/items/*/url"]

[calls.other]
protocol = "sync-json"
path = "/other"

[calls.later]
protocol = "submit-and-poll"
path = "/later"
handle = { id = "/items/*/id", status = "/status_url" }

[calls.later.poll]
path = "/{id}"
status = "/done"
pending = ["false", "absent"]
succeeded = ["true", "3"]
failed = ["null", "-1"]
pending_status = [202, 404]
result = { path = "/{id}/result" }

[calls.simple]
protocol = "submit-and-poll"
path = "/simple"
handle = "/id"

[calls.simple.poll]
path = "/{handle}"
status = "/state"
succeeded = ["done"]
failed = ["failed"]
"""
_SIGNS: Final = """
[[signs]]
means = "refused"
when = [{ at = "/items/*/flag", contains = ["MODERAT", "nsfw"] }, { at = "/score", above = "0.5" }]
subject = "/items/*/side"
subjects = { 7 = "input_image", true = "output_video", text = "input_text" }
side = "output"

[[signs]]
means = "refused"
calls = ["other"]
status = [418]
side = "output_audio"

[[signs]]
means = "invalid"
when = [{ at = "/problems", present = true }, { at = "/items", present = false }]
reason = "/problems/*/words"
field = "/problems/*/field"

[[signs]]
means = "timeout"
when = [{ at = "/ended", equals = ["true"] }]

[[signs]]
means = "unavailable"
status = [503]
"""
_PROVIDER: Final[Provider] = load_provider(_CALLS + _SIGNS, "odd.toml")


def _reply(document: Any, status: int = 200) -> Reply:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Reply(status, {"content-type": "application/json"}, content)


def _call(name: str) -> Call:
    return _PROVIDER.calls[name]


def _polling(name: str = "later") -> Polling:
    polling = _call(name).polling
    assert polling is not None
    return polling


def _classify_answer(call: str, document: Any, status: int = 200) -> Any:
    return classify_answer(_PROVIDER, _call(call), read_here(_reply(document, status)))


def _classify_poll(document: Any, status: int = 200, call: str = "later") -> Any:
    return classify_poll(_PROVIDER, _call(call), _polling(call), read_here(_reply(document, status)))


def _classify_result(document: Any, status: int = 200) -> Any:
    return classify_result(_PROVIDER, _call("later"), read_here(_reply(document, status)))


@pytest.mark.req("R-20", "R-27")
@pytest.mark.parametrize(
    ("document", "subject"),
    [
        ({"items": [{"flag": "Was moderated", "side": "text"}], "score": 0.6}, "input_text"),
        ({"items": [{"flag": "ok"}, {"flag": "NSFW content", "side": 7}], "score": 1}, "input_image"),
        ({"items": [{"flag": "nsfw", "side": True}], "score": 1}, "output_video"),
        ({"items": [{"flag": "nsfw", "side": "unheard"}], "score": 1}, "output"),
        ({"items": [{"flag": "nsfw", "side": None}], "score": 1}, "output"),
        ({"items": [{"flag": "nsfw"}], "score": 1}, "output"),
    ],
)
def test_sign_holds_when_all_its_conditions_do(document: Any, subject: str) -> None:
    """All conditions must hold; the subject is the mapped code, or the sign's own side."""
    failed = _classify_answer("now", document)
    assert isinstance(failed, Failed)
    assert isinstance(failed.fault, ContentPolicyViolation)
    assert failed.fault.subject == subject


@pytest.mark.parametrize(
    "document",
    [
        {"items": [{"flag": "nsfw", "id": 1}], "score": 0.5},
        {"items": [{"flag": "nsfw", "id": 1}], "score": "0.9"},
        {"items": [{"flag": "nsfw", "id": 1}], "score": True},
        {"items": [{"flag": "fine", "id": 1}], "score": 9},
        {"items": [{"flag": 7, "id": 1}], "score": 9},
    ],
)
def test_half_a_sign_does_not_hold(document: Any) -> None:
    """Where one condition does not hold the answer is a result."""
    assert isinstance(_classify_answer("now", document), Completed)


def test_sign_of_one_call_says_nothing_in_another() -> None:
    """A sign limited to some calls says nothing elsewhere."""
    refused, unknown = _classify_answer("other", {}, 418), _classify_answer("now", {}, 418)
    assert isinstance(refused.fault, ContentPolicyViolation)
    assert refused.fault.subject == "output_audio"
    assert isinstance(unknown.fault, ProviderError)


@pytest.mark.req("R-20", "R-21")
def test_words_are_found_in_the_first_of_many_places() -> None:
    """Reasons and fields are found in the first of many places."""
    named = _classify_answer("now", {"problems": [{"words": "too wide", "field": "size.width"}, {"words": "too high"}]})
    assert isinstance(named.fault, InputRejected)
    assert (named.fault.violations[0].loc, named.fault.violations[0].msg) == (("body", "size", "width"), "too wide")
    told = _classify_answer("now", {"problems": [{"words": "no good"}]})
    assert isinstance(told.fault, InvalidInput)
    assert told.fault.detail == "no good"
    assert isinstance(_classify_answer("now", {"problems": [1], "items": [{"id": 1}]}), Completed)


@pytest.mark.req("R-26")
def test_every_link_of_a_list_must_be_one() -> None:
    """Every link of a list must be one; what is required must stand in the list somewhere."""
    good = {"id": 1, "url": "https://x.example/a"}
    assert isinstance(_classify_answer("now", {"items": [good, {"url": None}]}), Completed)
    for items in ([good, {"url": "data:,x"}], [{"url": "https://x.example/a"}], []):
        assert isinstance(_classify_answer("now", {"items": items}), Failed)


def test_parts_of_a_handle_are_kept_together() -> None:
    """All parts are kept together, and read again as they were."""
    accepted = _classify_answer("later", {"items": [{"id": 17}], "status_url": 'http://x/"y"'}, 202)
    assert isinstance(accepted, Accepted)
    assert json.loads(accepted.handle) == {"id": "17", "status": 'http://x/"y"'}
    assert read_handle(_call("later"), accepted.handle) == {"id": "17", "status": 'http://x/"y"'}


def test_plain_handle_is_kept_as_written() -> None:
    """The only part of a handle is kept as the partner wrote it, even where it looks like another kind."""
    for text in ("task-1", '{"id":"x"}', "[]"):
        assert write_handle({"handle": text}) == text
        assert read_handle(_call("simple"), text) == {"handle": text}


@pytest.mark.req("R-26")
@pytest.mark.parametrize(
    "document",
    [
        {"items": [{"id": 1}]},
        {"items": [], "status_url": "http://x"},
        {"items": [{"id": ""}], "status_url": "http://x"},
        {"items": [{"id": 1}], "status_url": True},
        {"items": [{"id": 1}], "status_url": "x" * HANDLE_MAX},
        {"items": [{"id": 1.5}], "status_url": "http://x"},
    ],
)
def test_handle_without_a_part_is_unreadable(document: Any) -> None:
    """Without every one of its parts work cannot be followed; it may have been taken all the same."""
    failed = _classify_answer("later", document)
    assert isinstance(failed, Failed)
    assert (isinstance(failed.fault, ProviderError), failed.reached) == (True, Reached.UNKNOWN)


@pytest.mark.parametrize("document", [{}, {"done": False}, {"done": None}, {"done": "false"}, {"done": "absent"}])
def test_absent_status_can_mean_pending(document: Any) -> None:
    """A status that is not there, or false, can mean that the work goes on."""
    assert _classify_poll(document) == Pending()


@pytest.mark.parametrize("document", [{"done": True}, {"done": "true"}, {"done": 3}])
def test_statuses_are_compared_as_json_writes_them(document: Any) -> None:
    """Statuses are compared as JSON writes them; the result is asked for where it stands."""
    assert _classify_poll(document) == Ended()


@pytest.mark.parametrize("document", [{"done": -1}, {"done": "null"}])
def test_failed_status_of_any_type_is_a_failure(document: Any) -> None:
    """A failed status is the partner's failure, whatever its type."""
    failed = _classify_poll(document)
    assert (isinstance(failed.fault, ProviderError), failed.fault.detail) == (True, ProviderError().detail)
    assert failed.reached is Reached.ACCEPTED


@pytest.mark.parametrize("document", [{}, {"done": True}, b"", b"<html>"])
@pytest.mark.parametrize("status", [202, 404])
def test_pending_http_status_means_pending(document: Any, status: int) -> None:
    """An HTTP status that means pending does, whatever the body says."""
    assert _classify_poll(document, status) == Pending()


def test_sign_of_failure_is_stronger_than_a_pending_status() -> None:
    """A sign is stronger than the status."""
    failed = _classify_poll({"ended": True}, 202)
    assert isinstance(failed.fault, ProviderTimeout)
    assert failed.reached is Reached.ACCEPTED


def test_result_is_fetched_where_it_stands() -> None:
    """The answer to the second call is the result, by the same rules as any."""
    result = _classify_result(b'{"a":1 }')
    assert isinstance(result, Completed)
    assert result.content == b'{"a":1 }'


@pytest.mark.req("R-20")
def test_refusal_in_place_of_the_result_is_told() -> None:
    """How work failed may stand only in the answer that should hold its result, whatever its status."""
    words = {"problems": [{"words": "too wide"}]}
    for status in (200, 422):
        told = _classify_result(words, status)
        assert isinstance(told.fault, InvalidInput)
        assert (told.fault.detail, told.reached) == ("too wide", Reached.ACCEPTED)


@pytest.mark.parametrize(("document", "status"), [({}, 404), ({}, 500), ({}, 503), ([], 200), (b"<html>", 200)])
def test_result_that_cannot_be_had_is_a_failure(document: Any, status: int) -> None:
    """Anything else than a result is the partner's failure, of work that it has taken."""
    failed = _classify_result(document, status)
    assert isinstance(failed, Failed)
    assert (isinstance(failed.fault, ProviderError), failed.reached) == (True, Reached.ACCEPTED)


@pytest.mark.req("R-14")
@pytest.mark.parametrize("call", ["now", "later"])
@pytest.mark.parametrize(
    ("document", "status", "reached"),
    [
        ({}, 400, Reached.REFUSED),
        ({}, 401, Reached.REFUSED),
        ({}, 429, Reached.REFUSED),
        ({}, 500, Reached.REFUSED),
        ({}, 503, Reached.REFUSED),
        ({"problems": [1]}, 200, Reached.REFUSED),
        ({}, 408, Reached.UNKNOWN),
        ({}, 504, Reached.UNKNOWN),
        ({}, 524, Reached.UNKNOWN),
        ({}, 200, Reached.UNKNOWN),
        ([], 200, Reached.UNKNOWN),
        (b"<html>", 200, Reached.UNKNOWN),
    ],
)
def test_failure_says_how_far_the_work_got(call: str, document: Any, status: int, reached: Reached) -> None:
    """A refusal is certain; an answer out of time, or one nobody can read, leaves open whether the work was taken."""
    failed = _classify_answer(call, document, status)
    assert isinstance(failed, Failed)
    assert failed.reached is reached


@pytest.mark.req("R-14")
@pytest.mark.parametrize("status", [200, 400, 401, 408, 429, 500, 503, 504])
@for_each("document", [{}, {"state": "failed"}, {"state": "?"}, {"ended": True}, {"problems": [1]}])
def test_failed_poll_keeps_the_work_accepted(status: int, document: Any) -> None:
    """Whatever goes wrong after a handle, the partner has the work."""
    failed = _classify_poll(document, status, "simple")
    assert isinstance(failed, Failed)
    assert failed.reached is Reached.ACCEPTED


def test_busy_partner_still_has_the_work() -> None:
    """A partner that is too busy to be asked still has the work: the poll failed, and no one is told to come back."""
    busy = classify_poll(
        _PROVIDER, _call("later"), replace(_polling(), pending_status=frozenset()), read_here(_reply({}, 503))
    )
    assert isinstance(busy, Failed)
    assert (type(busy.fault), busy.upstream_status) == (ProviderError, 503)
