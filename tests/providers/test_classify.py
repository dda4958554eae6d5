"""Reading a partner's answer, as a table: every branch, the order of the signs, and what may be shown of its words."""

import json
import unicodedata
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from fairlead.domain.faults import (
    REFUSAL_SUBJECTS,
    ContentPolicyViolation,
    Fault,
    InputRejected,
    InvalidInput,
    ProviderError,
    ProviderTimeout,
    ServiceUnavailable,
    Upstream,
    Violation,
)
from fairlead.domain.runs.outcomes import Completed, Failed, Reached
from fairlead.http_client.outcomes import Reply
from fairlead.providers.answers import (
    HANDLE_MAX,
    Accepted,
    Pending,
    classify_answer,
    classify_poll,
    read_here,
)
from fairlead.providers.partner_words import REASON_MAX, sanitize
from fairlead.providers.spec import Polling, Provider
from fairlead.providers.spec_files import load_provider
from fake_partner import provider_text

_PROVIDER: Final[Provider] = load_provider(provider_text("http://127.0.0.1:9"), "fake.toml")
_UNREADABLE: Final = "The provider's answer could not be read as a result."
_GOOD: Final = {"ok": 1, "url": "https://files.example/a.png"}


def _reply(status: int = 200, document: Any = None, content_type: str = "application/json", **headers: str) -> Reply:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Reply(status, {"content-type": content_type, **headers}, content)


def _classify_answer(call: str, reply: Reply) -> Any:
    return classify_answer(_PROVIDER, _PROVIDER.calls[call], read_here(reply))


def _polling() -> Polling:
    polling = _PROVIDER.calls["task"].polling
    assert polling is not None
    return polling


def _classify_poll(reply: Reply) -> Any:
    return classify_poll(_PROVIDER, _PROVIDER.calls["task"], _polling(), read_here(reply))


def _fault(call: str, reply: Reply) -> Fault:
    reading = _classify_answer(call, reply)
    assert isinstance(reading, Failed), reading
    assert reading.upstream_status == reply.status
    return reading.fault


def _failure_reply(code: str, status: int = 400, **more: str) -> Reply:
    return _reply(status, {"error": {"code": code, **more}})


@pytest.mark.req("R-10")
@pytest.mark.parametrize("content", [b'{"a":1}', b' {\n"a" : 1.0e0 ,"b":"\\u00e9"}\t', b'{"a":1}\n\n'])
def test_json_result_is_kept_as_it_came(content: bytes) -> None:
    """Its bytes are the partner's; its content type is that of JSON, which released clients ask for to the letter."""
    reading = _classify_answer("json", _reply(200, content, "application/json; charset=utf-8"))
    assert isinstance(reading, Completed)
    assert (reading.content, reading.content_type) == (content, "application/json")


@pytest.mark.req("R-10")
def test_bytes_keep_their_media_type() -> None:
    """Bytes keep the partner's content type, parameters and all."""
    reading = _classify_answer("bytes", _reply(200, b"RIFF", "Audio/WAV; rate=44100"))
    assert isinstance(reading, Completed)
    assert (reading.content, reading.content_type, reading.answer) == (b"RIFF", "Audio/WAV; rate=44100", None)


@pytest.mark.parametrize("status", [200, 201, 202, 206, 299])
def test_every_2xx_can_carry_a_result(status: int) -> None:
    """Every 2xx can carry a result."""
    assert isinstance(_classify_answer("json", _reply(status, {})), Completed)


def test_vendor_media_type_is_json() -> None:
    """`application/problem+json` and capital letters are JSON too."""
    for content_type in ("application/vnd.fake+json", "Application/JSON"):
        assert isinstance(_classify_answer("json", _reply(200, {}, content_type)), Completed)


@pytest.mark.req("R-26")
@pytest.mark.parametrize(
    ("call", "reply"),
    [
        pytest.param("json", _reply(200, b"<html>busy</html>", "text/html"), id="HTML with 200"),
        pytest.param("json", _reply(200, b"{", "application/json"), id="cut JSON"),
        pytest.param("json", _reply(200, b'{"a":NaN}'), id="NaN"),
        pytest.param("json", _reply(200, b"\xff{}"), id="bad UTF-8"),
        pytest.param("json", _reply(200, b""), id="nothing"),
        pytest.param("json", _reply(200, [1]), id="an array"),
        pytest.param("json", _reply(200, b"null"), id="null"),
        pytest.param("json", _reply(200, {}, "text/plain"), id="JSON under another name"),
        pytest.param("picky", _reply(200, {"url": "https://x"}), id="a required member is missing"),
        pytest.param("picky", _reply(200, {"ok": 1, "url": 7}), id="an asset is not text"),
        pytest.param("picky", _reply(200, {"ok": 1, "url": "javascript:alert(1)"}), id="an asset is not a link"),
        pytest.param("bytes", _reply(200, b"", "audio/wav"), id="no bytes"),
        pytest.param("bytes", _reply(200, b"x", "text/html"), id="bytes of another type"),
        pytest.param("task", _reply(200, {}), id="no handle"),
        pytest.param("task", _reply(200, {"id": ""}), id="an empty handle"),
        pytest.param("task", _reply(200, {"id": True}), id="a handle of truth"),
        pytest.param("task", _reply(200, {"id": ["a"]}), id="a handle of many"),
        pytest.param("task", _reply(200, {"id": "x" * (HANDLE_MAX + 1)}), id="a handle without end"),
        pytest.param("task", _reply(200, {"id": "a\0b"}), id="a handle no database keeps"),
    ],
)
def test_unreadable_result_is_the_partners_failure(call: str, reply: Reply) -> None:
    """A success that cannot be read as the result the call promises is the partner's failure."""
    assert _fault(call, reply) == ProviderError(_UNREADABLE, Upstream(200))


def test_link_is_recognised_by_its_scheme_alone() -> None:
    """Links are recognised by their scheme alone, and need not be there; what else is in them is the caller's to open.

    What must be there is said by `require`.
    """
    for link in ("http://[", "HTTPS://x", "https://", None):
        assert isinstance(_classify_answer("picky", _reply(200, {"ok": 1, "url": link})), Completed)
    assert isinstance(_classify_answer("picky", _reply(200, {"ok": 1})), Completed)


@pytest.mark.parametrize(
    ("found", "handle"), [("task/1 ä", "task/1 ä"), (17, "17"), ("x" * HANDLE_MAX, "x" * HANDLE_MAX)]
)
def test_texts_and_numbers_are_handles(found: Any, handle: str) -> None:
    """Texts and numbers name a task."""
    assert _classify_answer("task", _reply(202, {"id": found})) == Accepted(handle)


_STATUSES: Final[list[tuple[int, Fault]]] = [
    *(
        (status, InvalidInput("The provider rejected the input.", Upstream(status)))
        for status in (404, 405, 406, 409, 410, 411, 413, 414, 415)
    ),
    *((status, ProviderTimeout(Upstream(status))) for status in (408, 504)),
    *(
        (status, ProviderError(upstream=Upstream(status)))
        for status in (100, 199, 300, 301, 302, 304, 401, 402, 403, 407, 418, 451, 500, 501, 502, 503, 599)
    ),
    (429, ServiceUnavailable("The provider is at capacity.", 1, Upstream(429))),
]


@for_each(("status", "fault"), _STATUSES)
def test_status_without_a_sign_has_its_fault(status: int, fault: Fault) -> None:
    """What no sign claims is read by its status; our own credentials being refused is never the caller's fault."""
    assert _fault("json", _reply(status, b"", "text/plain")) == fault


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("7", 7),
        ("0", 1),
        ("3600", 3600),
        ("3601", 3600),
        ("9" * 5000, 3600),
        ("", 1),
        ("-3", 1),
        ("1.5", 1),
        ("Fri, 20 Nov 2026 23:59:59 GMT", 1),
        ("\u0661", 1),
    ],
)
def test_retry_after_of_a_full_partner_is_1_second_to_an_hour(told: str, seconds: int) -> None:
    """`Retry-After` of a 429 is passed on as whole seconds from 1 to an hour."""
    assert _fault("json", _reply(429, b"", **{"retry-after": told})) == ServiceUnavailable(
        "The provider is at capacity.", seconds, Upstream(429)
    )


def test_first_sign_that_matches_wins() -> None:
    """Signs are looked for in the order of the file: the first that matches decides."""
    assert isinstance(_fault("json", _failure_reply("refused", 422)), ContentPolicyViolation)
    assert _fault("json", _failure_reply("late", 400)) == ProviderTimeout(Upstream(400))
    assert isinstance(_fault("json", _failure_reply("anything", 400)), InvalidInput)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("late", ProviderTimeout(Upstream(500))),
        ("broken", ProviderError(upstream=Upstream(500))),
        ("busy", ServiceUnavailable("The provider is at capacity.", 1, Upstream(500))),
        ("refused", ContentPolicyViolation(None, Upstream(500))),
    ],
)
def test_each_meaning_of_a_sign_is_one_fault(code: str, fault: Fault) -> None:
    """Each meaning is one fault, whatever the status was."""
    assert _fault("json", _failure_reply(code, 500)) == fault


@pytest.mark.req("R-20")
def test_refusal_inside_a_success_is_a_refusal() -> None:
    """A partner that says no with 200 is understood, and its reason may be shown."""
    reading = _fault("json", _reply(200, {"state": "rejected", "why": "too  many\nfingers"}))
    assert reading == InvalidInput("too many fingers", Upstream(200, "too many fingers"))


@pytest.mark.req("R-20")
def test_refusal_without_words_has_no_reason() -> None:
    """No reason, or one that is not text, is absent."""
    words: list[Any] = [None, 7, {}, "", "\0\n"]
    for message in words:
        fault = _fault("json", _reply(400, {"error": {"message": message}}))
        assert fault == InvalidInput("The provider rejected the input.", Upstream(400, None))


@pytest.mark.req("R-21")
@pytest.mark.parametrize(
    ("param", "loc"),
    [
        ("width", ("body", "width")),
        ("images.0.url", ("body", "images", 0, "url")),
        ("a.\u00b2", ("body", "a", "\u00b2")),
        ("9" * 400, ("body", int("9" * REASON_MAX))),
    ],
)
def test_rejected_field_is_named(param: str, loc: tuple[str | int, ...]) -> None:
    """A partner's validation error passes through: its field as a path, its words, its kind."""
    reply = _failure_reply("x", 422, param=param, message="no", kind="too_wide")
    assert _fault("json", reply) == InputRejected((Violation(loc, "no", "too_wide"),), Upstream(422))


@pytest.mark.req("R-21")
def test_rejected_field_is_completed_with_words_and_a_kind() -> None:
    """Where the partner names only the field, the entry is still complete."""
    violation = Violation(("body", "width"), "The provider rejected this value.", "value_error")
    assert _fault("json", _failure_reply("x", 422, param="width")) == InputRejected((violation,), Upstream(422))


@pytest.mark.parametrize(
    ("side", "subject"),
    [("prompt", "input_text"), ("picture", "output_image"), ("unheard", None), ("unknown", None), (7, None)],
)
def test_refusal_subject_is_of_the_closed_vocabulary(side: Any, subject: str | None) -> None:
    """The refused side is of the closed vocabulary or absent, also where the provider file says otherwise."""
    assert _fault("json", _failure_reply("refused", side=side)) == ContentPolicyViolation(subject, Upstream(400))


def test_vocabulary_of_subjects_has_ten_values() -> None:
    """Ten values and no more."""
    kinds = ("text", "image", "video", "audio")
    assert {"input", "output"} | {
        f"{side}_{kind}" for side in ("input", "output") for kind in kinds
    } == REFUSAL_SUBJECTS


@pytest.mark.parametrize("state", ["queued", "running"])
def test_pending_state_keeps_the_task_going(state: str) -> None:
    """The pending states keep the polling going."""
    assert _classify_poll(_reply(200, {"state": state})) == Pending()


def test_finished_task_has_its_result_byte_for_byte() -> None:
    """The answer of the poll that says so is the result, byte for byte."""
    reading = _classify_poll(_reply(200, b'{"state":"done"  }'))
    assert isinstance(reading, Completed)
    assert reading.content == b'{"state":"done"  }'


@pytest.mark.req("R-26")
@pytest.mark.parametrize(
    "document", [{"state": "melted"}, {"state": None}, {"state": []}, {"state": {}}, {"state": 3}, {}, [], b"<html>"]
)
def test_task_in_an_unknown_state_has_failed(document: Any) -> None:
    """A state outside the provider file's lists is an answer that cannot be read."""
    unreadable = ProviderError(_UNREADABLE, Upstream(200))
    assert _classify_poll(_reply(200, document)) == Failed(unreadable, 200, Reached.ACCEPTED)


def test_failed_task_is_the_partners_failure() -> None:
    """A failed task is the partner's failure; a poll itself carries no input that could be rejected."""
    for reply in (_reply(200, {"state": "failed"}), _reply(404, {}), _failure_reply("anything", 422, param="width")):
        failure = ProviderError(upstream=Upstream(reply.status))
        assert _classify_poll(reply) == Failed(failure, reply.status, Reached.ACCEPTED)


def test_failed_task_is_told_in_the_partners_words() -> None:
    """What a partner says of work that has failed is told, on one line, bounded, and without what links may hide."""
    said = "No face was\nfound in https://cdn.example/a.png?token=secret " + "x" * 400
    failed = _classify_poll(_reply(200, {"state": "failed", "task_error": {"message": said}}))
    assert isinstance(failed, Failed)
    assert isinstance(failed.fault, ProviderError)
    assert failed.fault.detail == f"The provider says that the work failed: {failed.words}"
    assert (failed.words or "").startswith("No face was found in https://cdn.example/a.png xxx")
    assert len(failed.words or "") == 300


@pytest.mark.req("R-20")
def test_task_rejected_for_its_input_keeps_its_reason() -> None:
    """A failed-task poll answered 200 with the reason in its body is the caller's input refused, reason included."""
    rejected = _classify_poll(_reply(200, {"state": "rejected", "why": "x"}))
    assert rejected == Failed(InvalidInput("x", Upstream(200, "x")), 200, Reached.ACCEPTED, "x")


def test_task_can_be_refused_by_policy() -> None:
    """A task can be refused on content grounds long after it was accepted."""
    refusal = _reply(200, {"state": "failed", "error": {"code": "refused", "side": "picture"}})
    assert _classify_poll(refusal) == Failed(
        ContentPolicyViolation("output_image", Upstream(200)), 200, Reached.ACCEPTED
    )


@pytest.mark.req("R-20")
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("plain", "plain"),
        ("  two\r\nlines\t", "two lines"),
        ("bell\x07 and \x1b[31mred", "bell and [31mred"),
        ("turned \u202eround", "turned round"),
        ("see https://x.example/a?token=secret#part now", "see https://x.example/a now"),
        ("(https://x.example/#s)", "(https://x.example/"),
        ("why? because", "why? because"),
        ("x" * 1000, "x" * REASON_MAX),
        ("", None),
        ("\u0000", None),
        (None, None),
        (7, None),
    ],
)
def test_partners_words_are_sanitized(words: Any, shown: str | None) -> None:
    """Reasons are one line, without control characters and without what may be secret in a link, and bounded."""
    assert sanitize(words) == shown


@pytest.mark.req("R-20")
@given(st.text(max_size=3 * REASON_MAX))
def test_every_text_is_made_safe(words: str) -> None:
    """Whatever a partner writes: bounded, printable, and no link with a query."""
    shown = sanitize(words)
    if shown is not None:
        assert 0 < len(shown) <= REASON_MAX
        assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
        assert not any("://" in word and "?" in word for word in shown.split())


_VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["refused", "late", "busy", "rejected", "done", "queued", "failed", "http://[", "\u00b2", "9" * 50]
    )
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "code", "side", "state", "why", "id", "url", "ok", "message", "param", "kind"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
_REPLIES: Final = st.builds(
    Reply,
    st.integers(100, 599),
    st.dictionaries(
        st.sampled_from(["content-type", "retry-after", "x-other"]),
        st.sampled_from(["application/json", "audio/wav", "text/html", "", "7"]) | st.text(),
        max_size=3,
    ),
    st.binary() | _VALUES.map(lambda value: json.dumps(value).encode()),
)


@given(st.sampled_from(sorted(_PROVIDER.calls)), _REPLIES)
def test_every_answer_can_be_read(call: str, reply: Reply) -> None:
    """Reading never raises and always ends in one of its readings, whatever a partner answers."""
    reading = _classify_answer(call, reply)
    assert isinstance(reading, Completed | Failed | Accepted)
    _is_bounded(reading)


@given(_REPLIES)
def test_every_poll_can_be_read(reply: Reply) -> None:
    """The same of polls, which never end in a handle or in the caller's fault."""
    reading = _classify_poll(reply)
    assert isinstance(reading, Completed | Failed | Pending)
    _is_bounded(reading)
    assert not (isinstance(reading, Failed) and isinstance(reading.fault, InvalidInput | InputRejected))


def _is_bounded(reading: Any) -> None:
    """Nothing a caller may be shown is without bound."""
    match reading:
        case Failed(fault=InvalidInput(detail=detail, upstream=upstream)):
            assert len(detail) <= REASON_MAX
            assert upstream.detail is None or len(upstream.detail) <= REASON_MAX
        case Failed(fault=ContentPolicyViolation(subject=subject)):
            assert subject is None or subject in REFUSAL_SUBJECTS
        case Failed(fault=ServiceUnavailable(retry_after=seconds)):
            assert seconds is not None
            assert 1 <= seconds <= 3600
        case Accepted(handle=handle):
            assert 0 < len(handle) <= HANDLE_MAX
            assert handle.isprintable()
        case _:
            pass
