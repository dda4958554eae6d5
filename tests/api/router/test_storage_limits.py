"""The storage limit of a workspace, refused in the format of each API, and told and changed by commands (S-09)."""

from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from blake3 import blake3

from api.cloud.clients import ENDED, Client, picture
from api.conftest import NewName
from servers import Server, serving

pytestmark = pytest.mark.req("S-09")

_FILES: Final = 2


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server at which a workspace may keep two files."""
    env = {"FAIRLEAD_ENGINE": "true", "FAIRLEAD_STORAGE_FILES": str(_FILES)}
    data = tmp_path_factory.mktemp("storage") / "data"
    with serving(data, env=env, arguments=("--no-local-partner",)) as server:
        yield server


@pytest.fixture
def full(narrow: Server, new_name: NewName) -> Client:
    """Return a caller whose workspace keeps as many files as it may."""
    name = new_name()
    client = Client(narrow, name, narrow.new_workspace(name))
    for number in range(_FILES):
        assert _upload(client, f"{number}".encode(), f"{number}.png").status_code == 200
    return client


def _upload(client: Client, content: bytes, name: str) -> httpx.Response:
    return client.ask("POST", "/api/upload/image", files={"image": (name, content)})


def _is_refused(response: httpx.Response) -> None:
    """Check that the cloud API says so in its own words."""
    assert (response.status_code, response.json()["error"]["type"]) == (413, "storage_full")
    assert response.json()["message"] == f"A workspace may keep {_FILES} files here; delete some first."


def _is_refused_by_the_jobs_api(response: httpx.Response) -> None:
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (413, "invalid_request")
    assert error["details"] == {"reason": "storage_full", "what": "files", "limit": _FILES}


def test_full_workspace_is_refused_by_the_cloud_api(full: Client) -> None:
    """Uploads, files and settings of editors and submissions; reading goes on, and another workspace keeps its own."""
    _is_refused(_upload(full, b"more", "more.png"))
    _is_refused(full.ask("POST", "/api/userdata/a.json", content=b"{}"))
    _is_refused(full.ask("POST", "/api/settings/theme", json="dark"))
    _is_refused(full.ask("POST", "/api/prompt", json={"prompt": picture()}))
    assert full.ask("GET", "/api/view?filename=0.png&type=input").status_code in (200, 302)
    other = f"{full.workspace}-next"
    client = Client(full.server, other, full.server.new_workspace(other))
    assert _upload(client, b"more", "more.png").status_code == 200


def test_full_workspace_is_refused_by_the_jobs_api(full: Client) -> None:
    """Assets that are sent or made of known bytes, and submissions; deleting an asset makes room."""
    known = f"blake3:{blake3(b'0').hexdigest()}"
    form: dict[str, Any] = {"files": {"file": ("new.png", b"new")}, "data": {"file_path": "new.png"}}
    _is_refused_by_the_jobs_api(full.ask("POST", "/api/v2/assets", **form))
    from_hash = {"hash": known, "file_path": "another-name.png"}
    _is_refused_by_the_jobs_api(full.ask("POST", "/api/v2/assets/from-hash", json=from_hash))
    _is_refused_by_the_jobs_api(full.ask("POST", "/api/v2/jobs", json={"workflow": picture()}))
    same = full.ask("POST", "/api/v2/assets/from-hash", json={"hash": known, "file_path": "0.png"})
    assert same.status_code == 200, same.text
    assert full.ask("DELETE", f"/api/v2/assets/{same.json()['id']}").status_code == 204
    assert full.ask("POST", "/api/v2/assets", **form).status_code == 201


def test_job_whose_output_does_not_fit_fails_and_says_why(narrow: Server) -> None:
    """The first output fills the workspace; the second job's node fails with a clear message."""
    client = Client(narrow, "makes", narrow.new_workspace("makes"))
    assert _upload(client, b"one", "one.png").status_code == 200
    workflow = picture(1)
    workflow["3"] = {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "second"}}
    job_id = client.submit(workflow)
    assert client.reaches(job_id, *ENDED) == "failed"
    told = client.ask("GET", f"/api/jobs/{job_id}").text
    assert f"The workspace may keep {_FILES} files" in told


def test_commands_tell_and_change_what_a_workspace_may_keep(full: Client) -> None:
    """A workspace with a limit of its own is refused by that, and by the setting's again when it is taken back."""
    (row,) = (row for row in _rows(full.server) if row["name"] == full.workspace)
    assert row == {
        "name": full.workspace, "bytes": 2, "files": _FILES, "bytes_limit": 2**40, "files_limit": 1_000_000,
        "own_limits": False,
    }  # fmt: skip
    full.server.cli("workspaces", "limit-storage", full.workspace, "--files", "3", "--mib", "none")
    (row,) = (row for row in _rows(full.server) if row["name"] == full.workspace)
    assert (row["bytes_limit"], row["files_limit"], row["own_limits"]) == (0, 3, True)
    assert _upload(full, b"more", "more.png").status_code == 200
    full.server.cli("workspaces", "limit-storage", full.workspace, "--files", "default", "--mib", "default")
    _is_refused(_upload(full, b"still more", "still-more.png"))


def _rows(server: Server) -> list[dict[str, Any]]:
    """Return what the command lists, which is run without the settings of this server."""
    rows: list[dict[str, Any]] = server.cli("workspaces", "storage", "--json")
    return rows
