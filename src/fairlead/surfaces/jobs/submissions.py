"""What is submitted: the body of `POST /api/v2/jobs`, read without reading the workflow in it (J-12)."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.domain.jobs.faults import BadLabels, BadSubmission, JobFaultError, SubmissionRefused
from fairlead.domain.jobs.jobs import NewJob
from fairlead.domain.jobs.labels import fault_of_labels
from fairlead.domain.runs.replays import KEY_MAX

METADATA_BYTES_MAX: Final = 64 * 1024
_REASON_MAX: Final = 300
_KEY_BYTES_MAX: Final = 8 * 1024
_ABSENT: Final = msgspec.Raw(b"null")
_RESERVED: Final = ("webhook_url", "inputs")
_DRAWN: Final = frozenset({"nodes", "links"})


class _Body(msgspec.Struct):
    """Everything stays as it was sent until it is known to be small enough to be read. Other members are passed by."""

    workflow: msgspec.Raw = _ABSENT
    extra_data: msgspec.Raw = _ABSENT
    metadata: msgspec.Raw = _ABSENT
    webhook_url: msgspec.Raw = _ABSENT
    inputs: msgspec.Raw = _ABSENT


_bodies: Final = msgspec.json.Decoder(_Body)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_submission(content: bytes, key_fields: Sequence[str], idempotency_key: bytes | None) -> NewJob:
    """Read what is submitted; JobFaultError says why it is refused.

    `key_fields` are the fields of `extra_data` that may hold the key which pays for partner nodes; it takes no others,
    and nothing of it is kept.
    """
    body = _body(content)
    for name in _RESERVED:
        if bytes(getattr(body, name)) != bytes(_ABSENT):
            raise _bad(f"{name} is reserved, and cannot be sent yet.")
    return NewJob(
        workflow=_workflow(body.workflow),
        partner_key=_partner_key(body.extra_data, key_fields),
        strict=True,
        labels=_labels(body.metadata),
        idempotency_key=_idempotency_key(idempotency_key),
    )


def _body(content: bytes) -> _Body:
    try:
        if not content.isascii():
            content.decode()  # what is passed over is not checked, and would come out again as it went in
        return _bodies.decode(content)
    except RecursionError as error:
        raise _bad("The body is nested too deeply.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(f"The body is no JSON object that can be submitted: {str(error)[:_REASON_MAX]}.") from error


def _workflow(raw: msgspec.Raw) -> bytes:
    workflow = bytes(raw)
    if not workflow.startswith(b"{"):
        message = "The body must have a workflow: an object of nodes by their ids."
        raise JobFaultError(SubmissionRefused("invalid_workflow", message))
    if _is_drawn(workflow):
        message = "This is the editor's own format; export the workflow in the API format instead."
        raise JobFaultError(BadSubmission("workflow_format_ui", message))
    return workflow


def _is_drawn(workflow: bytes) -> bool:
    """Whether a workflow is as an editor draws it: an object with lists of nodes and of links."""
    if b'"links"' not in workflow or b'"nodes"' not in workflow:
        return False
    members = _fields.decode(workflow)
    return all(name in members and bytes(members[name]).startswith(b"[") for name in _DRAWN)


def _partner_key(raw: msgspec.Raw, key_fields: Sequence[str]) -> str | None:
    if bytes(raw) == bytes(_ABSENT):
        return None
    known = " or ".join(key_fields)
    if len(bytes(raw)) > _KEY_BYTES_MAX * len(key_fields):
        raise _bad(f"extra_data takes a key of at most {_KEY_BYTES_MAX} bytes as {known}.")
    try:
        sent = msgspec.json.decode(raw, type=dict[str, str | None])
    except msgspec.DecodeError as error:
        raise _bad(f"extra_data must be an object, which takes a key as {known}.") from error
    if not set(sent) <= set(key_fields):
        raise _bad(f"extra_data takes nothing but {known}.")
    return next((key for name in key_fields if (key := sent.get(name))), None)


def _labels(raw: msgspec.Raw) -> dict[str, str]:
    if bytes(raw) == bytes(_ABSENT):
        return {}
    if len(bytes(raw)) > METADATA_BYTES_MAX:
        raise JobFaultError(BadLabels(f"metadata may have {METADATA_BYTES_MAX} bytes."))
    try:
        labels = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise JobFaultError(BadLabels("metadata must be an object of texts by their keys.")) from error
    fault = fault_of_labels(labels)
    if fault is not None:
        raise JobFaultError(fault)
    return labels


def _idempotency_key(value: bytes | None) -> str | None:
    if value is None:
        return None
    if not 1 <= len(value) <= KEY_MAX:
        raise _bad(f"Idempotency-Key must have 1 to {KEY_MAX} characters.")
    return value.decode("latin-1")


def _bad(message: str) -> JobFaultError:
    return JobFaultError(BadSubmission("invalid_request", message))
