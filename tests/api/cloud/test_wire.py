"""The shapes of jobs, queue and history, as editors and clients read them."""

import json
from typing import Any, Final

import msgspec
import pytest

from fairlead.api.cloud import wire
from fairlead.domain.jobs.events import Cached, Event, Failed, Failure, Interrupted, Place, Started, Succeeded
from fairlead.domain.jobs.jobs import Job
from fairlead.domain.jobs.states import JobState

_AT: Final = 1_800_000_000_000
_ID: Final = "0191d3a5-7c5e-7b7e-8f35-0c6f6a4b1c2d"
_PLACE: Final = Place("9.0.0.1", "9", "9", "9")
_FILE: Final = {"filename": "a.png", "subfolder": "", "type": "output"}
_DRAWN: Final = {"extra_pnginfo": {"workflow": {"id": "w-1", "nodes": []}, "more": 1}, "client_id": "tab"}
_FAILURE: Final = Failure(_PLACE, "Blur", "ValueError", "No.", ["line"], {"radius": [1]}, ["1"])


def a_job(state: JobState = JobState.SUCCEEDED, **changes: Any) -> Job:
    """Return a job that began after a second and took another."""
    usual: dict[str, Any] = {
        "id": _ID, "workspace_id": "lab", "number": 7, "state": state, "attempt": 1, "wanted": ("9",), "nodes": 2,
        "created_at": _AT, "updated_at": _AT + 2000, "started_at": _AT + 1000, "finished_at": _AT + 2000,
        "workflow": b'{"9": {}}', "extra": json.dumps(_DRAWN).encode(),
        "outputs": outputs_of(images=[{**_FILE, "type": "temp"}, _FILE], text=["a"]),
    }  # fmt: skip
    return Job(**{**usual, **changes})


def outputs_of(**ui: Any) -> bytes:
    """Return what one node has shown, as a job keeps it."""
    return msgspec.json.encode({_PLACE.node: {"ui": ui, "place": _PLACE}})


def decode(document: Any) -> Any:
    """Return a document as its reader has it."""
    return json.loads(bytes(wire.answer(document).body))


@pytest.mark.req("C-05")
@pytest.mark.parametrize("state", JobState)
def test_every_state_has_a_status(state: JobState) -> None:
    """Every state is one of the five values."""
    five = {"pending", "in_progress", "completed", "failed", "cancelled"}
    assert decode(wire.job_status(a_job(state)))["status"] == wire.STATUSES[state] in five


@pytest.mark.req("C-05")
def test_status_has_its_id_times_and_message() -> None:
    """A status has the id and the times, and of a failed job its message."""
    assert decode(wire.job_status(a_job(JobState.PARKED, started_at=None, finished_at=None))) == {
        "id": _ID,
        "status": "pending",
        "created_at": "2027-01-15T08:00:00.000Z",
        "updated_at": "2027-01-15T08:00:02.000Z",
        "last_state_update": "2027-01-15T08:00:00.000Z",
    }
    failed = a_job(JobState.FAILED, failure=msgspec.json.encode(Failed(_FAILURE)))
    assert decode(wire.job_status(failed))["error_message"] == "No."


@pytest.mark.req("C-07")
def test_queue_entry_has_its_five_parts_in_order() -> None:
    """Number, id, workflow, extra, outputs; the extra has the time of the submission."""
    assert decode(wire.queue_entry(a_job(JobState.RUNNING))) == [
        7, _ID, {"9": {}}, {**_DRAWN, "create_time": _AT}, ["9"],
    ]  # fmt: skip


def test_listed_job_has_times_files_and_a_preview() -> None:
    """A job in a list has its times, the number of its files, and the file to show for it."""
    assert decode(wire.job_entry(a_job())) == {
        "id": _ID, "status": "completed", "priority": 7, "create_time": _AT, "update_time": _AT + 2000,
        "execution_start_time": _AT + 1000, "execution_end_time": _AT + 2000, "outputs_count": 2,
        "preview_output": {**_FILE, "nodeId": "9.0.0.1", "mediaType": "images"},
    }  # fmt: skip
    waiting = decode(wire.job_entry(a_job(JobState.PARKED, started_at=None, finished_at=None, outputs=None)))
    assert set(waiting) == {"id", "status", "priority", "create_time", "update_time", "outputs_count"}


def test_final_picture_is_previewed_first() -> None:
    """A final file comes before a temporary one, and a picture before anything else."""
    job = a_job(outputs=outputs_of(audio=[{**_FILE, "filename": "a.flac"}], images=[_FILE, {**_FILE, "type": "temp"}]))
    assert decode(wire.job_entry(job))["preview_output"]["mediaType"] == "images"
    job = a_job(outputs=outputs_of(audio=[{**_FILE, "filename": "a.flac"}], images=[{**_FILE, "type": "temp"}]))
    assert decode(wire.job_entry(job))["preview_output"]["mediaType"] == "audio"


def test_failed_job_names_its_node_and_reason() -> None:
    """A failed job tells which node failed and why, with the names that clients know from the socket."""
    error = decode(wire.job_entry(a_job(JobState.FAILED, failure=msgspec.json.encode(Failed(_FAILURE)))))
    assert error["execution_error"] == {
        "prompt_id": _ID, "node_id": "9", "node_type": "Blur", "executed": ["1"], "exception_message": "No.",
        "exception_type": "ValueError", "traceback": ["line"], "current_inputs": {"radius": [1]},
        "current_outputs": ["1"], "timestamp": _AT + 2000,
    }  # fmt: skip


def test_detail_has_workflow_outputs_and_end() -> None:
    """A job by itself has its workflow, what was shown, and how it has ended; one that goes on has not ended."""
    detail = decode(wire.job_detail(a_job(), [(Started(), _AT + 1000), (Succeeded(), _AT + 2000)]))
    assert detail["workflow"] == {"prompt": {"9": {}}, "extra_data": {**_DRAWN, "create_time": _AT}}
    assert detail["workflow_id"] == "w-1"
    assert detail["outputs"]["9.0.0.1"]["images"][1] == _FILE
    assert detail["execution_status"]["completed"] is True
    going = decode(wire.job_detail(a_job(JobState.RUNNING, extra=b"{}", finished_at=None), ()))
    assert not {"outputs", "execution_status", "execution_meta", "workflow_id"} & set(going)


@pytest.mark.parametrize(
    ("state", "ending", "kind", "succeeded"),
    [
        (JobState.SUCCEEDED, None, "execution_success", True),
        (JobState.FAILED, Failed(_FAILURE), "execution_error", False),
        (JobState.CANCELED, Interrupted(_PLACE, "Blur", ["1"]), "execution_interrupted", False),
        (JobState.CANCELED, None, "execution_interrupted", False),
        (JobState.EXPIRED, None, "execution_error", False),
        (JobState.EXPIRED, Failed(_FAILURE, is_late=True), "execution_error", False),
    ],
)
def test_last_message_of_a_history_says_how_the_job_ended(
    state: JobState, ending: Event | None, kind: str, *, succeeded: bool
) -> None:
    """The last message of a history says how a job has ended, with or without the events of the job available."""
    job = a_job(state, failure=None if ending is None else msgspec.json.encode(ending))
    entry = decode(wire.history_entry(job))
    assert entry["status"]["status_str"] == ("success" if succeeded else "error")
    assert entry["status"]["completed"] is succeeded
    first, last = entry["status"]["messages"]
    assert first == ["execution_start", {"prompt_id": _ID, "timestamp": _AT + 1000}]
    assert (last[0], last[1]["prompt_id"], last[1]["timestamp"]) == (kind, _ID, _AT + 2000)


def test_local_history_has_its_documented_shape() -> None:
    """An entry has the prompt in five parts, outputs and nodes by id, and the messages of its events."""
    events: list[tuple[Event, int]] = [(Started(), _AT), (Cached(["1"]), _AT + 1), (Succeeded(), _AT + 2)]
    entry = decode(wire.history_entry(a_job(), events))
    assert entry["prompt"] == decode(wire.queue_entry(a_job()))
    assert entry["outputs"] == {"9.0.0.1": {"images": [{**_FILE, "type": "temp"}, _FILE], "text": ["a"]}}
    assert entry["meta"]["9.0.0.1"] == {
        "node_id": "9.0.0.1", "display_node": "9", "parent_node": "9", "real_node_id": "9",
    }  # fmt: skip
    assert [message[0] for message in entry["status"]["messages"]] == [
        "execution_start",
        "execution_cached",
        "execution_success",
    ]


def test_light_history_leaves_the_graph_out() -> None:
    """The cloud's list leaves the drawn workflow out, and the graph; one entry by itself has both."""
    entry = decode(wire.history_v2_entry(a_job()))
    assert set(entry) == {"prompt_id", "create_time", "prompt", "outputs", "meta", "status", "workflow_id"}
    assert entry["prompt"]["extra_data"] == {
        "extra_pnginfo": {"more": 1}, "client_id": "tab", "create_time": _AT,
    }  # fmt: skip
    whole = decode(wire.history_v2_detail(a_job(), [(Succeeded(), _AT)]))
    assert whole["prompt"]["extra_data"]["extra_pnginfo"]["workflow"] == {"id": "w-1", "nodes": []}
    assert (whole["prompt"]["prompt"], whole["prompt"]["outputs_to_execute"]) == ({"9": {}}, ["9"])


@pytest.mark.parametrize("drawn", [{"extra_pnginfo": 7}, {"extra_pnginfo": {"workflow": []}}, {"extra_pnginfo": None}])
def test_odd_drawing_does_not_break_a_list(drawn: Any) -> None:
    """What an editor sends beside a workflow may be anything."""
    job = a_job(extra=json.dumps(drawn).encode())
    assert "workflow_id" not in decode(wire.history_v2_entry(job))
    assert decode(wire.history_v2_entry(job))["prompt"]["extra_data"]["create_time"] == _AT


@pytest.mark.parametrize("ui", [{"images": "a"}, {"images": [1, {"a": 1}]}, {"text": ["a"]}, {"a": None}])
def test_odd_outputs_do_not_break_a_list(ui: Any) -> None:
    """What a node shows may be anything; only files are counted."""
    assert decode(wire.job_entry(a_job(outputs=outputs_of(**ui))))["outputs_count"] == 0
