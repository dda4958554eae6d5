"""What is submitted: the body of `POST /api/v2/jobs`, read without reading the workflow in it (J-12)."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.documents.members import BadDocumentError, Members, Wanted
from fairlead.domain.jobs.faults import BadLabels, BadSubmission, JobFaultError, SubmissionRefused
from fairlead.domain.jobs.jobs import NewJob
from fairlead.domain.jobs.labels import fault_of_labels
from fairlead.domain.runs.replays import KEY_MAX

METADATA_BYTES_MAX: Final = 64 * 1024
_KEY_BYTES_MAX: Final = 8 * 1024
_ABSENT: Final = b"null"
_RESERVED: Final = ("webhook_url", "inputs")
SUBMITTED: Final = Wanted(
    ("workflow", "extra_data", "metadata", *_RESERVED), (("workflow", "nodes"), ("workflow", "links"))
)
"""The members of a body, and what tells a workflow as an editor draws it. Other members are passed by.

Each stays as it was sent until it is known to be small enough to be read.
"""


def read_submission(members: Members, key_fields: Sequence[str], idempotency_key: bytes | None) -> NewJob:
    """Read what is SUBMITTED; JobFaultError says why it is refused.

    `key_fields` are the fields of `extra_data` that may hold the key which pays for partner nodes; it takes no others,
    and nothing of it is kept.
    """
    body = members.values
    for name in _RESERVED:
        if body.get(name, _ABSENT) != _ABSENT:
            raise _bad(f"{name} is reserved, and cannot be sent yet.")
    return NewJob(
        workflow=_workflow(members),
        partner_key=_partner_key(body.get("extra_data", _ABSENT), key_fields),
        strict=True,
        labels=_labels(body.get("metadata", _ABSENT)),
        idempotency_key=_idempotency_key(idempotency_key),
    )


def malformed(error: BadDocumentError) -> JobFaultError:
    """What is said of a body that is no JSON object, or cannot be read."""
    if error.is_too_deep:
        return _bad("The body is nested too deeply.")
    return _bad(f"The body is no JSON object that can be submitted: {error.reason}.")


def _workflow(members: Members) -> bytes:
    workflow = members.values.get("workflow", _ABSENT)
    if not workflow.startswith(b"{"):
        message = "The body must have a workflow: an object of nodes by their ids."
        raise JobFaultError(SubmissionRefused("invalid_workflow", message))
    if members.lists == frozenset(SUBMITTED.lists):
        message = "This is the editor's own format; export the workflow in the API format instead."
        raise JobFaultError(BadSubmission("workflow_format_ui", message))
    return workflow


def _partner_key(raw: bytes, key_fields: Sequence[str]) -> str | None:
    if raw == _ABSENT:
        return None
    known = " or ".join(key_fields)
    if len(raw) > _KEY_BYTES_MAX * len(key_fields):
        raise _bad(f"extra_data takes a key of at most {_KEY_BYTES_MAX} bytes as {known}.")
    try:
        sent = msgspec.json.decode(raw, type=dict[str, str | None])
    except msgspec.DecodeError as error:
        raise _bad(f"extra_data must be an object, which takes a key as {known}.") from error
    if not set(sent) <= set(key_fields):
        raise _bad(f"extra_data takes nothing but {known}.")
    return next((key for name in key_fields if (key := sent.get(name))), None)


def _labels(raw: bytes) -> dict[str, str]:
    if raw == _ABSENT:
        return {}
    if len(raw) > METADATA_BYTES_MAX:
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
