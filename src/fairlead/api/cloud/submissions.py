"""Submitting a workflow (C-04): the body of `POST /api/prompt` is read without parsing the workflow in it.

A workflow may have a million nodes. It is located in the body and passed on unparsed; a process that knows the classes
of nodes reads it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.cloud.bodies import read_document
from fairlead.api.cloud.documents import PromptInfo, PromptTaken
from fairlead.api.cloud.wire import answer
from fairlead.api.http.asgi import header, read_members
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.headers import LABELS, read_labels
from fairlead.api.http.route import caller_of
from fairlead.document_readers import DocumentReaders
from fairlead.documents.members import BadDocumentError, Members, Wanted
from fairlead.domain.faults import BodyTooLarge, FaultError
from fairlead.domain.jobs.faults import BadSubmission, JobFaultError, JobNotFound
from fairlead.domain.jobs.jobs import NewJob
from fairlead.operations.jobs.read import JobReader
from fairlead.operations.jobs.submit import Submitter

EXTRA_BYTES_MAX: Final = 8 * 2**20
"""The largest `extra_data`: most of it is the same workflow as an editor draws it."""
TARGETS_MAX: Final = 10_000
_TARGETS_BYTES_MAX: Final = 2**20
_WORD_BYTES_MAX: Final = 1024
_KEY_MAX: Final = 8 * 1024
_SECRETS: Final = ("api_key_", "auth_token_")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ABSENT: Final = b"null"
_encode: Final = msgspec.json.Encoder().encode
T = TypeVar("T")


SUBMITTED: Final = Wanted(("prompt", "prompt_id", "client_id", "extra_data", "partial_execution_targets"))
"""The members of a body. Each stays as it was sent until it is known to be small enough to be read. `number` and
`front`, by which a client of ComfyUI could overtake others, change nothing: jobs of a workspace begin in the order in
which they were submitted.
"""
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_submission(members: Members, key_fields: Sequence[str], usage_source: str | None = None) -> NewJob:
    """Read SUBMITTED members; JobFaultError(BadSubmission) for what cannot be read.

    `key_fields` are the fields of `extra_data` that may hold the key which pays for partner nodes. It and all other
    secrets are taken out before anything is stored. `usage_source` is the name that the client gives itself.
    """
    body = members.values
    workflow = _workflow(body)
    extra = _extra(body)
    partner_key = _partner_key(extra, key_fields)
    client_id = _text("client_id", body.get("client_id", _ABSENT))
    for name, value in (("client_id", client_id), ("comfy_usage_source", usage_source)):
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
    """The id of the job a path names; JobFaultError(JobNotFound) for what cannot be an id."""
    job_id: str = request.path_params["job_id"]
    if not is_job_id(job_id):
        raise JobFaultError(JobNotFound(job_id))
    return job_id


def malformed_body(reason: str) -> JobFaultError:
    """The message for a body that is not a JSON object, or cannot be read."""
    return _bad("invalid_json", f"The body is not a JSON object that can be submitted: {reason}.")


def _workflow(body: Mapping[str, bytes]) -> bytes:
    workflow = body.get("prompt")
    if workflow is None:
        raise _bad("no_prompt", "The body has no prompt.")
    if not workflow.startswith(b"{"):
        raise _bad("invalid_prompt", "The prompt must be an object of nodes by their ids.")
    return workflow


def _extra(body: Mapping[str, bytes]) -> dict[str, msgspec.Raw]:
    raw = body.get("extra_data", _ABSENT)
    if len(raw) > EXTRA_BYTES_MAX:
        raise FaultError(BodyTooLarge(EXTRA_BYTES_MAX))
    if raw == _ABSENT:
        return {}
    if not raw.startswith(b"{"):
        raise _bad("invalid_extra_data", "extra_data must be an object.")
    return _fields.decode(raw)


def _partner_key(extra: dict[str, msgspec.Raw], key_fields: Sequence[str]) -> str | None:
    for name in key_fields:
        text = _text(name, bytes(extra[name]), _KEY_MAX) if name in extra else None
        if text:
            return text
    return None


def _chosen_id(body: Mapping[str, bytes]) -> str | None:
    raw = body.get("prompt_id", _ABSENT)
    if raw == _ABSENT:
        return None
    text = raw[1:-1].decode("ascii", "replace")
    if not (raw.startswith(b'"') and is_job_id(text)):
        raise _bad("invalid_prompt_id", "prompt_id must be a UUID in lower case, with its hyphens.")
    return text


def _targets(body: Mapping[str, bytes]) -> Sequence[str] | None:
    raw = body.get("partial_execution_targets", _ABSENT)
    if raw == _ABSENT:
        return None
    found = _small("partial_execution_targets", raw, _TARGETS_BYTES_MAX, list[str], "a list of node ids")
    if len(found) > TARGETS_MAX:
        raise _bad("invalid_targets", f"partial_execution_targets may name {TARGETS_MAX} nodes.")
    return found


def _text(name: str, raw: bytes, most: int = _WORD_BYTES_MAX) -> str | None:
    return None if raw == _ABSENT else _small(name, raw, most, str, "a text")


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


class PromptHandlers(msgspec.Struct, frozen=True):
    """Answers `/api/prompt`. `body_limit` is in bytes; `key_fields` as `Brand.partner_key_fields` has them."""

    readers: DocumentReaders
    submitter: Submitter
    reader: JobReader
    base_urls: BaseUrls
    key_fields: Sequence[str]
    body_limit: int
    workflow_values: int

    async def submit_prompt(self, request: Request) -> Response:
        """`POST /prompt`: a job is durable when this answers; outputs that are wrong are left out and named."""
        caller = caller_of(request)
        labels = read_labels(header(request.scope, LABELS) or b"")
        content = await read_document(request, self.workflow_values, self.body_limit)
        try:
            members = await read_members(self.readers, caller.workspace_id, content, SUBMITTED)
        except BadDocumentError as error:
            raise malformed_body(error.reason) from error
        del content  # the members hold all that is needed of it
        new = read_submission(members, self.key_fields, request.headers.get("comfy-usage-source"))
        if new.partner_key is not None:
            new = msgspec.structs.replace(new, partner_address=self.base_urls.caller_of(request.scope))
        job = await self.submitter.submit(caller, msgspec.structs.replace(new, labels=labels))
        taken: PromptTaken = {
            "prompt_id": job.public_id,
            "number": job.number,
            "node_errors": msgspec.Raw(job.node_errors),
        }
        return answer(taken)

    async def show_prompt(self, request: Request) -> Response:
        """`GET /prompt`: how many jobs wait or are executed."""
        caller = caller_of(request)
        return answer(PromptInfo(exec_info={"queue_remaining": await self.reader.remaining(caller)}))
