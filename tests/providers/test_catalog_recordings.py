"""Every provider file read over answers as the vendors document them: tests/providers/recordings/<provider>/*.json.

A recording names its source, the call and stage it answers, and what it means to a caller. They are written by hand
from what is known of the vendors' documentation, and not by our simulator or our reading, so that these check each
other. `guessed` marks words that no documentation gives, `checked` the day on which a page or a client was looked at
for the very words. `unlike` are patterns of samples that it cannot answer, because it tells of another length or size.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from cases import for_each
from catalog_samples import shipped_catalog, shipped_providers
from fairlead.domain.faults import (
    REFUSAL_SUBJECTS,
    ContentPolicyViolation,
    Fault,
    InputRejected,
    InvalidInput,
    ProviderError,
    ProviderTimeout,
    ServiceUnavailable,
    bucket,
)
from fairlead.domain.pointers import find_all
from fairlead.domain.runs.outcomes import TAKEN, Completed, Failed, Reached
from fairlead.http_client.outcomes import Reply
from fairlead.providers.answers import (
    Accepted,
    Ended,
    Pending,
    classify_answer,
    classify_poll,
    classify_result,
    read_handle,
    read_here,
)
from fairlead.providers.spec import Call, Polling, Protocol, Provider

_FOLDER: Final = Path(__file__).parent / "recordings"
_PROVIDERS: Final = shipped_providers()
_JSON: Final = {"content-type": "application/json"}
_PAGE: Final = b"<!DOCTYPE html><html><head><title>Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
_ALWAYS: Final = {"completed", "invalid", "rate-limited", "server-error", "unauthorized"}
_OF_TASKS: Final = {"accepted", "pending", "failed"}
_REFUSES_NOTHING: Final = {"local"}
"""Those without moderation."""


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an answer means; what is left out is not looked at, but for the subject of a refusal."""

    reading: str
    bucket: str | None = None
    subject: str | None = None
    reason: str | None = None
    field: str | None = None
    retry_after: int | None = None
    handle: str | dict[str, str] | None = None


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One documented answer. `body` is JSON, or text for what is none."""

    source: str
    kind: str
    call: str
    stage: str
    status: int
    headers: dict[str, str]
    body: Any
    expected: Expected
    guessed: bool = False
    checked: str | None = None
    unlike: list[str] = []

    def reply(self) -> Reply:
        """The answer as it comes off the wire."""
        content = self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()
        return Reply(self.status, self.headers, content)


def _recordings() -> Iterator[tuple[str, str, Recording]]:
    for path in sorted(_FOLDER.glob("*/*.json")):
        yield path.parent.name, path.stem, msgspec.json.decode(path.read_bytes(), type=Recording)


RECORDINGS: Final = list(_recordings())
every_recording = for_each(
    ("name", "recording"),
    [pytest.param(provider, found, id=f"{provider}-{name}") for provider, name, found in RECORDINGS],
)
every_call = for_each(
    ("provider", "call"),
    [
        pytest.param(provider, call, id=f"{provider.name}.{call.name}")
        for provider in _PROVIDERS.values()
        for call in provider.calls.values()
    ],
)
every_task = for_each(
    ("provider", "call"),
    [
        pytest.param(provider, call, id=f"{provider.name}.{call.name}")
        for provider in _PROVIDERS.values()
        for call in provider.calls.values()
        if call.polling is not None
    ],
)


def read(provider: Provider, call: Call, stage: str, reply: Reply) -> Completed | Failed | Accepted | Pending | Ended:
    """Read an answer as the exchange does at a stage."""
    if stage == "submit":
        return classify_answer(provider, call, read_here(reply))
    if stage == "poll":
        return classify_poll(provider, call, polling_of(call), read_here(reply))
    return classify_result(provider, call, read_here(reply))


def polling_of(call: Call) -> Polling:
    """How a task is polled."""
    assert call.polling is not None
    return call.polling


@every_recording
def test_every_documented_answer_is_understood(name: str, recording: Recording) -> None:
    """Each answer means to a caller what the vendor says it means."""
    provider, expected = _PROVIDERS[name], recording.expected
    call = provider.calls[recording.call]
    reading = read(provider, call, recording.stage, recording.reply())
    assert type(reading).__name__.lower() == expected.reading, reading
    if isinstance(reading, Accepted) and expected.handle is not None:
        parts = {"handle": expected.handle} if isinstance(expected.handle, str) else expected.handle
        assert read_handle(call, reading.handle) == parts
    if isinstance(reading, Completed):
        assert reading.content == recording.reply().content
    if isinstance(reading, Failed):
        assert _spell_fault(reading.fault) == _complete_expected(expected, _spell_fault(reading.fault))
        assert reading.upstream_status == recording.status
        assert (reading.reached in TAKEN) == (recording.stage != "submit")


def _spell_fault(fault: Fault) -> dict[str, Any]:
    """What a caller is told, as a recording spells it."""
    told: dict[str, Any] = {"bucket": bucket(fault), "subject": None}
    match fault:
        case ContentPolicyViolation(subject=subject):
            told["subject"] = subject
        case InvalidInput(detail=detail):
            told |= {"reason": detail, "field": None}
        case InputRejected(violations=(first, *_)):
            told |= {"reason": first.msg, "field": ".".join(map(str, first.loc[1:]))}
        case ServiceUnavailable(retry_after=seconds):
            told["retry_after"] = seconds
        case _:
            pass  # the bucket says it all
    return told


def _complete_expected(expected: Expected, told: Mapping[str, Any]) -> dict[str, Any]:
    """What a recording says, completed with what it leaves open."""
    said = {name: getattr(expected, name) for name in ("reason", "field", "retry_after")}
    given = {name: value for name, value in said.items() if value is not None}
    return {**told, "bucket": expected.bucket, "subject": expected.subject, **given}


@for_each("name", sorted(_PROVIDERS))
def test_every_provider_file_has_all_kinds_of_recordings(name: str) -> None:
    """Each provider has its successes, failures, refusals, validation errors, limits and crashes on record."""
    provider = _PROVIDERS[name]
    found = {recording.kind for owner, _, recording in RECORDINGS if owner == name}
    is_task = any(call.polling is not None for call in provider.calls.values())
    ends_early = any(
        call.polling is not None and (call.cancel or call.polling.cancelled) for call in provider.calls.values()
    )
    wanted = _ALWAYS | (_OF_TASKS if is_task else set()) | (set() if name in _REFUSES_NOTHING else {"refused"})
    assert (wanted | ({"cancelled"} if ends_early else set())) - found == set()


def test_every_recording_belongs_to_a_provider() -> None:
    """Every folder belongs to a provider file, and each provider has one."""
    assert {owner for owner, _, _ in RECORDINGS} == set(_PROVIDERS)


@for_each("name", sorted(_PROVIDERS))
def test_every_meaning_of_a_provider_file_is_recorded(name: str) -> None:
    """Each meaning that the signs of a file give has an answer on record that has it."""
    buckets = {
        "invalid": "invalid_input",
        "refused": "content_policy_violation",
        "failed": "provider_error",
        "timeout": "provider_timeout",
        "unavailable": "service_unavailable",
        "cancelled": "cancelled",
    }
    meant = {buckets[sign.means.value] for sign in _PROVIDERS[name].signs}
    shown = {recording.expected.bucket for owner, _, recording in RECORDINGS if owner == name}
    assert meant - shown == set()


@for_each("name", sorted(_PROVIDERS))
def test_every_subject_is_in_the_vocabulary(name: str) -> None:
    """Whatever side a file can name is one of the closed vocabulary (R-20)."""
    named = {side for sign in _PROVIDERS[name].signs for side in (sign.side, *sign.subjects.values())}
    assert named - {None} <= REFUSAL_SUBJECTS


def test_documented_links_lead_to_known_hosts() -> None:
    """The links of documented results, where assets are copied from, are at hosts that the provider file knows."""
    rules: dict[str, set[Any]] = {}
    for model in shipped_catalog().models.values():
        rules.setdefault(model.native.provider, set()).update(model.assets.at)
    foreign = [
        (name, link)
        for name, _, recording in RECORDINGS
        if recording.expected.reading == "completed" and not isinstance(recording.body, str)
        for pointer in rules.get(name, ())
        for _, link in find_all(recording.body, pointer)
        if str(link).startswith("http") and not _PROVIDERS[name].may_follow(link, with_credential=False)
    ]
    assert foreign == []


@pytest.mark.req("R-26")
@for_each(
    "reply",
    [
        pytest.param(Reply(200, {"content-type": "text/html"}, _PAGE), id="page"),
        pytest.param(Reply(200, _JSON, b'{"id": "x", "status": '), id="cut"),
        pytest.param(Reply(200, _JSON, b""), id="empty"),
        pytest.param(Reply(200, {}, b""), id="nothing"),
        pytest.param(Reply(200, _JSON, b"null"), id="null"),
        pytest.param(Reply(200, _JSON, b"[]"), id="array"),
        pytest.param(Reply(200, _JSON, b'"done"'), id="text"),
        pytest.param(Reply(200, _JSON, b'{"unheard_of": [1, {"of": null}]}'), id="stranger"),
        pytest.param(Reply(200, _JSON, b"\xff\xfe{}"), id="no-utf8"),
        pytest.param(Reply(200, _JSON, b'{"a":' * 5000), id="deep"),
        pytest.param(Reply(302, {"location": "https://example.com"}, b""), id="redirect"),
    ],
)
@every_call
def test_garbage_is_never_a_result(provider: Provider, call: Call, reply: Reply) -> None:
    """What no documentation shows is the provider's failure at every stage, and never a result."""
    stages = ["submit", *(["poll"] if call.polling is not None else [])]
    for stage in stages:
        reading = read(provider, call, stage, reply)
        if _may_mean_pending(call, stage, reply):
            continue
        assert isinstance(reading, Failed), (stage, reading)
        assert isinstance(reading.fault, ProviderError), (stage, reading)


def _may_mean_pending(call: Call, stage: str, reply: Reply) -> bool:
    """Whether an answer without a status is what the vendor sends while work goes on; a result is still none."""
    return stage == "poll" and reply.status // 100 == 2 and "absent" in polling_of(call).pending


@for_each(
    ("status", "wanted"),
    [
        (500, ProviderError),
        (502, ProviderError),
        (503, ProviderError),
        (504, ProviderTimeout),
        (429, ServiceUnavailable),
        (401, ProviderError),
        (403, ProviderError),
    ],
)
@every_call
def test_page_of_a_gateway_is_read_by_its_status(provider: Provider, call: Call, status: int, wanted: type) -> None:
    """A page of whatever stands before the vendor is read by its status alone."""
    reading = read(provider, call, "submit", Reply(status, {"content-type": "text/html"}, _PAGE))
    assert isinstance(reading, Failed)
    is_known = status == 503 and isinstance(reading.fault, ServiceUnavailable)
    assert isinstance(reading.fault, wanted) or is_known, reading


@for_each("status", [400, 401, 403, 404, 408, 429, 500, 502, 503, 504])
@every_task
def test_failed_poll_is_never_the_callers_mistake(provider: Provider, call: Call, status: int) -> None:
    """A poll carries nothing of the caller's: its own failure is the vendor's, and the work counts as taken."""
    reading = read(provider, call, "poll", Reply(status, {"content-type": "text/html"}, _PAGE))
    assert isinstance(reading, Failed)
    assert isinstance(reading.fault, ProviderError | ProviderTimeout), reading
    assert reading.reached is Reached.ACCEPTED


def test_call_promises_either_bytes_or_json() -> None:
    """Only calls that answer with bytes name media types, and all of those do."""
    calls = [call for provider in _PROVIDERS.values() for call in provider.calls.values()]
    assert {bool(call.media_types) for call in calls if call.protocol is Protocol.SYNC_BYTES} == {True}
    assert {bool(call.media_types) for call in calls if call.protocol is not Protocol.SYNC_BYTES} == {False}
