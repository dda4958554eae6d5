"""What is said of the cloud API's routes (docs/cloud.md). Sockets are no part of it: OpenAPI has no words for them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec

from fairlead.surfaces.cloud.documents import (
    JOBS_MAX,
    Cancellation,
    CloudError,
    CloudJob,
    CloudJobList,
    CloudJobStatus,
    HistoryChange,
    HistoryEntry,
    HistoryV2,
    HistoryV2Entry,
    ImageForm,
    Interrupted,
    Interruption,
    JobCancelled,
    JobsCancelled,
    MaskForm,
    PromptInfo,
    PromptSubmission,
    PromptTaken,
    QueueChange,
    QueueChanged,
    QueueShown,
    SavedFile,
    SystemStats,
    UserFile,
    UserStatus,
    UserStorage,
)
from fairlead.surfaces.cloud.routes import PREFIX, ROUTES
from fairlead.surfaces.openapi.description import (
    ANYTHING,
    FILE_ANSWERS,
    IF_NONE_MATCH,
    KNOWN,
    RANGE,
    Access,
    Answer,
    Body,
    DescribedRoute,
    Description,
    Operation,
    Parameter,
)
from fairlead.surfaces.schemas import AnyObject, Upload

_FORM: Final = "multipart/form-data"
_BYTES: Final = "application/octet-stream"
_NAMED: Final = (404,)
"""Names may have slashes in them, but no ends of lines: there is nothing at such paths."""
_Page = Annotated[int, msgspec.Meta(ge=1, le=JOBS_MAX)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
_Classes = dict[str, AnyObject]
_OVERWRITE: Final = Parameter("overwrite", "`false` leaves a file of this name as it is.", bool)
_FULL: Final = Parameter("full_info", "Whether to tell size and time, too.", bool)
_OFFSET: Final = Parameter("offset", "How many to leave out at first.", _Offset)
_MOST: Final = Parameter("max_items", "How many at most; 200 where it is absent.", _Page)
_KEPT: Final = Answer("The name of the file, or what is known of it.", str | UserFile)


def _constant(summary: str, answer: str, type_: Any) -> Operation:
    return Operation(summary, {200: Answer(answer, type_)})


_JOBS: Final = {
    "submit_prompt": Operation(
        "Submit a workflow",
        {200: Answer("The job. It is durable, and may leave out outputs that are wrong.", PromptTaken)},
        (400, 402, 409, 413, 429),
        (Parameter("Comfy-Usage-Source", "How the client calls itself.", where="header"),),
        Body(PromptSubmission),
    ),
    "show_prompt": _constant("Tell how many jobs wait or are executed", "The number.", PromptInfo),
    "show_job_status": Operation("Tell how a job stands", {200: Answer("How it stands.", CloudJobStatus)}, (404,)),
    "list_jobs": Operation(
        "List jobs by the time of their submission",
        {200: Answer("A part of the list.", CloudJobList)},
        (400,),
        (
            Parameter("status", "Statuses, with commas between them."),
            Parameter("sort_by", "What to sort by.", Literal["created_at", "create_time"]),
            Parameter("sort_order", "In which order.", Literal["asc", "desc"]),
            Parameter("limit", "How many at most; 100 where it is absent.", _Page),
            _OFFSET,
        ),
    ),
    "show_job": Operation("Show a job", {200: Answer("The job.", CloudJob)}, (404,)),
    "cancel_job": Operation("Cancel a job", {200: Answer("Whether this has done it.", JobCancelled)}, (404,)),
    "cancel_jobs": Operation(
        "Cancel jobs",
        {200: Answer("Those that this has cancelled.", JobsCancelled)},
        (400, 404, 413),
        body=Body(Cancellation),
    ),
    "show_queue": _constant("Show the jobs that have not ended", "The jobs.", QueueShown),
    "change_queue": Operation(
        "Cancel jobs by their ids, all that wait, or both",
        {200: Answer("What was deleted.", QueueChanged)},
        (400, 413),
        body=Body(QueueChange, required=False),
    ),
    "interrupt": Operation(
        "Stop what is executed, or one job",
        {200: Answer("The jobs that are to stop.", Interrupted)},
        (400, 413),
        body=Body(Interruption, required=False),
    ),
}

_HISTORY: Final = {
    "list_history": Operation(
        "List ended jobs, the newest first",
        {200: Answer("A part of the history.", HistoryV2)},
        (400,),
        (_MOST, _OFFSET),
    ),
    "show_history": Operation(
        "Show an ended job under its id",
        {200: Answer("The job; nothing yet for one that goes on.", dict[str, HistoryV2Entry])},
        (404,),
    ),
    "list_local_history": Operation(
        "List ended jobs by their ids, the oldest first",
        {200: Answer("A part of the history; without an offset, the last of it.", dict[str, HistoryEntry])},
        (400,),
        (_MOST, _OFFSET),
    ),
    "show_local_history": _constant(
        "Show an ended job under its id, or nothing", "The job, if there is one.", dict[str, HistoryEntry]
    ),
    "change_history": Operation(
        "Ask for jobs to be forgotten, which nothing comes of",
        {200: Answer("Nothing was deleted.", QueueChanged)},
        (400, 413),
        body=Body(HistoryChange, required=False),
    ),
}

_NODES: Final = {
    "show_object_info": Operation(
        "Describe every class of nodes",
        {200: Answer("The classes by their names.", _Classes, headers=("etag!", "cache-control!")), 304: KNOWN},
        parameters=(IF_NONE_MATCH,),
    ),
    "show_node_class": Operation(
        "Describe one class of nodes, or nothing",
        {200: Answer("The class under its name, if there is one.", _Classes)},
        _NAMED,
    ),
}

_FILES: Final = {
    "upload_image": Operation(
        "Keep a file for workflows",
        {200: Answer("What it is called.", SavedFile)},
        (400, 413, 451),
        body=Body(ImageForm, _FORM),
    ),
    "upload_mask": Operation(
        "Keep a picture with the alpha of the one that is sent",
        {200: Answer("What it is called.", SavedFile)},
        (400, 413, 451),
        body=Body(MaskForm, _FORM),
    ),
    "view": Operation(
        "Follow a name to its file, or have a picture made of it",
        {
            **FILE_ANSWERS,
            302: Answer("A link to the file, which is its own credential.", headers=("location!", "cache-control!")),
        },
        (400, 404, 416),
        (
            Parameter("filename", "What the file is called.", required=True),
            Parameter("type", "Which kind of file it is; `output` where it is absent."),
            Parameter("subfolder", "Is accepted and ignored."),
            Parameter("preview", "A small picture, as `webp;90` or `jpeg`."),
            Parameter("channel", "The colours alone, the alpha alone, or the whole file.", Literal["rgb", "a", "rgba"]),
            Parameter(
                "res", "The longer edge of a thumbnail, in pixels.", Annotated[int, msgspec.Meta(ge=64, le=1024)]
            ),
            *RANGE,
        ),
    ),
    "show_file": Operation(
        "Fetch a file by its signed link",
        FILE_ANSWERS,
        (403, 404, 416),
        (
            Parameter("expires", "Until when the link is good.", required=True),
            Parameter("disposition", "Whether to show or to save.", required=True),
            Parameter("name", "What the file is called.", required=True),
            Parameter("signature", "What makes the link good.", required=True),
            *RANGE,
        ),
        access=Access.NOTHING,
    ),
}

_EDITORS: Final = {
    "show_features": Operation(
        "Tell what this server can do", {200: Answer("What it can do.", AnyObject)}, access=Access.NOTHING
    ),
    "show_system_stats": _constant("Tell which engine this is", "Which it is.", SystemStats),
    "show_user": _constant("Tell whether the caller may use this API", "He may.", UserStatus),
    "show_users": _constant("Tell where a user's things are kept", "Here.", UserStorage),
    "list_extensions": _constant("List scripts of node packs", "There are none.", list[str]),
    "list_embeddings": _constant("List embeddings", "There are none.", list[str]),
    "show_translations": _constant("List translations of node packs", "There are none.", AnyObject),
    "show_subgraphs": _constant("List subgraphs of node packs", "There are none.", AnyObject),
    "show_templates": _constant("List workflow templates of node packs", "There are none.", AnyObject),
    "list_model_folders": _constant("List folders of models", "There are none.", list[AnyObject]),
    "show_node_replacements": _constant("List classes that replace others", "There are none.", AnyObject),
    "free_memory": _constant("Ask for memory to be freed, which nothing comes of", "Nothing.", AnyObject),
    "list_settings": _constant("Show every setting that was changed", "The settings by their ids.", AnyObject),
    "change_settings": Operation(
        "Change some settings",
        {200: Answer("They are changed.", AnyObject)},
        (400, 413),
        body=Body(AnyObject),
    ),
    "show_setting": Operation(
        "Show a setting", {200: Answer("Its value, null where it was never changed.", Any)}, (400, *_NAMED)
    ),
    "change_setting": Operation(
        "Change a setting", {200: Answer("It is changed.", AnyObject)}, (400, *_NAMED, 413), body=Body(Any)
    ),
    "list_user_files": Operation(
        "List the files of a folder",
        {200: Answer("Their names, with their parts, or what is known of them.", list[str | list[str] | UserFile])},
        (400,),
        (
            Parameter("dir", "The folder."),
            Parameter("recurse", "Whether to list folders in it, too.", bool),
            Parameter("split", "Whether to tell the parts of names, too.", bool),
            _FULL,
        ),
    ),
    "show_user_file": Operation("Fetch a file", {200: Answer("The file as it was put.", Any, (ANYTHING,))}, (400, 404)),
    "put_user_file": Operation(
        "Keep a file",
        {200: _KEPT},
        (400, *_NAMED, 409, 413),
        (_OVERWRITE, _FULL),
        Body(Upload, _BYTES, required=False),
    ),
    "delete_user_file": Operation("Forget a file", {204: Answer("It is forgotten.")}, (400, 404)),
    "move_user_file": Operation("Give a file another name", {200: _KEPT}, (400, 404, 409, 413), (_OVERWRITE, _FULL)),
}

OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType({**_JOBS, **_HISTORY, **_NODES, **_FILES, **_EDITORS})
"""By the names of the handlers, as the table of routes has them."""

_PATH: Final = {
    "job_id": Parameter("job_id", "The id of a job: a UUID in lower case.", where="path"),
    "class_name": Parameter("class_name", "The name of a class; slashes may stand in it.", where="path"),
    "file_id": Parameter("file_id", "The id of a file.", where="path"),
    "setting": Parameter("setting", "The id of a setting; slashes may stand in it.", where="path"),
    "file": Parameter("file", "The name of a file; its slashes are sent encoded.", where="path"),
    "to": Parameter("to", "The new name of the file; its slashes are sent encoded.", where="path"),
}


def _routes() -> Iterator[DescribedRoute]:
    for route in ROUTES:
        operation = OPERATIONS[route.handler]
        for path in route.paths:
            if path.startswith(PREFIX) or len(route.paths) == 1:
                yield DescribedRoute(f"cloud_{route.handler}", route.method, path, operation)
            else:
                same = replace(operation, description=f"The same as `{route.paths[0]}`.")
                yield DescribedRoute(f"cloud_root_{route.handler}", route.method, path, same)


def describe_cloud() -> Description:
    """The cloud API."""
    return Description(
        name="cloud",
        title="Cloud workflows",
        summary="Workflows as clients of the engine submit and watch them; `/ws` and `/api/ws` are its sockets.",
        error=CloudError,
        routes=tuple(_routes()),
        path_parameters=_PATH,
        refusals={Access.CREDENTIAL: (401, 403, 429, 500, 503), Access.NOTHING: (500, 503)},
        headers_of={416: ("content-range!",), 429: ("retry-after",), 503: ("retry-after",)},
    )
