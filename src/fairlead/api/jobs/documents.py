"""The documents of the jobs API, as types: what callers send, and what they are sent (docs/jobs.md)."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, NotRequired, TypeAlias, TypedDict

import msgspec

from fairlead.api.http.schemas import AnyObject, Hash, Link, PoolName, Time, Upload, Uuid, Workflow
from fairlead.domain.assets.records import EXPIRES_MAX, EXPIRES_MIN, TAG_MAX, TAGS_MAX
from fairlead.domain.deployments import NAME_MAX, NAME_PATTERN, PACK_NAME_MAX, PACKS_MAX
from fairlead.domain.jobs.listing import LABELS_MAX
from fairlead.domain.jobs.states import JobStatus

PATH_MAX: Final = 1_024
"""How many characters the path of an asset may have."""
Labels: TypeAlias = Annotated[
    msgspec.Raw,
    msgspec.Meta(
        extra_json_schema={
            "type": "object",
            "maxProperties": LABELS_MAX,
            "propertyNames": {"pattern": "^[A-Za-z0-9_.-]{1,40}$"},
            "additionalProperties": {"type": "string", "maxLength": 256},
        }
    ),
]
# These bounds are for the documentation; they are checked where a sentence says what is wrong.
Tag: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": TAG_MAX})]
Tags: TypeAlias = Annotated[list[Tag], msgspec.Meta(extra_json_schema={"maxItems": TAGS_MAX})]
Seconds: TypeAlias = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": EXPIRES_MIN, "maximum": EXPIRES_MAX})]
AssetPath: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": PATH_MAX})]
DeploymentName: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": NAME_MAX, "pattern": NAME_PATTERN})
]
PackName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": PACK_NAME_MAX})]
PackNames: TypeAlias = Annotated[list[PackName], msgspec.Meta(extra_json_schema={"maxItems": PACKS_MAX})]
ReleaseVersion: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
OutputType: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"enum": ["image", "video", "audio", "text", "file", "latent"]})
]


class JobSubmission(TypedDict):
    """A workflow to be made a job, with labels, and with the key that pays for partner nodes."""

    workflow: Workflow
    metadata: NotRequired[Labels | None]
    extra_data: NotRequired[dict[str, str | None] | None]


class JobProgress(TypedDict):
    """The progress of a job: `value` is from 0 to 1; `step` of `steps` are those of the current node, rounded down."""

    value: float
    nodes_done: int
    nodes_total: int
    current_node: str | None
    current_node_class: str | None
    step: int | None
    steps: int | None
    message: str | None


class JobOutputShown(TypedDict):
    """An output of a job, which is an asset. `text` has the beginning of a text."""

    node_id: str
    name: str
    type: OutputType
    content_type: str
    size_bytes: int
    id: Uuid
    hash: Hash
    url: Link
    url_expires_at: Time
    job_id: Uuid
    text: NotRequired[str]


class FailureOfNode(TypedDict):
    """What is wrong with a node, or went wrong in it."""

    type: str
    message: str


class NodeFailures(TypedDict):
    """The class of a node, and what went wrong in it."""

    class_type: str
    errors: Sequence[FailureOfNode]


class JobFailure(TypedDict):
    """Why a job has failed, or which of its outputs are lost; the node is named where it was one."""

    code: str
    message: str
    node_id: NotRequired[str]
    class_type: NotRequired[str]
    node_errors: NotRequired[dict[str, NodeFailures]]
    traceback: NotRequired[str]


class JobUrls(TypedDict):
    """Links to more about a job."""

    self: Link
    workflow: Link
    events: Link
    cancel: Link
    logs: Link


class JobMetrics(TypedDict):
    """How long a job has waited and was executed."""

    queue_ms: int
    execution_ms: int | None


class JobShown(TypedDict):
    """A job: its state, and its outputs."""

    id: Uuid
    status: JobStatus
    created_at: Time
    started_at: Time | None
    completed_at: Time | None
    expires_at: Time
    queue_position: int | None
    progress: JobProgress | None
    outputs: Sequence[JobOutputShown]
    error: JobFailure | None
    urls: JobUrls
    metrics: JobMetrics | None
    metadata: NotRequired[Labels]
    deployment_id: NotRequired[str]
    release_version: NotRequired[ReleaseVersion]


class JobListed(TypedDict):
    """A job in a list."""

    id: Uuid
    status: JobStatus
    create_time: Time
    update_time: Time
    metadata: NotRequired[Labels]
    release_version: NotRequired[ReleaseVersion]


class JobList(TypedDict):
    """A page of a list; the last one has no cursor."""

    jobs: Sequence[JobListed]
    next_cursor: NotRequired[str]


class JobWorkflow(TypedDict):
    """The workflow of a job: the graph that was executed, or the drawing that an editor had sent with it."""

    workflow: AnyObject
    format: Literal["api", "save"]


class JobLog(TypedDict):
    """The log of a job, a line for each event, up to `captured_at`; `complete` once the job has ended."""

    text: str
    truncated: bool
    captured_at: Time
    complete: bool


class AssetForm(TypedDict):
    """A file to be stored, and its fields; tags are a JSON array, or separated by commas."""

    file: Upload
    file_path: NotRequired[AssetPath]
    content_type: NotRequired[str]
    tags: NotRequired[str]
    expires_in: NotRequired[Seconds]
    expected_hash: NotRequired[Hash]


class AssetFromHash(msgspec.Struct):
    """An asset of bytes that are stored already; other members are ignored."""

    hash: Hash
    file_path: AssetPath | None = None
    tags: Tags = []
    expires_in: Seconds | None = None


class AssetUrls(TypedDict):
    """Where an asset is, and its bytes."""

    self: Link
    content: Link


class AssetShown(TypedDict):
    """An asset: a record of bytes that were sent or made. `name` is what a workflow may call it."""

    id: Uuid
    hash: Hash
    name: str
    file_path: str | None
    content_type: str
    size_bytes: int
    tags: Sequence[str]
    created_at: Time
    expires_at: Time | None
    url: Link
    url_expires_at: Time
    urls: AssetUrls
    job_id: NotRequired[Uuid]


class AssetAdded(AssetShown):
    """An asset that was added; `created_new` is false where the workspace had its bytes already."""

    created_new: bool


API_KEY: Final = "api_key"
"""The kind of credential that every deployment takes."""
CredentialKind: TypeAlias = Literal["api_key", "session", "oauth"]


class NewDeployment(msgspec.Struct):
    """A deployment to be made, with the node packs of its first release: all packs where none are named.

    `credential_kinds` are those that open it, all where they are absent; API keys always do. Its jobs are executed in
    its `pool`; where that is absent, in the one that the rules of the installation choose.
    """

    name: DeploymentName
    node_packs: PackNames | None = None
    credential_kinds: Annotated[list[CredentialKind], msgspec.Meta(max_length=3)] | None = None
    pool: PoolName | None = None


class DeploymentChange(msgspec.Struct):
    """The pool of the jobs that a deployment takes from now on; null where the rules of the installation choose it."""

    pool: PoolName | None


class NewRelease(msgspec.Struct):
    """A release to be made: its node packs, or all packs where none are named."""

    node_packs: PackNames | None = None


class DeploymentUrls(TypedDict):
    """Links to more about a deployment, and the address by path that its jobs are sent to."""

    self: Link
    releases: Link
    stop: Link
    start: Link
    jobs: Link


class DeploymentShown(TypedDict):
    """A deployment: its state, the release that serves, and the address of its own jobs API."""

    id: str
    name: str
    status: Literal["not_ready", "ready", "unavailable", "stopped"]
    reason: str | None
    release_version: ReleaseVersion | None
    latest_release_version: ReleaseVersion
    credential_kinds: Sequence[CredentialKind]
    pool: PoolName | None
    created_at: Time
    updated_at: Time
    address: Link
    urls: DeploymentUrls


class DeploymentList(TypedDict):
    """The deployments of a workspace."""

    deployments: Sequence[DeploymentShown]


class ReleaseShown(TypedDict):
    """A release of a deployment: `node_packs` is null for all packs, `nodes` is how many classes they add."""

    version: ReleaseVersion
    status: Literal["preparing", "prepared", "failed"]
    node_packs: Sequence[str] | None
    nodes: int | None
    reason: str | None
    created_at: Time
    settled_at: Time | None


class ReleaseList(TypedDict):
    """The releases of a deployment."""

    releases: Sequence[ReleaseShown]


JobsErrorCode: TypeAlias = Literal[
    "asset_in_use", "blob_not_found", "client_disconnected", "content_blocked", "deployment_not_ready",
    "deployment_stopped", "deployment_unavailable", "forbidden", "hash_mismatch", "idempotency_key_reuse",
    "insufficient_credits", "invalid_cursor", "invalid_metadata_filter", "invalid_request", "invalid_workflow",
    "metadata_invalid", "metadata_not_supported", "method_not_allowed", "missing_asset", "not_found",
    "not_implemented", "queue_full", "rate_limited", "sso_required", "too_many_streams", "unauthorized",
    "upstream_error", "workflow_format_ui",
]  # fmt: skip


class JobsErrorTold(TypedDict):
    """What went wrong: a code from a closed list, a sentence, and details where there are some."""

    code: JobsErrorCode
    message: str
    organization_id: NotRequired[str]
    details: NotRequired[AnyObject]


class JobsError(TypedDict):
    """An error of the jobs API."""

    error: JobsErrorTold
