"""Submitting a workflow, and how many wait (C-04)."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.cloud.bodies import read_document
from fairlead.api.cloud.documents import PromptInfo, PromptTaken
from fairlead.api.cloud.submissions import SUBMITTED, malformed, read_submission
from fairlead.api.cloud.wire import answer
from fairlead.api.http.json_bodies import read_members
from fairlead.api.http.route import caller_of
from fairlead.document_readers import DocumentReaders
from fairlead.documents.members import BadDocumentError
from fairlead.operations.jobs.read import JobReader
from fairlead.operations.jobs.submit import Submitter


@dataclass(frozen=True, slots=True)
class PromptHandlers:
    """Answers `/api/prompt`. `body_limit` is in bytes; `key_fields` as `Brand.partner_key_fields` has them."""

    readers: DocumentReaders
    submitter: Submitter
    reader: JobReader
    key_fields: Sequence[str]
    body_limit: int
    workflow_values: int

    async def submit_prompt(self, request: Request) -> Response:
        """`POST /prompt`: a job is durable when this answers; outputs that are wrong are left out and named."""
        caller = caller_of(request)
        content = await read_document(request, self.workflow_values, self.body_limit)
        try:
            members = await read_members(self.readers, caller.workspace_id, content, SUBMITTED)
        except BadDocumentError as error:
            raise malformed(error.reason) from error
        del content  # what is needed of it is in the members
        new = read_submission(members, self.key_fields, request.headers.get("comfy-usage-source"))
        job = await self.submitter.submit(caller, new)
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
