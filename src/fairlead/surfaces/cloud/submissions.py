"""What is submitted (C-04): the body of `POST /api/prompt`, read without reading the workflow in it.

A workflow may have a million nodes. It is found in the body and handed on as it stands; whoever knows the classes of
nodes reads it, in another process.
"""

import re
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request

from fairlead.domain.faults import BodyTooLarge, FaultError
from fairlead.domain.jobs.faults import BadSubmission, JobFaultError, JobNotFound
from fairlead.domain.jobs.jobs import NewJob
from fairlead.surfaces.cloud.bodies import reason

EXTRA_BYTES_MAX: Final = 8 * 2**20
"""What may come beside a workflow: most of it the same workflow as an editor draws it."""
TARGETS_MAX: Final = 10_000
_TARGETS_BYTES_MAX: Final = 2**20
_WORD_BYTES_MAX: Final = 1024
_KEY_MAX: Final = 8 * 1024
_SECRETS: Final = ("api_key_", "auth_token_")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ABSENT: Final = b"null"
_NO_PROMPT: Final = msgspec.Raw()
_encode: Final = msgspec.json.Encoder().encode
T = TypeVar("T")


class _Body(msgspec.Struct):
    """Everything stays as it was sent until it is known to be small enough to be read.

    `number` and `front`, by which a client of the engine this API follows could overtake others, change nothing: jobs
    of a workspace begin in the order in which they were submitted.
    """

    prompt: msgspec.Raw = _NO_PROMPT
    prompt_id: msgspec.Raw = msgspec.Raw(_ABSENT)
    client_id: msgspec.Raw = msgspec.Raw(_ABSENT)
    extra_data: msgspec.Raw = msgspec.Raw(_ABSENT)
    partial_execution_targets: msgspec.Raw = msgspec.Raw(_ABSENT)


_bodies: Final = msgspec.json.Decoder(_Body)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_submission(content: bytes, key_fields: Sequence[str], usage_source: str | None = None) -> NewJob:
    """Read what is submitted; JobFaultError(BadSubmission) for what cannot be.

    `key_fields` are the fields of `extra_data` that may hold the key which pays for partner nodes. It and every other
    secret among them are taken out before anything is kept. `usage_source` is how the client calls itself.
    """
    body = _body(content)
    workflow = _workflow(body)
    extra = _extra(body)
    partner_key = _partner_key(extra, key_fields)
    for name, value in (("client_id", _text("client_id", body.client_id)), ("comfy_usage_source", usage_source)):
        if value is not None:
            extra[name] = msgspec.Raw(_encode(value[:_WORD_BYTES_MAX]))
    return NewJob(
        workflow=workflow,
        extra=_encode({name: raw for name, raw in extra.items() if not name.startswith(_SECRETS)}),
        partner_key=partner_key,
        chosen_id=_chosen_id(body),
        targets=_targets(body),
    )


def is_job_id(text: str) -> bool:
    """Whether a text may be the id of a job: a UUID in lower case, with its hyphens."""
    return _UUID.fullmatch(text) is not None


def asked_job(request: Request) -> str:
    """The id of the job a path names; JobFaultError(JobNotFound) for what can be none."""
    job_id: str = request.path_params["job_id"]
    if not is_job_id(job_id):
        raise JobFaultError(JobNotFound(job_id))
    return job_id


def _body(content: bytes) -> _Body:
    try:
        if not content.isascii():
            content.decode()  # what is passed over is not checked, and would come out again as it went in
        return _bodies.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"The body is no JSON object that can be submitted: {reason(error)}."
        raise JobFaultError(BadSubmission("invalid_json", message)) from error


def _workflow(body: _Body) -> bytes:
    workflow = bytes(body.prompt)
    if not workflow:
        raise _bad("no_prompt", "The body has no prompt.")
    if not workflow.startswith(b"{"):
        raise _bad("invalid_prompt", "The prompt must be an object of nodes by their ids.")
    return workflow


def _extra(body: _Body) -> dict[str, msgspec.Raw]:
    raw = bytes(body.extra_data)
    if len(raw) > EXTRA_BYTES_MAX:
        raise FaultError(BodyTooLarge(EXTRA_BYTES_MAX))
    if raw == _ABSENT:
        return {}
    if not raw.startswith(b"{"):
        raise _bad("invalid_extra_data", "extra_data must be an object.")
    return _fields.decode(raw)


def _partner_key(extra: dict[str, msgspec.Raw], key_fields: Sequence[str]) -> str | None:
    for name in key_fields:
        text = _text(name, extra[name], _KEY_MAX) if name in extra else None
        if text:
            return text
    return None


def _chosen_id(body: _Body) -> str | None:
    raw = bytes(body.prompt_id)
    if raw == _ABSENT:
        return None
    text = raw[1:-1].decode("ascii", "replace")
    if not (raw.startswith(b'"') and is_job_id(text)):
        raise _bad("invalid_prompt_id", "prompt_id must be a UUID in lower case, with its hyphens.")
    return text


def _targets(body: _Body) -> Sequence[str] | None:
    raw = bytes(body.partial_execution_targets)
    if raw == _ABSENT:
        return None
    found = _small("partial_execution_targets", raw, _TARGETS_BYTES_MAX, list[str], "a list of node ids")
    if len(found) > TARGETS_MAX:
        raise _bad("invalid_targets", f"partial_execution_targets may name {TARGETS_MAX} nodes.")
    return found


def _text(name: str, raw: msgspec.Raw, most: int = _WORD_BYTES_MAX) -> str | None:
    content = bytes(raw)
    return None if content == _ABSENT else _small(name, content, most, str, "a text")


def _small(name: str, raw: bytes, most: int, kind: type[T], what: str) -> T:
    bad = _bad("invalid_request", f"{name} must be {what} of at most {most} bytes.")
    if len(raw) > most:
        raise bad
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad from error


def _bad(type_: str, message: str) -> JobFaultError:
    return JobFaultError(BadSubmission(type_, message))
