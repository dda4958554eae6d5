"""The jobs API as released clients read it: each answer decodes with a strict model (K-01 to K-05).

ROWS is the contract: what is asked, and the model that its answer must have. A model forbids unknown members where
clients are known to take no others; elsewhere answers may have more than it names.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, TypeAlias

import httpx
import msgspec
import pytest

from api.cloud.clients import Client, failing, holding, picture
from api.jobs.callers import JobsCaller
from api.jobs.conftest import NewJobsCaller
from damage import blob_file, flip
from servers import Server, wait_until

_JOBS: Final = "/api/v2/jobs"
_ASSETS: Final = "/api/v2/assets"
_WORDS: Final = "words of a node\n\u20ac"

Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time that says its zone."""
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Fraction: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Hash: TypeAlias = Annotated[str, msgspec.Meta(pattern="^blake3:[0-9a-f]{64}$")]
Link: TypeAlias = Annotated[str, msgspec.Meta(pattern="^https?://")]
Status: TypeAlias = Literal["queued", "running", "succeeded", "canceling", "canceled", "failed", "expired"]


class Progress(msgspec.Struct):
    """How far a job is."""

    value: Fraction
    nodes_done: int
    nodes_total: int
    current_node: str | None = None
    current_node_class: str | None = None
    step: int | None = None
    steps: int | None = None
    message: str | None = None


class Output(msgspec.Struct):
    """Something that a job has made."""

    node_id: Text
    name: Text
    type: Literal["image", "video", "audio", "text", "file", "latent"]
    content_type: Text
    size_bytes: int
    id: Text
    hash: Hash | None
    url: Link
    url_expires_at: Time
    job_id: Text | None = None


class JobError(msgspec.Struct):
    """Why a job has failed."""

    code: Text
    message: Text
    node_id: Text | None = None
    class_type: Text | None = None
    traceback: Text | None = None


class Urls(msgspec.Struct):
    """Where more of a job is."""

    self: Text
    events: Text
    cancel: Text


class Job(msgspec.Struct):
    """A job; `expires_at` is never null."""

    id: Text
    status: Status
    created_at: Time
    started_at: Time | None
    completed_at: Time | None
    expires_at: Time
    queue_position: int | None
    progress: Progress | None
    outputs: list[Output]
    error: JobError | None
    metrics: dict[str, int | None] | None
    urls: Urls


class Asset(msgspec.Struct):
    """An asset."""

    id: Text
    hash: Hash | None
    size_bytes: int
    content_type: Text
    created_at: Time
    url: Link
    url_expires_at: Time
    file_path: str | None = None
    expires_at: Time | None = None
    job_id: Text | None = None


class AddedAsset(Asset, kw_only=True):
    """An asset as it is answered to its creation."""

    created_new: bool


class Workflow(msgspec.Struct, forbid_unknown_fields=True):
    """The workflow of a job, with its format."""

    workflow: dict[str, Any]
    format: Literal["api", "save"]


class Log(msgspec.Struct, forbid_unknown_fields=True):
    """The log of a job."""

    text: Text
    truncated: bool
    captured_at: Time
    complete: bool


class ErrorBody(msgspec.Struct, forbid_unknown_fields=True):
    """What went wrong."""

    code: Text
    message: Text
    details: dict[str, Any] | None = None


class Error(msgspec.Struct, forbid_unknown_fields=True):
    """The envelope of errors."""

    error: ErrorBody


class StatusEvent(msgspec.Struct, forbid_unknown_fields=True):
    """How a job stands."""

    status: Status
    queue_position: int | None = None


class PreviewEvent(msgspec.Struct, forbid_unknown_fields=True):
    """A picture of what a node has made so far."""

    node_id: Text
    content_type: Text
    data_base64: Text


class LogEvent(msgspec.Struct, forbid_unknown_fields=True):
    """A line of the log."""

    level: Literal["info", "warning", "error"]
    message: Text


EVENTS: Final[dict[str, type]] = {
    "status": StatusEvent,
    "progress": Progress,
    "output": Output,
    "preview": PreviewEvent,
    "log": LogEvent,
}

_JOB: Final = pytest.mark.req("K-01")
_ASSET: Final = pytest.mark.req("K-03")
_DOCUMENT: Final = pytest.mark.req("K-04")
ROWS: Final = (
    pytest.param("submitted job", Job, marks=_JOB),
    pytest.param("waiting job", Job, marks=_JOB),
    pytest.param("running job", Job, marks=_JOB),
    pytest.param("canceled job", Job, marks=_JOB),
    pytest.param("failed job", Job, marks=_JOB),
    pytest.param("succeeded job", Job, marks=pytest.mark.req("K-01", "K-02")),
    pytest.param("asset of a job", Asset, marks=pytest.mark.req("K-02", "K-03")),
    pytest.param("sent asset", AddedAsset, marks=_ASSET),
    pytest.param("asset from a hash", AddedAsset, marks=_ASSET),
    pytest.param("read asset", Asset, marks=_ASSET),
    pytest.param("workflow", Workflow, marks=_DOCUMENT),
    pytest.param("drawn workflow", Workflow, marks=_DOCUMENT),
    pytest.param("log", Log, marks=_DOCUMENT),
    pytest.param("error", Error, marks=_JOB),
    pytest.param("refused workflow", Error, marks=_JOB),
)


def make_workflow() -> dict[str, Any]:
    """Return a workflow that makes a picture, a text and a latent."""
    return {
        **picture(31, "contract"),
        "3": {"class_type": "PreviewAny", "inputs": {"source": ["4", 0]}},
        "4": {"class_type": "PrimitiveString", "inputs": {"value": _WORDS}},
        "5": {"class_type": "HandOver", "inputs": {"name": "kept.latent", "text": "numbers"}},
    }


@dataclass
class World:
    """A workspace, what it was answered, by the names of ROWS, and a stream of a job that has ended."""

    caller: JobsCaller
    answers: dict[str, bytes] = field(default_factory=dict)

    def ask(self, name: str, method: str, path: str, **more: Any) -> Any:
        """Ask for something, keep the answer under a name, and return its JSON."""
        response = self.caller.ask(method, path, **more)
        assert response.headers["content-type"] == "application/json"
        self.answers[name] = response.content
        return response.json()

    def job(self) -> Job:
        """Return the job that has made everything."""
        return msgspec.json.decode(self.answers["succeeded job"], type=Job)


@pytest.fixture(scope="module")
def world(jobs_server: Server) -> Iterator[World]:
    """Return a workspace in which each row of the contract was asked for."""
    name = "contract"
    key = jobs_server.new_workspace(name, "--subscription", "standard")
    world = World(JobsCaller(jobs_server, name, key))
    ask, caller = world.ask, world.caller
    held = ask("submitted job", "POST", _JOBS, json={"workflow": holding(77)})["id"]
    caller.reaches(held, "running")
    ask("running job", "GET", f"{_JOBS}/{held}")
    job = caller.submit(make_workflow())["id"]
    ask("waiting job", "GET", f"{_JOBS}/{job}")
    caller.cancel(held)
    caller.reaches(held, "canceled")
    ask("canceled job", "GET", f"{_JOBS}/{held}")
    caller.reaches(job, "succeeded", "failed")
    outputs = ask("succeeded job", "GET", f"{_JOBS}/{job}")["outputs"]
    ask("asset of a job", "GET", f"{_ASSETS}/{outputs[0]['id']}")
    ask("failed job", "GET", f"{_JOBS}/{caller.runs(failing('no paint'))['id']}")
    ask("workflow", "GET", f"{_JOBS}/{job}/workflow")
    ask("log", "GET", f"{_JOBS}/{job}/logs")
    sent = ask("sent asset", "POST", _ASSETS, files={"file": ("a.bin", b"bytes of an asset")})
    ask("asset from a hash", "POST", f"{_ASSETS}/from-hash", json={"hash": sent["hash"], "file_path": "b.bin"})
    ask("read asset", "GET", f"{_ASSETS}/{sent['id']}")
    drawn = {"workflow": {"nodes": [], "links": [], "version": 0.4}}
    cloud = Client(jobs_server, name, key)
    ask("drawn workflow", "GET", f"{_JOBS}/{cloud.submit(picture(), extra_data={'extra_pnginfo': drawn})}/workflow")
    ask("error", "GET", f"{_ASSETS}/none")
    ask("refused workflow", "POST", _JOBS, json={"workflow": {"1": {"class_type": "Nothing", "inputs": {}}}})
    yield world
    caller.stops()


@pytest.mark.parametrize(("answer", "model"), ROWS)
def test_answer_has_every_member_that_clients_require(world: World, answer: str, model: type) -> None:
    """Each has its type, times say their zone, and nothing that is required is null."""
    msgspec.json.decode(world.answers[answer], type=model)


@pytest.mark.req("K-01")
def test_job_tells_when_it_will_be_forgotten(world: World) -> None:
    """One that waits: the latest time at which that can be. One that has ended: the time itself."""
    waiting = msgspec.json.decode(world.answers["waiting job"], type=Job)
    ended = world.job()
    assert waiting.expires_at == waiting.created_at + timedelta(hours=24 + 1 + 7 * 24)
    assert ended.completed_at is not None
    assert ended.expires_at == ended.completed_at + timedelta(days=7)
    assert ended.metrics is not None
    assert set(ended.metrics) == {"queue_ms", "execution_ms"}
    running = msgspec.json.decode(world.answers["running job"], type=Job)
    assert running.metrics is not None
    assert running.metrics["execution_ms"] is None


@pytest.mark.req("K-02")
def test_every_output_is_an_asset_with_a_public_link(world: World) -> None:
    """A picture, a text and a latent have an id, a hash and a link; the bytes are those that were made."""
    job, caller = world.job(), world.caller
    by_type = {output.type: output for output in job.outputs}
    assert set(by_type) == {"image", "text", "latent"}
    for output in job.outputs:
        assert (output.job_id, output.url_expires_at > datetime.now(UTC)) == (job.id, True)
        fetched = httpx.get(output.url)
        assert (fetched.status_code, len(fetched.content)) == (200, output.size_bytes)
        asset = msgspec.convert(caller.get(f"{_ASSETS}/{output.id}"), Asset)
        assert (asset.hash, asset.job_id, asset.content_type) == (output.hash, job.id, output.content_type)
        assert asset.expires_at is not None
        assert asset.expires_at >= job.expires_at
    text = by_type["text"]
    fetched = httpx.get(text.url)
    assert (fetched.text, fetched.headers["content-type"]) == (_WORDS, "text/plain; charset=utf-8")
    assert (text.content_type, text.name.endswith(".txt")) == ("text/plain", True)
    assert fetched.headers["content-disposition"].startswith("attachment")
    again = msgspec.convert(caller.job(job.id), Job)
    assert [output.id for output in again.outputs] == [output.id for output in job.outputs]


@pytest.mark.req("K-02")
def test_same_text_of_two_jobs_is_one_asset_even_without_words(caller: JobsCaller) -> None:
    """An empty text is an asset too; one that was deleted is made again when its job is read."""
    graph = {"1": {"class_type": "PrimitiveString", "inputs": {"value": ""}},
             "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}}}  # fmt: skip
    (first,), (second,) = caller.runs(graph)["outputs"], (job := caller.runs(graph))["outputs"]
    assert (first["id"], first["size_bytes"]) == (second["id"], 0)
    assert httpx.get(first["url"]).content == b""
    assert caller.ask("DELETE", f"{_ASSETS}/{first['id']}").status_code == 204
    (third,) = caller.job(job["id"])["outputs"]
    assert httpx.get(third["url"]).status_code == 200


@pytest.mark.req("K-03")
def test_creation_says_whether_the_bytes_were_known(caller: JobsCaller) -> None:
    """Bytes that the workspace had are known under whatever name; those of another workspace are not."""

    def upload(name: str, content: bytes) -> tuple[int, bool]:
        response = caller.ask("POST", _ASSETS, files={"file": (name, content)})
        return response.status_code, msgspec.json.decode(response.content, type=AddedAsset).created_new

    assert upload("a.bin", b"bytes of an asset") == (201, True)
    assert upload("b.bin", b"bytes of an asset") == (201, False)
    assert upload("a.bin", b"bytes of an asset") == (200, False)
    assert upload("a.bin", b"others") == (201, True)


@pytest.mark.req("K-03")
def test_content_redirects_to_a_link_that_needs_no_credential(world: World) -> None:
    """The link leads to the bytes, also in part, and is nothing that a cache may keep."""
    asset = msgspec.json.decode(world.answers["read asset"], type=Asset)
    for method in ("GET", "HEAD"):
        response = world.caller.ask(method, f"{_ASSETS}/{asset.id}/content")
        assert (response.status_code, response.content) == (302, b"")
        assert response.headers["cache-control"] == "private, no-cache"
    location = response.headers["location"]
    assert re.match(r"https?://[^/]+/files/", location)
    assert httpx.get(location).content == httpx.get(asset.url).content == b"bytes of an asset"
    part = httpx.get(location, headers={"Range": "bytes=0-4"})
    assert (part.status_code, part.content) == (206, b"bytes")


@pytest.mark.req("K-04")
def test_workflow_says_which_format_it_has(world: World) -> None:
    """The graph as it was taken in; or what its author has drawn, where an editor sent it along."""
    graph = msgspec.json.decode(world.answers["workflow"], type=Workflow)
    assert (graph.format, graph.workflow["2"]["class_type"]) == ("api", "SaveImage")
    drawn = msgspec.json.decode(world.answers["drawn workflow"], type=Workflow)
    assert drawn == Workflow({"nodes": [], "links": [], "version": 0.4}, "save")


@pytest.mark.req("K-04")
def test_log_is_one_text_with_a_line_for_each_event(world: World) -> None:
    """It is complete once its job has ended."""
    log = msgspec.json.decode(world.answers["log"], type=Log)
    *_, last = log.text.splitlines()
    assert re.fullmatch(r"\S+Z info The execution has succeeded\.", last)
    assert (log.truncated, log.complete) == (False, True)


@pytest.mark.req("K-05")
def test_stream_of_an_ended_job_tells_its_outputs_and_ends_with_its_status(world: World) -> None:
    """Nothing follows a status that is terminal."""
    job = world.job()
    with world.caller.watches(job.id) as stream:
        seen = stream.rest()
    decoded: list[Any] = [msgspec.convert(data, EVENTS[name]) for name, data in seen]
    assert [one.id for one in decoded if isinstance(one, Output)] == [output.id for output in job.outputs]
    assert decoded[-1] == StatusEvent("succeeded")
    assert [name for name, _ in seen].count("status") == 1


@pytest.mark.req("K-05")
def test_stream_opens_with_the_outputs_that_are_committed(new_jobs_caller: NewJobsCaller) -> None:
    """Who comes late is told them right after the status; each output is told once, and the status of the end last."""
    caller = new_jobs_caller("--subscription", "standard")
    job = caller.submit({**make_workflow(), "9": {"class_type": "HoldPicture", "inputs": {}}})
    listed = wait_until(lambda: len(found := caller.job(job["id"])["outputs"]) == 3 and found, "three outputs") or ()
    with caller.watches(job["id"]) as stream:
        opening = [stream.next() or ("", {}) for _ in range(4)]
        assert [name for name, _ in opening] == ["status", "output", "output", "output"]
        assert sorted(data["id"] for _, data in opening[1:]) == sorted(output["id"] for output in listed)
        rest = stream.until("preview")
        caller.cancel(job["id"])
        rest += stream.rest()
    for name, data in (*opening, *rest):
        msgspec.convert(data, EVENTS[name])
    assert [name for name, _ in rest].count("output") == 0
    assert rest[-1] == ("status", {"status": "canceled"})


@pytest.mark.req("K-02", "S-08")
@pytest.mark.parametrize("lost", ["cut short", "missing"])
def test_job_says_which_outputs_are_lost(caller: JobsCaller, lost: str) -> None:
    """Its status stays; the error names nodes and files. A text is not lost, as its job has it too."""
    job = caller.runs(make_workflow())
    kept = [httpx.get(output["url"]).content for output in job["outputs"]]
    for output in job["outputs"]:
        if output["type"] != "latent":
            path = blob_file(caller.server.data / "blobs", output["hash"].removeprefix("blake3:"))
            if lost == "missing":
                path.unlink()
            else:
                flip(path)
                path.write_bytes(b"")
    told = caller.ask("GET", f"{_JOBS}/{job['id']}")
    read = msgspec.json.decode(told.content, type=Job)
    assert (read.status, [output.id for output in read.outputs]) == ("succeeded", [o["id"] for o in job["outputs"]])
    assert read.error is not None
    assert (read.error.code, "contract_" in read.error.message) == ("outputs_lost", True)
    errors = told.json()["error"]["node_errors"]
    assert {node: told["class_type"] for node, told in errors.items()} == {"2": "SaveImage"}
    assert [error["type"] for error in errors["2"]["errors"]] == ["blob_not_found"]
    (text,) = (output for output in read.outputs if output.type == "text")
    assert httpx.get(text.url).text == _WORDS
    for content in kept:  # bytes that are sent again mend what others have of them
        assert caller.ask("POST", _ASSETS, files={"file": ("again", content)}).status_code == 201
    assert caller.job(job["id"])["error"] is None
