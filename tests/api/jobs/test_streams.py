"""A job's updates as server-sent events (J-13)."""

import contextlib
from typing import Any, Final

import pytest

from api.cloud.clients import failing, holding, picture
from api.jobs.callers import NOBODY, JobsCaller, refusal_of
from api.jobs.conftest import NewJobsCaller
from servers import wait_until

_STREAMS_MAX: Final = 8


def events(job: dict[str, Any]) -> str:
    """Return the path of a job's stream."""
    return f"/api/v2/jobs/{job['id']}/events"


@pytest.mark.req("J-13")
def test_stream_tells_a_job_from_waiting_to_its_end(new_jobs_caller: NewJobsCaller) -> None:
    """Who watches a job that waits is told when it moves up, begins, shows something and has ended; nothing after."""
    caller = new_jobs_caller("--subscription", "standard")
    first = caller.submit(holding())
    caller.reaches(first["id"], "running")
    between = caller.submit(holding(1))
    job = caller.submit(picture(77, prefix="streamed"))
    with caller.watches(job["id"]) as stream:
        assert stream.next() == ("status", {"status": "queued", "queue_position": 1})
        caller.cancel(between["id"])
        assert stream.next() == ("status", {"status": "queued", "queue_position": 0})
        caller.cancel(first["id"])
        seen = stream.until("status", status="succeeded") + stream.rest()
    assert seen[-1] == ("status", {"status": "succeeded"})
    statuses = [data["status"] for name, data in seen if name == "status"]
    assert statuses in (["running", "succeeded"], ["queued", "running", "succeeded"], ["succeeded"])
    (output,) = [data for name, data in seen if name == "output"]
    assert (output["node_id"], output["name"], output["type"]) == ("2", "streamed_00001_.png", "image")
    assert caller.server.client.get(output["url"]).status_code == 200
    far = [data for name, data in seen if name == "progress"]
    assert [data["nodes_done"] for data in far] == sorted(data["nodes_done"] for data in far)
    assert (far[-1]["value"], far[-1]["nodes_done"], far[-1]["nodes_total"]) == (1.0, 2, 2)
    logs = [data for name, data in seen if name == "log"]
    assert {"level": "info", "message": "The execution has succeeded."} in logs


@pytest.mark.req("J-13")
def test_stream_of_an_ended_job_ends_at_once(caller: JobsCaller) -> None:
    """It tells how far the job came and how it stands, and ends."""
    job = caller.runs(failing("no paint"))
    with caller.watches(job["id"]) as stream:
        (progress, _), (status, told) = stream.rest()
        assert (progress, status, told) == ("progress", "status", {"status": "failed"})


@pytest.mark.req("J-13")
def test_late_watcher_is_told_status_and_progress(caller: JobsCaller) -> None:
    """Who comes while a job is executed is told its status and its progress at once; its cancelling ends the stream."""
    job = caller.submit(holding())
    caller.reaches(job["id"], "running")
    with caller.watches(job["id"]) as stream:
        assert stream.next() == ("status", {"status": "running"})
        name, progress = stream.next() or ("", {})
        assert (name, progress["nodes_done"], progress["nodes_total"]) == ("progress", 0, 1)
        caller.cancel(job["id"])
        seen = stream.rest()
    assert seen[-1] == ("status", {"status": "canceled"})


@pytest.mark.req("J-13")
def test_stream_tells_of_its_own_job(caller: JobsCaller) -> None:
    """A stream tells of its job alone."""
    held = caller.submit(holding())
    caller.reaches(held["id"], "running")
    with caller.watches(held["id"]) as stream:
        other = caller.runs(failing("elsewhere"))
        assert other["status"] == "failed"
        caller.cancel(held["id"])
        assert "elsewhere" not in str(stream.rest())


@pytest.mark.req("J-07", "J-13")
def test_streams_of_an_account_are_bounded(caller: JobsCaller, new_jobs_caller: NewJobsCaller) -> None:
    """An account has eight streams; one that was closed makes room, and another account has its own."""
    job = caller.submit(holding())
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(caller.watches(job["id"])) for _ in range(_STREAMS_MAX)]
        assert {stream.next() is not None for stream in streams} == {True}
        assert refusal_of(caller.ask("GET", events(job))) == (429, "too_many_streams")
        other = new_jobs_caller()
        with other.watches(other.submit(holding())["id"]) as stream:
            assert stream.next() is not None
    wait_until(lambda: _opens(caller, job), "a stream that was closed makes room")
    assert refusal_of(caller.ask("GET", f"/api/v2/jobs/{NOBODY}/events")) == (404, "not_found")


def _opens(caller: JobsCaller, job: dict[str, Any]) -> bool:
    headers = {"X-API-Key": caller.key}
    with caller.server.client.stream("GET", events(job), headers=headers) as response:
        return response.status_code == 200
