"""Jobs over the administration API: who sees which, what is told of one, and cancelling (A-01)."""

import pytest

from api.admin.members import Person, add_member, refusal_of
from api.cloud.clients import Client, failing, holding, picture
from api.cloud.conftest import NewCloudClient
from servers import Server

pytestmark = pytest.mark.req("A-01")


@pytest.fixture
def chief(cloud: Server) -> Person:
    """Return the operator of the server."""
    return Person(cloud, (cloud.data / "first-operator-key").read_text("ascii").strip())


def invite(chief: Person, workspace: str, role: str) -> Person:
    """A new person with a role in a workspace."""
    return add_member(chief, workspace, role, f"{role}-of-{workspace}")


def test_jobs_are_listed_and_told_in_full(caller: Client, chief: Person) -> None:
    """The newest first, in pages; one in full has its workflow, what its nodes have shown, and its events."""
    ids = [caller.runs(picture()), caller.runs(failing("out of paint"))]
    viewer = invite(chief, caller.workspace, "viewer")
    first = viewer.get("/jobs", limit="1")
    second = viewer.get("/jobs", limit="1", cursor=first["next_cursor"])
    assert [one["id"] for one in (*first["items"], *second["items"])] == ids[::-1]
    job = viewer.get(f"/jobs/{ids[0]}")
    assert (job["state"], job["nodes"], job["failure"]) == ("succeeded", 2, None)
    assert job["workflow"]["2"]["class_type"] == "SaveImage"
    assert job["outputs"]["2"]["ui"]["images"][0]["filename"].startswith("made")
    assert job["events"]
    failed = chief.get(f"/jobs/{ids[1]}")
    assert "out of paint" in str(failed["failure"])
    assert refusal_of(chief.ask("GET", "/jobs")) == (422, "invalid_input", "workspace")
    assert refusal_of(chief.ask("GET", "/jobs/nothing"))[:2] == (404, "not_found")


def test_jobs_are_searched_by_state_deployment_and_label(caller: Client, chief: Person) -> None:
    """A page that is not full may have another one behind it; what cannot be a filter is refused by its name."""
    done, failed = caller.runs(picture()), caller.runs(failing("out of paint"))
    viewer = invite(chief, caller.workspace, "viewer")

    def find(**query: str) -> list[str]:
        return [one["id"] for one in viewer.get("/jobs", **query)["items"]]

    assert (find(state="succeeded"), find(state="failed"), find(state="running")) == ([done], [failed], [])
    assert find(deployment="nothing-00000000") == find(label="team=none") == []
    for query, field in (
        ({"state": "finished"}, "state"),
        ({"label": "team"}, "label"),
        ({"label": "a b=c"}, "label"),
        ({"deployment": ""}, "deployment"),
    ):
        assert refusal_of(viewer.ask("GET", "/jobs", params=query)) == (422, "invalid_input", field)


def test_job_is_cancelled_by_a_member_of_its_workspace(
    caller: Client, new_cloud_client: NewCloudClient, chief: Person
) -> None:
    """A viewer may not, nor anybody of another workspace, whom it is hidden from; the audit log has it."""
    job_id, other = caller.submit(holding()), new_cloud_client()
    caller.reaches(job_id, "in_progress", "executing", "running")
    stranger = invite(chief, other.workspace, "owner")
    for method, path in (("GET", f"/jobs/{job_id}"), ("POST", f"/jobs/{job_id}/cancel")):
        assert refusal_of(stranger.ask(method, path))[:2] == (404, "not_found")
    assert refusal_of(invite(chief, caller.workspace, "viewer").ask("POST", f"/jobs/{job_id}/cancel"))[0] == 404
    member = invite(chief, caller.workspace, "member")
    assert member.ask("POST", f"/jobs/{job_id}/cancel").json() == {"is_cancelled": True}
    assert member.ask("POST", f"/jobs/{job_id}/cancel").json() == {"is_cancelled": False}
    (act, *_) = chief.get("/audit-log", workspace=caller.workspace)["items"]
    assert (act["action"], act["target"]) == ("job.cancelled", job_id)
    caller.reaches(job_id, "cancelled")
