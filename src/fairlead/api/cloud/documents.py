"""The documents of the cloud API, as types: what callers send, and what they are sent (docs/cloud.md)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias, TypedDict

import msgspec

from fairlead.api.http.schemas import AnyObject, Hash, Milliseconds, Time, Upload, Uuid, Workflow

JOBS_MAX: Final = 1_000
"""How many jobs one answer lists, and one body names."""
CANCELLED_AT_ONCE: Final = 100
CloudStatus: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"enum": ["pending", "in_progress", "completed", "failed", "cancelled"]})
]
FileType: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["input", "output", "temp"]})]
WantedId: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]
JobIds: TypeAlias = Annotated[list[WantedId], msgspec.Meta(max_length=JOBS_MAX)]
Shown: TypeAlias = dict[str, AnyObject]
"""The outputs of nodes, by their ids."""


class PromptSubmission(TypedDict):
    """A workflow to be made a job. `number` and `front` are accepted and change nothing."""

    prompt: Workflow
    prompt_id: NotRequired[Uuid | None]
    client_id: NotRequired[str | None]
    extra_data: NotRequired[AnyObject | None]
    partial_execution_targets: NotRequired[list[str] | None]


class PromptTaken(TypedDict):
    """A job that was made, and what is wrong with outputs that were left out."""

    prompt_id: Uuid
    number: int
    node_errors: msgspec.Raw


class QueueInfo(TypedDict):
    """How many jobs wait or are executed."""

    queue_remaining: int


class PromptInfo(TypedDict):
    """The state of the queue."""

    exec_info: QueueInfo


class JobStatusShown(TypedDict):
    """The state of a job."""

    id: Uuid
    status: CloudStatus
    created_at: Time
    updated_at: Time
    last_state_update: Time
    error_message: NotRequired[str]


class CloudJobListed(TypedDict):
    """A job in a list. What it does not have yet is absent."""

    id: Uuid
    status: CloudStatus
    priority: int
    create_time: Milliseconds
    update_time: Milliseconds
    outputs_count: int
    execution_start_time: NotRequired[Milliseconds]
    execution_end_time: NotRequired[Milliseconds]
    execution_error: NotRequired[AnyObject]
    preview_output: NotRequired[AnyObject]


class ExecutionStatus(TypedDict):
    """How a job has ended, and its events: pairs of a kind and its data."""

    status_str: Literal["success", "error"]
    completed: bool
    messages: Sequence[Sequence[Any]]


class NodeMeta(TypedDict):
    """The node that made an output."""

    node_id: str
    display_node: str
    parent_node: str | None
    real_node_id: str


class SubmittedWorkflow(TypedDict):
    """A workflow, and the data sent with it."""

    prompt: msgspec.Raw
    extra_data: AnyObject


class CloudJob(CloudJobListed):
    """A whole job."""

    workflow: NotRequired[SubmittedWorkflow]
    workflow_id: NotRequired[str]
    outputs: NotRequired[Shown]
    execution_status: NotRequired[ExecutionStatus]
    execution_meta: NotRequired[Mapping[str, NodeMeta]]


class Pagination(TypedDict):
    """The position and the size of a part of a list."""

    offset: int
    limit: int
    total: int
    has_more: bool


class CloudJobList(TypedDict):
    """A part of the list of jobs."""

    jobs: Sequence[CloudJobListed]
    pagination: Pagination


class Cancellation(msgspec.Struct):
    """The jobs to be cancelled."""

    job_ids: Annotated[list[WantedId], msgspec.Meta(min_length=1, max_length=CANCELLED_AT_ONCE)]


class JobCancelled(TypedDict):
    """Whether this call has cancelled a job."""

    cancelled: bool


class JobsCancelled(TypedDict):
    """Whether this call has cancelled any job, and which."""

    cancelled: bool
    job_ids: Sequence[Uuid]


class QueueEntry(msgspec.Struct, array_like=True, frozen=True):
    """A job's number, its id, its workflow, the data sent with it, and the nodes it is executed for."""

    number: int
    job_id: Uuid
    workflow: msgspec.Raw
    extra_data: AnyObject
    wanted: Sequence[str]


class QueueShown(TypedDict):
    """The jobs that have not ended."""

    queue_running: Sequence[QueueEntry]
    queue_pending: Sequence[QueueEntry]


class QueueChange(msgspec.Struct):
    """Jobs to be cancelled, by their ids, or all that wait."""

    delete: JobIds | None = None
    clear: bool = False


class QueueChanged(TypedDict):
    """The jobs that were deleted, and whether those were all that waited."""

    deleted: Sequence[Uuid]
    cleared: bool


class Interruption(msgspec.Struct):
    """The job to be stopped, or all."""

    prompt_id: WantedId | None = None


class Interrupted(TypedDict):
    """The jobs that are to stop."""

    interrupted: Sequence[Uuid]


class HistoryChange(msgspec.Struct):
    """What a client wants to be removed from the history."""

    delete: JobIds | None = None
    clear: bool = False


class HistoryEntry(TypedDict):
    """An ended job, in the history as ComfyUI has it."""

    prompt: QueueEntry
    outputs: Shown
    meta: Mapping[str, NodeMeta]
    status: ExecutionStatus


class HistoryPrompt(TypedDict):
    """What was submitted; the workflow itself only where one job is asked for."""

    priority: int
    prompt_id: Uuid
    extra_data: AnyObject
    prompt: NotRequired[msgspec.Raw]
    outputs_to_execute: NotRequired[Sequence[str]]


class HistoryV2Entry(TypedDict):
    """An ended job in the cloud's history."""

    prompt_id: Uuid
    create_time: Milliseconds
    prompt: HistoryPrompt
    outputs: Shown
    meta: Mapping[str, NodeMeta]
    status: ExecutionStatus
    workflow_id: NotRequired[str]
    error_message: NotRequired[str]


class HistoryV2(TypedDict):
    """A part of the history."""

    history: Sequence[HistoryV2Entry]


class ImageForm(TypedDict):
    """A file for workflows."""

    image: Upload
    type: NotRequired[FileType]
    overwrite: NotRequired[str]
    subfolder: NotRequired[str]


class MaskForm(ImageForm):
    """A mask, and the picture it was drawn over, as JSON with its `filename` and `type`."""

    original_ref: str


class SavedFile(TypedDict):
    """What an uploaded file is called in workflows."""

    name: str
    subfolder: str
    type: FileType
    size: int
    hash: Hash


class SystemStats(TypedDict):
    """The engine and its version."""

    system: AnyObject
    devices: Sequence[Any]


class UserStatus(TypedDict):
    """The caller may use this API."""

    status: Literal["active"]


class UserStorage(TypedDict):
    """Where the files of the one user are kept."""

    storage: Literal["server"]
    migrated: bool


class UserFile(TypedDict):
    """A file that an editor keeps."""

    path: str
    size: int
    modified: Milliseconds
    created: Milliseconds


class CloudErrorTold(TypedDict):
    """What went wrong, as editors show it."""

    type: str
    message: str
    details: str
    extra_info: AnyObject


class CloudError(TypedDict):
    """An error of the cloud API; `node_errors` are those of a workflow that cannot be executed."""

    error: CloudErrorTold
    node_errors: AnyObject
    code: str
    message: str
