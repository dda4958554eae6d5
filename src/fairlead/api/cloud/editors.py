"""What editors ask for when they start, and what they keep: settings, and files of their user (engine-wire, 4)."""

import platform
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.cloud.bodies import decode, read_content, read_document
from fairlead.api.cloud.documents import SystemStats, UserFile, UserStatus, UserStorage
from fairlead.api.cloud.wire import FEATURES, answer
from fairlead.api.http.route import caller_of
from fairlead.domain.accounts.editor_documents import DocumentInfo
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.operations.accounts.editor_documents import DOCUMENT_BYTES_MAX, EditorDocuments

ENGINE_VERSION: Final = "0.27.0"
"""The version of ComfyUI whose behaviour this engine has; clients read it before they use newer features."""
_STATS: Final[SystemStats] = {
    "system": {
        "os": sys.platform,
        "python_version": platform.python_version(),
        "embedded_python": False,
        "comfyui_version": ENGINE_VERSION,
        "pytorch_version": "",
        "argv": (),
        "ram_total": 0,
        "ram_free": 0,
    },
    "devices": (),
}
"""Workspaces share the machine, so they are not shown its memory."""
_CONTENT_TYPES: Final = {"json": "application/json", "css": "text/css"}
_AT_FIRST: Final = MappingProxyType({"user.css": b"", "comfy.templates.json": b"[]", "workflows/.index.json": b"{}"})
"""What these files hold before a user has stored them: an editor that starts would report a 404 as a failure."""
_KEPT_APART: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}
"""What users have stored must not run as a page of this server."""
_YES: Final = ("true", "1")


class EditorHandlers(msgspec.Struct, frozen=True):
    """Answers what editors ask for. Every route but `/features` takes a credential."""

    documents: EditorDocuments
    document_values: int
    features: Mapping[str, object] = msgspec.field(default_factory=lambda: dict(FEATURES))

    async def show_features(self, _request: Request) -> Response:
        """`GET /features`: what this server can do."""
        return answer(self.features)

    async def show_system_stats(self, _request: Request) -> Response:
        """`GET /system_stats`: which engine this is."""
        return answer(_STATS)

    async def show_user(self, _request: Request) -> Response:
        """`GET /user`: succeeds where the caller may use this API."""
        return answer(UserStatus(status="active"))

    async def show_users(self, _request: Request) -> Response:
        """`GET /users`: there is one user, whose files are kept here and not in the browser."""
        return answer(UserStorage(storage="server", migrated=True))

    async def list_extensions(self, _request: Request) -> Response:
        """`GET /extensions`: scripts of node packs are not served."""
        return answer([])

    async def list_embeddings(self, _request: Request) -> Response:
        """`GET /embeddings`: there are none."""
        return answer([])

    async def show_translations(self, _request: Request) -> Response:
        """`GET /i18n`: node packs bring no translations."""
        return answer({})

    async def show_subgraphs(self, _request: Request) -> Response:
        """`GET /global_subgraphs`: node packs bring no subgraphs."""
        return answer({})

    async def show_templates(self, _request: Request) -> Response:
        """`GET /workflow_templates`: node packs bring no templates."""
        return answer({})

    async def list_model_folders(self, _request: Request) -> Response:
        """`GET /experiment/models`: there are no folders of models to browse."""
        return answer([])

    async def show_node_replacements(self, _request: Request) -> Response:
        """`GET /node_replacements`: no class of nodes is to be replaced by another."""
        return answer({})

    async def free_memory(self, _request: Request) -> Response:
        """`POST /free`: engines keep to their bounds by themselves."""
        return answer({})

    async def list_settings(self, request: Request) -> Response:
        """`GET /settings`: every setting that was changed."""
        found = await self.documents.settings(caller_of(request))
        return answer({setting: msgspec.Raw(content) for setting, content in found.items()})

    async def change_settings(self, request: Request) -> Response:
        """`POST /settings`: change some, and leave the others as they are."""
        caller = caller_of(request)
        changes = decode(await read_document(request, self.document_values), dict[str, msgspec.Raw])
        await self.documents.change_settings(caller, {name: bytes(raw) for name, raw in changes.items()})
        return answer({})

    async def show_setting(self, request: Request) -> Response:
        """`GET /settings/{id}`: one setting, null where it was never changed."""
        caller = caller_of(request)
        found = await self.documents.setting(caller, request.path_params["setting"])
        return answer(None if found is None else msgspec.Raw(found))

    async def change_setting(self, request: Request) -> Response:
        """`POST /settings/{id}`: change one."""
        caller = caller_of(request)
        content = bytes(decode(await read_document(request, self.document_values), msgspec.Raw))
        await self.documents.change_settings(caller, {request.path_params["setting"]: content})
        return answer({})

    async def list_user_files(self, request: Request) -> Response:
        """`GET /userdata`: the files of a folder, `dir`: their names, `split` ones, or with `full_info`."""
        caller = caller_of(request)
        asked = request.query_params
        found = await self.documents.files(caller, asked.get("dir", ""), deep=_is_asked(request, "recurse"))
        if _is_asked(request, "full_info"):
            return answer([_info(file) for file in found])
        if _is_asked(request, "split"):
            return answer([[file.name, *file.name.split("/")] for file in found])
        return answer([file.name for file in found])

    async def show_user_file(self, request: Request) -> Response:
        """`GET /userdata/{file}`: a file as it was stored; an empty one of those that editors read when they start."""
        caller = caller_of(request)
        [path] = _paths(request)
        content = await self.documents.file(caller, path, _AT_FIRST.get(path))
        content_type = _CONTENT_TYPES.get(path.rpartition(".")[2], "application/octet-stream")
        return Response(content, 200, _KEPT_APART, content_type)

    async def put_user_file(self, request: Request) -> Response:
        """`POST /userdata/{file}`: keep a file, in place of one of its name unless `overwrite` says otherwise."""
        caller = caller_of(request)
        [path] = _paths(request)
        content = await read_content(request, DOCUMENT_BYTES_MAX)
        replace = request.query_params.get("overwrite") != "false"
        return _answer_stored(request, await self.documents.put_file(caller, path, content, replace=replace))

    async def delete_user_file(self, request: Request) -> Response:
        """`DELETE /userdata/{file}`: forget a file, 204."""
        caller = caller_of(request)
        [path] = _paths(request)
        await self.documents.delete_file(caller, path)
        return Response(status_code=204)

    async def move_user_file(self, request: Request) -> Response:
        """`POST /userdata/{file}/move/{to}`: give a file another name."""
        match _paths(request, moves=True):
            case [path, to]:
                caller = caller_of(request)
                replace = request.query_params.get("overwrite") != "false"
                return _answer_stored(request, await self.documents.move_file(caller, path, to, replace=replace))
            case _:  # a folder of this name: its slashes were encoded
                return await self.put_user_file(request)


def _paths(request: Request, *, moves: bool = False) -> Sequence[str]:
    """The file that a path names, and the name that it is moved to. FaultError(InvalidInput) for what is not text.

    They are read from the path as it was sent, because editors encode the slashes within a name, and only those.
    """
    raw = request.scope["raw_path"].decode("latin-1").partition("/userdata/")[2]
    file, is_move, to = raw.partition("/move/") if moves else (raw, "", "")
    try:
        return [unquote(part, errors="strict") for part in ([file, to] if is_move else [raw])]
    except UnicodeDecodeError as error:
        raise FaultError(InvalidInput("The name of the file is not UTF-8.")) from error


def _is_asked(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() in _YES


def _info(file: DocumentInfo) -> UserFile:
    return {"path": file.name, "size": file.size, "modified": file.changed_at, "created": file.changed_at}


def _answer_stored(request: Request, file: DocumentInfo) -> Response:
    return answer(_info(file) if _is_asked(request, "full_info") else file.name)
