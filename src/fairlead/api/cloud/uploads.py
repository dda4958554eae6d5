"""Uploads of the cloud API: files for workflows (C-02), and masks drawn over them (C-03)."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fairlead.api.cloud.documents import SavedFile
from fairlead.api.http.forms import Form, flag, read_form
from fairlead.api.http.route import caller_of
from fairlead.domain.jobs.faults import BadFile, JobFaultError
from fairlead.operations.assets.files import Intake, SavedName, WorkflowFiles
from fairlead.operations.assets.views import FileViews, Original

_FIELD: Final = "image"
_MASK_BYTES_MAX: Final = 50 * 2**20


class _OriginalRef(msgspec.Struct):
    """How `original_ref` names a picture; a subfolder is accepted and ignored, as everywhere."""

    filename: str
    subfolder: str = ""
    type: str = "output"


class UploadHandlers:
    """Answers `/upload/image` and `/upload/mask`. `limit` is in bytes a file; a mask may have 50 MiB at most."""

    def __init__(self, files: WorkflowFiles, views: FileViews, *, limit: int) -> None:
        self._files = files
        self._views = views
        self._limit = limit

    async def upload_image(self, request: Request) -> Response:
        """`POST /api/upload/image`: store a file of any kind, and answer with its name."""
        caller = caller_of(request)
        intake = self._files.receive(caller.workspace_id, self._limit)
        try:
            async with self._files.receiving(caller.workspace_id):
                form, name = await _read(request, intake, self._limit)
            kind, overwrite = form.fields.get("type") or "input", flag(form.fields, "overwrite")
            return _save(await intake.commit(name, kind, overwrite=overwrite))
        finally:
            await intake.abort()

    async def upload_mask(self, request: Request) -> Response:
        """`POST /api/upload/mask`: store a picture with the alpha channel of the one that is sent."""
        caller = caller_of(request)
        limit = min(self._limit, _MASK_BYTES_MAX)
        intake = self._files.receive(caller.workspace_id, limit)
        try:
            async with self._files.receiving(caller.workspace_id):
                form, name = await _read(request, intake, limit)
            kind, overwrite = form.fields.get("type") or "input", flag(form.fields, "overwrite")
            original = _original(form.fields.get("original_ref"))
            return _save(await self._views.mask(caller, intake, original, name, kind, overwrite=overwrite))
        finally:
            await intake.abort()


async def _read(request: Request, intake: Intake, limit: int) -> tuple[Form, str]:
    """Read the form into the intake; JobFaultError where it has no file with a name."""
    form = await read_form(request, _FIELD, intake, limit)
    if not form.filename:
        raise JobFaultError(BadFile(f"Send a file with a name in the field {_FIELD}."))
    return form, form.filename


def _original(text: str | None) -> Original:
    if not text:
        raise JobFaultError(BadFile("Name the picture that the mask is for, as JSON in the field original_ref."))
    try:
        reference = msgspec.json.decode(text, type=_OriginalRef)
    except (msgspec.DecodeError, RecursionError) as error:
        wanted = 'The field original_ref must be JSON such as {"filename": "photo.png", "type": "input"}.'
        raise JobFaultError(BadFile(wanted)) from error
    return Original(reference.filename, reference.type or "output")


def _save(saved: SavedName) -> Response:
    body: SavedFile = {
        "name": saved.name,
        "subfolder": saved.subfolder,
        "type": saved.type,
        "size": saved.size,
        "hash": f"blake3:{saved.hash}",
    }
    return JSONResponse(body)
