"""Shapes of the jobs API, made of records (J-03, J-06, J-13)."""

import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.jobs.documents import JobShown
from fairlead.api.jobs.queries import make_cursor, read_cursor
from fairlead.api.jobs.wire import ERROR_CODES, JobAnswer, event, job_document, progress_document
from fairlead.domain.jobs.errors import JOB_ERRORS
from fairlead.domain.jobs.events import Failed, Failure, Interrupted, Place, Preview
from fairlead.domain.jobs.faults import JobFaultError
from fairlead.domain.jobs.jobs import Job
from fairlead.domain.jobs.listing import NUMBER_MAX
from fairlead.domain.jobs.states import LIVE, STATUSES, TRANSITIONS, WAITING, JobState
from fairlead.domain.jobs.updates import LogLine, ProgressReport, ProgressUpdate, StatusUpdate

BASE: Final = "https://example.com"


def job(state: JobState = JobState.RUNNING, **changes: Any) -> Job:
    """Return a job of two nodes."""
    return Job(**{"id": "j", "workspace_id": "w", "number": 1, "state": state, "attempt": 1, "wanted": (), "nodes": 2,
                  "created_at": 1_000, "updated_at": 2_000, **changes})  # fmt: skip


def document(told: Job, ahead: int | None = None) -> JobShown:
    """Return the document of a job without outputs that is forgotten at 9 seconds."""
    return job_document(JobAnswer(told, (), 9_000, ahead), BASE, BASE)


def read(update: Any, class_type: str | None = None) -> tuple[str, Any]:
    """Return the name and the data of an update as an event."""
    name, data, *rest = event(update, class_type, BASE).decode().split("\n")
    assert rest == ["", ""]
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@pytest.mark.req("J-03")
@given(number=st.integers(1, NUMBER_MAX))
def test_cursor_says_its_number_in_one_spelling(number: int) -> None:
    """A cursor says its number, in one spelling."""
    cursor = make_cursor(number)
    assert read_cursor(cursor) == number
    assert len(cursor) == 12


@pytest.mark.req("J-03")
@given(text=st.text(st.sampled_from("AQIDBg-_=+%x"), max_size=16))
def test_text_read_as_a_cursor_is_that_cursor(text: str) -> None:
    """What is read as a cursor is the cursor of what was read."""
    try:
        number = read_cursor(text)
    except JobFaultError:
        return
    assert make_cursor(number) == text


@pytest.mark.req("J-06")
def test_every_state_has_a_status() -> None:
    """The seven statuses are views of the states; none leads out of one that is terminal."""
    assert set(STATUSES) == set(JobState)
    assert set(STATUSES.values()) == {"queued", "running", "succeeded", "canceling", "canceled", "failed", "expired"}
    terminal = {STATUSES[state] for state in JobState if state not in LIVE}
    assert terminal == {"succeeded", "canceled", "failed", "expired"}
    assert not any(STATUSES[state] in terminal for state, _ in TRANSITIONS)
    assert {STATUSES[state] for state in WAITING} == {"queued"}


@pytest.mark.req("J-13")
def test_missing_facts_of_a_job_are_null_or_absent() -> None:
    """What a job was not submitted with is absent; steps are whole numbers, as released clients read them."""
    waiting: Any = document(job(JobState.PARKED), 3)
    unknown = ("started_at", "completed_at", "progress", "error", "metrics")
    assert {name: waiting[name] for name in unknown} == dict.fromkeys(unknown)
    assert (waiting["queue_position"], waiting["created_at"]) == (3, "1970-01-01T00:00:01.000Z")
    assert waiting["expires_at"] == "1970-01-01T00:00:09.000Z"
    assert not {"metadata", "release_version", "deployment_id"} & set(waiting)
    assert waiting["urls"]["events"] == f"{BASE}/api/v2/jobs/j/events"
    progress = '{"nodes_done":1,"nodes_total":2,"current_node":"2","step":1.5,"steps":6}'
    workflow = b'{"1": {"class_type": "A", "inputs": {}}, "2": {"class_type": "B", "inputs": {}}}'
    running = document(job(started_at=1_500, progress=progress, workflow=workflow))
    assert running["metrics"] == {"queue_ms": 500, "execution_ms": None}
    assert running["progress"] == {
        "value": 0.625, "nodes_done": 1, "nodes_total": 2, "current_node": "2", "current_node_class": "B",
        "step": 1, "steps": 6, "message": None,
    }  # fmt: skip


@pytest.mark.req("J-13")
@pytest.mark.parametrize(
    ("progress", "value"),
    [
        (ProgressReport(0, 0), 1.0), (ProgressReport(0, 4), 0.0), (ProgressReport(4, 4), 1.0),
        (ProgressReport(1, 4, "1", 9, 3), 0.5), (ProgressReport(1, 4, "1", -5, 3), 0.25),
        (ProgressReport(1, 4, "1", 1, 0), 0.25),
    ],
)  # fmt: skip
def test_progress_is_between_0_and_1(progress: ProgressReport, value: float) -> None:
    """It goes from 0 to 1, whatever a node says of itself."""
    assert progress_document(progress)["value"] == value


@pytest.mark.req("J-13")
def test_every_failure_has_a_code() -> None:
    """Each kind of error that is ours has a code of its own; a node's own error and its place have theirs."""
    assert set(ERROR_CODES) == JOB_ERRORS
    assert len(set(ERROR_CODES.values())) == len(ERROR_CODES)

    def error(ending: Any, state: JobState = JobState.FAILED) -> Any:
        return document(job(state, failure=msgspec.json.encode(ending)))["error"]

    node = Failure(Place("5.1", "5", "5", "5"), "Blur", "ValueError", "no", ["Trace\n", "back"], {}, [])
    told = error(Failed(node))
    assert (told["code"], told["node_id"], told["traceback"]) == ("execution_failed", "5", "Trace\nback")
    assert told["node_errors"] == {"5": {"class_type": "Blur", "errors": [{"type": "ValueError", "message": "no"}]}}
    nowhere = Failure(Place("", ""), "", "OOMError", "memory", [], {}, [])
    assert error(Failed(nowhere)) == {"code": "out_of_memory", "message": "OOMError: memory"}
    assert error(Interrupted(None, None, ()), JobState.CANCELED) is None
    never: Any = document(job(JobState.EXPIRED))["error"]
    assert never["code"] == "expired"
    late = Failure(Place("1", "1"), "Endless", "TimeoutError", "too long", [], {}, [])
    assert error(Failed(late, is_late=True), JobState.EXPIRED)["code"] == "timeout"


@pytest.mark.req("J-13")
def test_every_event_has_its_name_and_members() -> None:
    """Each update has its name and its members; silence is a comment."""
    assert read(StatusUpdate(job(), None)) == ("status", {"status": "running"})
    assert read(StatusUpdate(job(JobState.PARKED), 2)) == ("status", {"status": "queued", "queue_position": 2})
    name, progress = read(ProgressUpdate(ProgressReport(1, 2, "2"), "half-way"), "B")
    assert (name, progress["message"], progress["current_node_class"]) == ("progress", "half-way", "B")
    preview = read(Preview(Place("2", "2"), "image/png", b"\x00\xff"))
    assert preview == ("preview", {"node_id": "2", "content_type": "image/png", "data_base64": "AP8="})
    assert read(LogLine("warning", "a\nb", 1)) == ("log", {"level": "warning", "message": "a\nb"})
    assert event(None, None, BASE) == b": waiting\n\n"


@pytest.mark.req("J-13")
@pytest.mark.parametrize("state", sorted(set(JobState) - LIVE))
def test_ended_job_is_told_alike_whether_its_workflow_was_read_or_not(state: JobState) -> None:
    """A job that ends while it is canceled was read with its workflow, and is read without it from then on."""
    progress = msgspec.json.encode(ProgressReport(0, 2, "2", 1, 4)).decode()
    ended = job(state, started_at=1_500, finished_at=2_000, progress=progress)
    read_whole = msgspec.structs.replace(ended, workflow=b'{"2":{"class_type":"B","inputs":{}}}', extra=b"{}")
    assert document(read_whole) == document(ended)
