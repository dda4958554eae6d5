"""Every fault of a partner over HTTP: its status, bucket, body and headers, and nothing held or charged after it."""

from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from fake_partner import (
    Behaviour,
    FakePartner,
    cut_chunks,
    drop,
    endless,
    gzip_reply,
    half,
    hang,
    raw,
    redirect,
    reply,
    reply_json,
)
from servers import Server, wait_until

_FAILED: Final = "The provider reported a failure of its own."
_UNREADABLE: Final = "The provider's answer could not be read as a result."
_BROKEN_OFF: Final = "The connection to the provider broke off before its answer was complete."
_CAPACITY: Final = "The provider is at capacity."
_REFUSED: Final = "The provider refused this request on content-policy grounds."


@dataclass(frozen=True)
class Told:
    """What a caller is told of a fault: `headers` are those beyond request id and bucket."""

    status: int
    error_type: str
    detail: Any
    headers: dict[str, str] = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)


def _error(code: str, status: int, **more: Any) -> Behaviour:
    return reply_json({"error": {"code": code, **more}}, status)


def _upstream(status: int, **more: str) -> dict[str, str]:
    return {"x-service-upstream-status": str(status), **more}


_UNREADABLE_200: Final = Told(502, "provider_error", _UNREADABLE, _upstream(200))
_BROKEN: Final = Told(502, "provider_error", _BROKEN_OFF)
_BROKEN_200: Final = Told(502, "provider_error", _BROKEN_OFF, _upstream(200))

_FAULTS: Final = [
    # what cannot be read as a result is the provider's error.
    pytest.param("json", reply(200, b"<h1>Busy</h1>", "text/html"), _UNREADABLE_200, id="HTML with 200"),
    pytest.param("json", reply(200, b'{"a":'), _UNREADABLE_200, id="malformed JSON"),
    pytest.param("json", reply(200, b""), _UNREADABLE_200, id="an empty body"),
    pytest.param("json", reply(200, b"[]"), _UNREADABLE_200, id="an array"),
    pytest.param("picky", reply(200, b'{"url":"https://x"}'), _UNREADABLE_200, id="no field that must be there"),
    pytest.param("picky", reply(200, b'{"ok":1,"url":"gs://x"}'), _UNREADABLE_200, id="an asset that is not a link"),
    pytest.param("bytes", reply(200, b"x", "text/plain"), _UNREADABLE_200, id="bytes of another type"),
    pytest.param("task", reply(200, b"{}"), _UNREADABLE_200, id="a task without a handle"),
    pytest.param("json", half(b'{"a":', 500), _BROKEN_200, id="half a body"),
    pytest.param("json", cut_chunks(b'{"a":'), _BROKEN_200, id="cut chunks"),
    pytest.param("json", drop(), _BROKEN, id="no answer"),
    pytest.param("json", endless(), _BROKEN_200, id="a body without end"),
    pytest.param("json", gzip_reply(b"{}"), _BROKEN_200, id="an encoded answer"),
    pytest.param("json", raw(b"SSH-2.0-OpenSSH\r\n"), _BROKEN, id="another protocol"),
    # its own failures, with its own status.
    *(
        pytest.param(
            "json", reply(status, b"{}"), Told(502, "provider_error", _FAILED, _upstream(status)), id=str(status)
        )
        for status in (401, 402, 403, 500, 501, 502, 503, 599)
    ),
    pytest.param(
        "json", redirect("http://127.0.0.1:1/"), Told(502, "provider_error", _FAILED, _upstream(302)), id="a redirect"
    ),
    pytest.param(
        "json",
        _error("broken", 200),
        Told(502, "provider_error", _FAILED, _upstream(200)),
        id="a failure told with 200",
    ),
    # too slow.
    pytest.param(
        "hasty",
        hang(),
        Told(504, "provider_timeout", "The provider did not answer in time.", {"retry-after": "5"}),
        id="no answer in time",
    ),
    *(
        pytest.param(
            "json",
            reply(status, b"{}"),
            Told(
                504,
                "provider_timeout",
                "The provider did not answer in time.",
                _upstream(status, **{"retry-after": "5"}),
            ),
            id=str(status),
        )
        for status in (408, 504)
    ),
    # no room.
    pytest.param(
        "json",
        reply(429, b"{}", Retry_After="17"),
        Told(503, "service_unavailable", _CAPACITY, {"retry-after": "17", "x-service-upstream-status": "429"}),
        id="429 with a wait",
    ),
    pytest.param(
        "json",
        reply(429, b"{}"),
        Told(503, "service_unavailable", _CAPACITY, {"retry-after": "1", "x-service-upstream-status": "429"}),
        id="429",
    ),
    pytest.param(
        "json",
        _error("busy", 500),
        Told(503, "service_unavailable", _CAPACITY, {"retry-after": "1", "x-service-upstream-status": "500"}),
        id="busy",
    ),
    # a refusal of the input, with the reason where the partner gave one.
    pytest.param(
        "json",
        reply(404, b"nothing here"),
        Told(400, "invalid_input", "The provider rejected the input.", _upstream(404)),
        id="404",
    ),
    pytest.param(
        "json",
        _error("x", 400, message="Too  long:\n see https://x.example/a?key=secret \x07é"),
        Told(
            400,
            "invalid_input",
            "Too long: see https://x.example/a é",
            _upstream(400, **{"x-service-upstream-detail": r'"Too long: see https://x.example/a \u00e9"'}),
            {"upstream_detail": "Too long: see https://x.example/a é"},
        ),
        id="a reason",
    ),
    pytest.param(
        "json",
        _error("x", 400, message="w" * 9000),
        Told(
            400,
            "invalid_input",
            "w" * 300,
            _upstream(400, **{"x-service-upstream-detail": "w" * 300}),
            {"upstream_detail": "w" * 300},
        ),
        id="a reason without end",
    ),
    *(
        pytest.param(
            "json",
            reply_json({"status": "error", "error": {"kind": 7, "message": "the mask is empty"}}, status),
            Told(
                400,
                "invalid_input",
                "the mask is empty",
                _upstream(status, **{"x-service-upstream-detail": "the mask is empty"}),
                {"upstream_detail": "the mask is empty"},
            ),
            id=f"{status} that no sign claims",
        )
        for status in (400, 413, 415, 422)
    ),
    pytest.param(
        "json",
        reply_json({"message": "no such model for organization org-7"}, 404),
        Told(400, "invalid_input", "The provider rejected the input.", _upstream(404)),
        id="words that may be about us",
    ),
    pytest.param(
        "json",
        reply_json({"state": "rejected", "why": "no such voice"}),
        Told(
            400,
            "invalid_input",
            "no such voice",
            _upstream(200, **{"x-service-upstream-detail": "no such voice"}),
            {"upstream_detail": "no such voice"},
        ),
        id="a refusal told with 200",
    ),
    # a field.
    pytest.param(
        "json",
        _error("x", 422, message="too wide", param="images.0.width", kind="greater_than"),
        Told(
            422,
            "invalid_input",
            [{"loc": ["body", "images", 0, "width"], "msg": "too wide", "type": "greater_than"}],
            _upstream(422),
        ),
        id="a field",
    ),
    # content policy.
    *(
        pytest.param(
            "json",
            _error("refused", 400, side=side, message="the partner's own words"),
            Told(
                400,
                "content_policy_violation",
                _REFUSED,
                _upstream(400, **({} if subject is None else {"x-service-refusal-subject": subject})),
                {} if subject is None else {"refusal_subject": subject},
            ),
            id=f"refused for {side}",
        )
        for side, subject in (("prompt", "input_text"), ("picture", "output_image"), ("unheard", None), ("x", None))
    ),
]


@pytest.mark.req("R-19", "R-20", "R-21", "R-22", "R-24", "R-26", "R-29")
@pytest.mark.parametrize(("call", "behaviour", "told"), _FAULTS)
def test_each_partner_fault_is_told_and_not_billed(
    router: Server, partner: FakePartner, call: str, behaviour: Behaviour, told: Told
) -> None:
    """Each fault has its status, bucket, words and headers; no words beyond; and its hold is voided."""
    partner.script({"task": "/tasks"}.get(call, f"/{call}"), behaviour)
    response = router.client.post(f"/v2/models/fake/{call}-1", json={})
    body = {"detail": told.detail}
    if told.status != 422:
        body |= {"error_type": told.error_type, **told.more}
    assert (response.status_code, response.json()) == (told.status, body)
    plain = {
        "date", "content-type", "content-length", "x-content-type-options", "x-service-request-id",
        "x-service-error-type",
    }  # fmt: skip
    assert response.headers["x-service-error-type"] == told.error_type
    assert {name: value for name, value in response.headers.items() if name not in plain} == told.headers
    entries = [row for row in router.ledger() if row["run_id"] == response.headers["x-service-request-id"]]
    assert [(row["kind"], row["balance_change"]) for row in entries] == [("hold", "0"), ("void", "0")]
    assert entries[1]["reason"] == told.error_type


@pytest.mark.req("R-19", "R-22")
@pytest.mark.parametrize("status", [401, 403])
def test_refusal_of_the_operators_key_is_logged_and_answered_with_502(
    router: Server, partner: FakePartner, status: int
) -> None:
    """The caller is told that the provider failed, and of the key only the log knows."""
    before = len(router.logged_events("CredentialRefused"))
    partner.script("/json", reply(status, b'{"error":"bad key"}'))
    response = router.client.post("/v2/models/fake/json-1", json={})
    assert (response.status_code, response.json()) == (
        502,
        {"detail": "The provider reported a failure of its own.", "error_type": "provider_error"},
    )
    assert response.headers["x-service-upstream-status"] == str(status)
    wait_until(lambda: router.logged_events("CredentialRefused")[before:], "the operator is told")
    (told,) = router.logged_events("CredentialRefused")[before:]
    assert (told["provider"], told["status"], told["level"]) == ("fake", status, "warning")


@pytest.mark.req("R-22", "R-24")
@pytest.mark.parametrize(
    ("states", "status", "error_type"),
    [
        ([reply_json({"state": "failed"})], 502, "provider_error"),
        ([reply_json({"state": "melted"})], 502, "provider_error"),
        ([reply(404, b"{}")], 502, "provider_error"),
        ([reply(200, b"<html>", "text/html")], 502, "provider_error"),
        ([reply_json({"state": "failed", "error": {"code": "refused"}})], 400, "content_policy_violation"),
    ],
)
def test_failed_task_is_told_and_not_billed(
    router: Server, partner: FakePartner, states: list[Behaviour], status: int, error_type: str
) -> None:
    """What goes wrong after a task was accepted is told like what goes wrong at once."""
    partner.script("/tasks", reply_json({"id": "t"}))
    partner.script("/tasks/t", reply_json({"state": "running"}), *states)
    response = router.client.post("/v2/models/fake/task-1", json={})
    assert (response.status_code, response.json()["error_type"]) == (status, error_type)
    assert router.charges(response.headers["x-service-request-id"]) == []


def test_failed_task_is_told_in_the_partners_words(router: Server, partner: FakePartner) -> None:
    """The words of a partner whose work has failed are in the sentence for the caller, and not in the log."""
    partner.script("/tasks", reply_json({"id": "t"}))
    partner.script("/tasks/t", reply_json({"state": "failed", "message": "No unspeakable face was found."}))
    response = router.client.post("/v2/models/fake/task-1", json={})
    assert (response.status_code, response.json()) == (
        502,
        {
            "detail": "The provider says that the work failed: No unspeakable face was found.",
            "error_type": "provider_error",
        },
    )
    written = response.headers["x-service-request-id"]
    wait_until(lambda: written in router.log.read_text("utf-8"), "the log is written")
    assert "unspeakable" not in router.log.read_text("utf-8")


def test_partners_words_are_never_logged(router: Server, partner: FakePartner) -> None:
    """Neither a caller's body nor a partner's words are logged."""
    partner.script("/json", _error("x", 400, message="unspeakable words"))
    asked = router.client.post("/v2/models/fake/json-1", json={"prompt": "unspeakable wishes"})
    written = asked.headers["x-service-request-id"]
    wait_until(lambda: written in router.log.read_text("utf-8"), "the log is written")
    assert "unspeakable" not in router.log.read_text("utf-8")
