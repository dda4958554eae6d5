"""Jobs over HTTP: submitted, read, canceled (J-05, J-06, J-12, J-13)."""

import datetime
from typing import Any, Final

import pytest

from api.cloud.clients import Client, failing, holding, picture
from api.conftest import MakeToken
from api.jobs.callers import NOBODY, JobsCaller, refusal_of
from api.jobs.conftest import BACKLOG, NewJobsCaller
from cases import for_each
from servers import Server

_TEXT: Final = {
    "1": {"class_type": "PrimitiveInt", "inputs": {"value": 7}},
    "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
}


@pytest.mark.req("J-12", "J-13")
def test_submitted_job_succeeds_and_has_outputs(caller: JobsCaller) -> None:
    """A job that was submitted can be polled until it has succeeded, and its outputs be fetched without a key."""
    submitted = caller.submit(picture(prefix="by-program"))
    assert set(submitted) >= {
        "id", "status", "created_at", "started_at", "completed_at", "expires_at", "queue_position", "progress",
        "outputs", "error", "urls",
    }  # fmt: skip
    assert submitted["status"] in {"queued", "running"}
    assert "metadata" not in submitted
    job = caller.reaches(submitted["id"], "succeeded", "failed")
    assert (job["status"], job["error"], job["queue_position"]) == ("succeeded", None, None)
    assert (job["progress"]["value"], job["progress"]["nodes_done"]) == (1.0, 2)
    created, started, completed, expires = (
        datetime.datetime.fromisoformat(job[name])
        for name in ("created_at", "started_at", "completed_at", "expires_at")
    )
    assert created <= started <= completed < expires
    assert set(job["metrics"]) == {"queue_ms", "execution_ms"}
    (output,) = job["outputs"]
    assert (output["node_id"], output["name"], output["type"]) == ("2", "by-program_00001_.png", "image")
    assert output["hash"].startswith("blake3:")
    fetched = caller.server.client.get(output["url"], headers={"X-API-Key": ""})
    assert (fetched.status_code, fetched.headers["content-type"]) == (200, "image/png")
    assert len(fetched.content) == output["size_bytes"]


@pytest.mark.req("J-13")
def test_text_output_stands_in_the_answer(caller: JobsCaller) -> None:
    """What a node shows as text need not be fetched."""
    (output,) = caller.runs(_TEXT)["outputs"]
    assert (output["type"], output["text"], output["size_bytes"]) == ("text", "7", 1)


@pytest.mark.req("J-13")
def test_links_of_a_job_lead_to_more_of_it(caller: JobsCaller) -> None:
    """Clients follow the links of a job, and build none."""
    job = caller.runs(picture())
    assert set(job["urls"]) == {"self", "events", "cancel", "logs", "workflow"}
    assert caller.get(job["urls"]["self"])["id"] == job["id"]
    assert caller.get(job["urls"]["workflow"])["workflow"]["2"]["class_type"] == "SaveImage"
    lines = caller.get(job["urls"]["logs"])["text"].splitlines()
    assert {line.split(" ")[1] for line in lines} == {"info"}
    assert lines[-1].endswith(" The execution has succeeded.")
    assert caller.ask("POST", job["urls"]["cancel"]).json()["status"] == "succeeded"
    assert caller.ask("HEAD", job["urls"]["events"]).status_code == 200


def test_waiting_job_has_no_log(new_jobs_caller: NewJobsCaller) -> None:
    """There is nothing to say of a job that has not begun: 204; its place in the queue is told."""
    caller = new_jobs_caller("--subscription", "standard")
    first, second, third = (caller.submit(holding(number)) for number in range(3))
    caller.reaches(first["id"], "running")
    assert caller.job(second["id"])["queue_position"] == 0
    assert caller.job(third["id"])["queue_position"] == 1
    assert caller.job(third["id"])["progress"] is None
    response = caller.ask("GET", f"/api/v2/jobs/{third['id']}/logs")
    assert (response.status_code, response.content) == (204, b"")
    running = caller.job(first["id"])["progress"]
    assert (running["nodes_done"], running["nodes_total"]) == (0, 1)


@pytest.mark.req("J-06", "J-13")
def test_failed_job_says_why(caller: JobsCaller) -> None:
    """A failed job has the node's error, in the shape of a refusal's."""
    job = caller.runs(failing("out of paint"))
    error = job["error"]
    assert (job["status"], error["code"], error["node_id"]) == ("failed", "execution_failed", "1")
    assert "out of paint" in error["message"]
    assert error["class_type"] == "FallOver"
    assert "ValueError" in error["traceback"]
    assert error["node_errors"]["1"]["errors"][0]["type"] == "ValueError"
    assert caller.get(job["urls"]["logs"])["text"].splitlines()[-1].split(" ")[1] == "error"


@pytest.mark.req("J-06", "J-13")
def test_canceled_job_stops(new_jobs_caller: NewJobsCaller) -> None:
    """A job that waits is canceled at once, one that runs by way of canceling; both stay so."""
    caller = new_jobs_caller("--subscription", "standard")
    running, waiting = caller.submit(holding())["id"], caller.submit(holding(1))["id"]
    caller.reaches(running, "running")
    assert caller.cancel(waiting)["status"] == "canceled"
    assert caller.cancel(running)["status"] in {"canceling", "canceled"}
    ended = caller.reaches(running, "canceled")
    assert ended["error"] is None
    assert caller.cancel(running) == ended
    assert caller.cancel(waiting)["status"] == "canceled"


@pytest.mark.req("J-10", "J-13")
@pytest.mark.parametrize("job_id", [NOBODY, NOBODY.upper(), "1", "%00", "x" * 500, "..", "%F0%9F%98%80"])
@for_each("path", ["", "/workflow", "/logs", "/events", "/cancel"])
def test_unknown_job_is_not_found(visitor: JobsCaller, path: str, job_id: str) -> None:
    """An id that is nobody's is not found, whatever it looks like."""
    method = "POST" if path == "/cancel" else "GET"
    assert refusal_of(visitor.ask(method, f"/api/v2/jobs/{job_id}{path}")) == (404, "not_found")


@pytest.mark.req("J-10")
def test_job_of_another_workspace_looks_unknown(caller: JobsCaller, new_jobs_caller: NewJobsCaller) -> None:
    """A job of another workspace is answered for byte by byte as one there never was, and goes on."""
    job_id, other = caller.submit(holding())["id"], new_jobs_caller()
    for path in ("", "/workflow", "/logs", "/events", "/cancel"):
        method = "POST" if path == "/cancel" else "GET"
        foreign, unknown = (other.ask(method, f"/api/v2/jobs/{id_}{path}") for id_ in (job_id, NOBODY))
        assert (
            (foreign.status_code, foreign.content) == (unknown.status_code, unknown.content) == (404, unknown.content)
        )
    assert other.get("/api/v2/jobs") == {"jobs": []}
    assert caller.job(job_id)["status"] in {"queued", "running"}


def test_prompt_of_the_cloud_api_is_a_job(caller: JobsCaller) -> None:
    """What was submitted at one API is told of at the other."""
    cloud = Client(caller.server, caller.workspace, caller.key)
    prompt_id = cloud.runs(picture())
    assert caller.job(prompt_id)["status"] == "succeeded"
    job_id = caller.runs(picture(), metadata={"k": "v"})["id"]
    assert cloud.status(job_id) == "completed"
    assert [job["id"] for job in caller.get("/api/v2/jobs")["jobs"]] == [job_id, prompt_id]
    assert cloud.get("/api/jobs")["pagination"]["total"] == 2


@pytest.mark.req("J-07", "J-09")
def test_stranger_is_401(jobs_server: Server, caller: JobsCaller, token: MakeToken) -> None:
    """A key or a token of the issuer is needed, in either header; nothing is told without."""
    url = f"{jobs_server.url}/api/v2/jobs"
    for headers in ({"X-API-Key": ""}, {"X-API-Key": "flk_nobody"}, {"X-API-Key": "", "Authorization": "Bearer x.y.z"}):
        assert refusal_of(jobs_server.client.get(url, headers=headers)) == (401, "unauthorized")
    assert jobs_server.client.get(url, headers={"X-API-Key": caller.key}).json() == {"jobs": []}
    assert caller.ask("GET", url, headers={"Authorization": f"Bearer {token(caller.workspace)}"}).status_code == 200


@pytest.mark.req("J-07")
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v2", 404, "not_found"),
        ("GET", "/api/v2/", 404, "not_found"),
        ("GET", "/api/v2/jobs/", 404, "not_found"),
        ("GET", "/api/v2/nothing", 404, "not_found"),
        ("GET", f"/api/v2/jobs%2F{NOBODY}", 404, "not_found"),
        ("DELETE", "/api/v2/jobs", 405, "method_not_allowed"),
        ("GET", f"/api/v2/jobs/{NOBODY}/cancel", 405, "method_not_allowed"),
    ],
)
def test_unknown_path_is_refused_in_the_envelope_of_this_api(
    visitor: JobsCaller, method: str, path: str, status: int, code: str
) -> None:
    """Under the prefix every refusal has the envelope of this API."""
    assert refusal_of(visitor.ask(method, path)) == (status, code)


@pytest.mark.req("J-12")
def test_inactive_subscription_reads_and_does_not_submit(new_jobs_caller: NewJobsCaller) -> None:
    """A workspace whose subscription allows no job may read."""
    free = new_jobs_caller("--subscription", "free")
    response = free.ask("POST", "/api/v2/jobs", json={"workflow": picture()})
    assert refusal_of(response) == (403, "forbidden")
    assert response.json()["error"]["details"] == {"reason": "subscription_inactive"}
    assert "retry-after" not in response.headers
    assert free.get("/api/v2/jobs") == {"jobs": []}


@pytest.mark.req("C-13")
def test_tiers_that_promise_too_much_are_logged_at_the_start(jobs_server: Server) -> None:
    """Each is named with the parallel jobs it promises and the engine hosts there are."""
    lines = jobs_server.logged_events("SubscriptionBeyondHosts")
    told = [(line["subscription"], line["jobs"], line["hosts"], line["level"]) for line in lines]
    assert told == [("creator", 3, 2, "warning"), ("pro", 5, 2, "warning")]


@pytest.mark.req("J-12")
def test_queue_of_jobs_is_bounded(new_jobs_caller: NewJobsCaller) -> None:
    """A bounded number of jobs may wait; one more is refused with a time to wait, and its key stays free."""
    caller = new_jobs_caller("--subscription", "standard")
    first, *waiting = (caller.submit(holding(number))["id"] for number in range(1 + BACKLOG))
    caller.reaches(first, "running")
    body: dict[str, Any] = {"json": {"workflow": holding(9)}, "headers": {"Idempotency-Key": "again"}}
    assert refusal_of(caller.ask("POST", "/api/v2/jobs", **body)) == (429, "queue_full")
    caller.cancel(waiting[0])
    assert caller.ask("POST", "/api/v2/jobs", **body).status_code == 201
    assert refusal_of(caller.ask("POST", "/api/v2/jobs", **body)) == (422, "idempotency_key_reuse")
