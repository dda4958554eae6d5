"""Workflows from their submission to what was made of them, over the real server with its engine hosts."""

import ctypes
import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import jwt
import PIL.Image
import pytest

from api.conftest import JWT_AUDIENCE, JWT_ISSUER, JWT_SECRET
from end_to_end.workflow_clients import WorkflowClient, graph_showing, node, picture, read_messages
from servers import Server, serving, wait_until

PACKS: Final = Path(__file__).with_name("node_packs")
ENV: Final = {
    "FAIRLEAD_ENGINE": "true",
    "FAIRLEAD_NODE_PACKS": str(PACKS),
    "FAIRLEAD_ENGINE_MEMORY_MIB": "1500",
    "FAIRLEAD_ENGINE_HOSTS": "3",
    "FAIRLEAD_JWT_SECRET": JWT_SECRET,
    "FAIRLEAD_JWT_ISSUER": JWT_ISSUER,
    "FAIRLEAD_JWT_AUDIENCE": JWT_AUDIENCE,
}
_PROMPT: Final = {"prompt": "a harbour at dawn", "width": 64, "height": 64}
_SCOPES_SIGNALS: Final = 6


def can_confine() -> bool:
    """Whether this system has the Landlock that hosts are confined with, in a version that knows of signals."""
    version: int = ctypes.CDLL(None).syscall(444, None, 0, 1)
    return sys.platform == "linux" and version >= _SCOPES_SIGNALS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with an engine and a pack of trouble-makers."""
    with serving(tmp_path_factory.mktemp("workflows") / "data", env=ENV) as running:
        yield running


class Clients:
    """Makes workspaces, each with a client, and closes the clients in the end."""

    def __init__(self, server: Server) -> None:
        """Make nothing yet."""
        self._server = server
        self._opened: list[WorkflowClient] = []

    def __call__(self, *options: str) -> WorkflowClient:
        """Make a workspace of its own, so that tests do not wait for one another."""
        name = f"w{time.monotonic_ns()}"
        self._opened.append(WorkflowClient(self._server, self._server.new_workspace(name, *options), name))
        return self._opened[-1]

    def close(self) -> None:
        """Close every client."""
        for client in self._opened:
            client.http.close()


@pytest.fixture
def clients(server: Server) -> Iterator[Clients]:
    """Return what makes workspaces with clients."""
    made = Clients(server)
    yield made
    made.close()


@pytest.fixture
def client(clients: Clients) -> WorkflowClient:
    """Return a client with a workspace of its own."""
    return clients()


@pytest.mark.req("C-02", "C-04", "C-05", "C-06", "C-15")
def test_picture_is_uploaded_scaled_and_downloaded(client: WorkflowClient) -> None:
    """Every step as the specification describes it, and the picture is what the nodes say."""
    graph = {
        "1": node("LoadImage", image=client.upload(picture())),
        "2": node("ImageScale", image=["1", 0], upscale_method="nearest-exact", width=80, height=60, crop="disabled"),
        "3": node("SaveImage", images=["2", 0], filename_prefix="scaled"),
    }
    (file,) = client.files_of(client.run(graph))
    with PIL.Image.open(io.BytesIO(client.download(file))) as made:
        assert (made.size, made.getpixel((79, 59))) == ((80, 60), (0x80, 0x40, 0x20))


@pytest.mark.req("C-15")
def test_sound_and_video_are_made_and_downloaded(client: WorkflowClient) -> None:
    """Each under its own kind, with bytes that are what their names say."""
    graph = {
        "1": node("EmptyImage", width=64, height=48, batch_size=6, color=0x336699),
        "2": node("EmptyAudio", duration=0.5, sample_rate=44100, channels=1),
        "3": node("CreateVideo", images=["1", 0], audio=["2", 0], fps=12.0),
        "4": node("SaveVideo", video=["3", 0], filename_prefix="clip", format="mp4", codec="auto"),
        "5": node("SaveAudio", audio=["2", 0], filename_prefix="sound"),
    }
    job = client.run(graph)
    (video,), (sound,) = client.files_of(job, "video"), client.files_of(job, "audio")
    assert client.download(video)[4:8] == b"ftyp"
    assert client.download(sound)[:4] == b"fLaC"


@pytest.mark.req("C-10")
def test_cached_nodes_are_not_executed_again(client: WorkflowClient) -> None:
    """The nodes are named as cached, also under other ids, and outputs are shown again."""
    graph = graph_showing("Slowly", value=3)
    first = client.run(graph)
    with client.watching() as socket:
        renamed = {"x": graph["1"], "y": node("PreviewAny", source=["x", 0])}
        messages = read_messages(socket, client.submit(renamed))
    assert next(one["data"]["nodes"] for one in messages if one["type"] == "execution_cached") == ["x", "y"]
    assert "executing" not in [one["type"] for one in messages]
    assert client.wait_for_end(messages[0]["data"]["prompt_id"])["outputs"]["y"] == first["outputs"]["2"]


@pytest.mark.req("C-10")
def test_cache_of_one_workspace_is_not_known_to_another(clients: Clients, client: WorkflowClient) -> None:
    """The same workflow is executed again: a cache never crosses workspaces."""
    graph = graph_showing("Slowly", value=2)
    client.run(graph)
    other = clients()
    with other.watching() as socket:
        messages = read_messages(socket, other.submit(graph))
    assert next(one["data"]["nodes"] for one in messages if one["type"] == "execution_cached") == []


@pytest.mark.req("C-13")
def test_tier_decides_how_many_jobs_run_at_once(clients: Clients) -> None:
    """One of a standard subscription; the others wait in the order in which they came."""
    client = clients("--subscription", "standard")
    jobs = [client.submit(graph_showing("Slowly", value=4 + number)) for number in range(3)]
    wait_until(lambda: client.status(jobs[0]) == "in_progress", "the first begins")
    assert [client.status(job) for job in jobs[1:]] == ["pending", "pending"]
    queue = client.http.get("/api/queue").json()
    assert [entry[1] for entry in queue["queue_running"]] == jobs[:1]
    assert [entry[1] for entry in queue["queue_pending"]] == jobs[1:]
    ended = [client.wait_for_end(job) for job in jobs]
    times = [(job["execution_start_time"], job["execution_end_time"]) for job in ended]
    assert times[0][1] <= times[1][0]
    assert times[1][1] <= times[2][0]


@pytest.mark.req("C-13", "C-15")
def test_jobs_of_one_workspace_run_at_the_same_time(clients: Clients) -> None:
    """As many jobs run at the same time as the tier and the server allow."""
    client = clients("--subscription", "creator")
    jobs = [client.submit(graph_showing("Slowly", value=10 + number)) for number in range(3)]
    wait_until(lambda: [client.status(job) for job in jobs] == ["in_progress"] * 3, "all three are executed")
    assert [client.wait_for_end(job)["status"] for job in jobs] == ["completed"] * 3


@pytest.mark.req("C-13", "C-14")
def test_workspace_without_an_active_subscription_is_refused(clients: Clients) -> None:
    """The answer is 429, as the specification says, and nothing of the job is kept."""
    client = clients("--subscription", "free")
    answer = client.post(graph_showing("PrimitiveInt", value=1))
    assert (answer.status_code, answer.json()["error"]["type"]) == (429, "subscription_inactive")
    assert client.http.get("/api/jobs").json()["jobs"] == []


def _failure(client: WorkflowClient, graph: Any, **more: Any) -> dict[str, Any]:
    """Run a workflow that fails; the message that says so."""
    with client.watching() as socket:
        messages = read_messages(socket, client.submit(graph, **more), ("execution_error", "execution_success"))
    assert messages[-1]["type"] == "execution_error", messages[-1]
    data: dict[str, Any] = messages[-1]["data"]
    assert client.wait_for_end(data["prompt_id"])["status"] == "failed"
    return data


@pytest.mark.req("C-12")
@pytest.mark.parametrize(
    ("class_type", "value", "kind"),
    [("Hog", 200, "OOMError"), ("Modelled", 1, "ModelDownloadError"), ("Crash", 3, "EngineCrashError")],
)
def test_error_has_the_kind_of_its_cause(client: WorkflowClient, class_type: str, value: int, kind: str) -> None:
    """The error names its kind and its node; the server and the next job are not affected."""
    failure = _failure(client, graph_showing(class_type, value=value))
    assert (failure["exception_type"], failure["node_id"], failure["node_type"]) == (kind, "1", class_type)
    assert client.run(graph_showing("PrimitiveInt", value=7))["status"] == "completed"


@pytest.mark.req("C-12")
def test_picture_behind_a_link_that_cannot_be_fetched_is_an_error_of_its_own(client: WorkflowClient) -> None:
    """Private addresses are refused like any that does not answer."""
    answer = client.post(
        {"1": node("LoadImage", image="http://127.0.0.1:9/x.png"), "2": node("PreviewImage", images=["1", 0])}
    )
    if answer.status_code == 400:
        assert "127.0.0.1" in answer.text
    else:
        job = client.wait_for_end(answer.json()["prompt_id"])
        assert job["execution_error"]["exception_type"] == "ImageDownloadError"


@pytest.mark.req("C-12", "C-13")
def test_subscription_that_ends_while_a_job_waits_ends_the_job(server: Server, clients: Clients) -> None:
    """It is told why, instead of waiting forever."""
    client = clients("--subscription", "standard")
    first, second = (client.submit(graph_showing("Slowly", value=8 + number)) for number in range(2))
    server.cli("workspaces", "change", client.workspace, "--subscription", "free")
    assert client.wait_for_end(second)["execution_error"]["exception_type"] == "InactiveSubscriptionError"
    assert client.wait_for_end(first)["status"] == "completed"


def test_node_that_never_ends_is_stopped_by_its_owner(client: WorkflowClient) -> None:
    """An interrupt ends the process where the node does not listen."""
    job = client.submit(graph_showing("Stuck", value=1))
    wait_until(lambda: client.status(job) == "in_progress", "it is executed")
    assert client.http.post("/api/interrupt", json={"prompt_id": job}).status_code == 200
    assert client.wait_for_end(job)["status"] == "cancelled"


@pytest.mark.req("C-07")
def test_jobs_are_cancelled_waiting_and_running(clients: Clients) -> None:
    """What waits is gone at once, what runs stops at its next step."""
    client = clients("--subscription", "standard")
    running, waiting = (client.submit(graph_showing("Slowly", value=100 + number)) for number in range(2))
    answer = client.http.post("/api/queue", json={"delete": [waiting, running, "nobody's"]}).json()
    assert (sorted(answer["deleted"]), answer["cleared"]) == (sorted([waiting, running]), False)
    assert [client.wait_for_end(job)["status"] for job in (waiting, running)] == ["cancelled", "cancelled"]


def test_nodes_see_none_of_the_servers_secrets(client: WorkflowClient) -> None:
    """The environment of a node's process holds no secret of the server."""
    job = client.run(graph_showing("Secrets", value=1))
    (words,) = job["outputs"]["2"]["text"]
    assert "FAIRLEAD" not in words
    assert client.key not in words


@pytest.mark.skipif(not can_confine(), reason="this system confines no process")
def test_nodes_see_none_of_the_servers_files(server: Server, client: WorkflowClient) -> None:
    """Nodes read no secrets, no database and no files of others, and cannot touch the server's process."""
    (words,) = client.run(graph_showing("Burglar", data=str(server.data.resolve())))["outputs"]["2"]["text"]
    assert words == ""


@pytest.mark.req("C-04")
def test_id_is_used_once(client: WorkflowClient) -> None:
    """A second submission under the same id is a conflict, and the first job stays what it is."""
    chosen = "0a1b2c3d-1111-4222-8333-444455556666"
    first = client.post(graph_showing("PrimitiveInt", value=1), prompt_id=chosen)
    again = client.post(graph_showing("PrimitiveInt", value=2), prompt_id=chosen)
    assert (first.status_code, again.status_code) == (200, 409)
    assert client.wait_for_end(chosen)["outputs"]["2"]["text"] == ["1"]


@pytest.mark.req("C-11", "C-15")
def test_partner_node_is_run_through_the_router_and_paid_once(server: Server, client: WorkflowClient) -> None:
    """The key in extra_data pays; the same workflow costs nothing the second time, as its result is cached."""
    graph = {
        "1": node("PartnerLocalProceduralImage1", **_PROMPT, seed=5),
        "2": node("SaveImage", images=["1", 0], filename_prefix="made"),
    }
    extra = {"api_key_service_org": client.key}
    (file,) = client.files_of(client.run(graph, extra_data=extra))
    with PIL.Image.open(io.BytesIO(client.download(file))) as made:
        assert made.size == (64, 64)
    kinds = [row["kind"] for row in server.ledger(client.workspace)]
    assert kinds == ["hold", "post"]
    client.files_of(client.run(graph, extra_data=extra))
    assert [row["kind"] for row in server.ledger(client.workspace)] == kinds


@pytest.mark.req("C-11", "M-07")
def test_labels_of_a_job_are_those_of_its_runs(server: Server, client: WorkflowClient) -> None:
    """Whichever API it was submitted to; labels that break a rule are refused before there is a job."""
    image = node("PartnerLocalProceduralImage1", **_PROMPT, seed=15)
    graph = {"1": image, "2": node("PreviewImage", images=["1", 0])}
    headers = {"X-API-Key": client.key, "X-Fairlead-Labels": "client=acme"}
    url, body = f"{server.url}/api/prompt", {"prompt": graph}
    answer = httpx.post(url, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert client.wait_for_end(answer.json()["prompt_id"])["status"] == "completed"
    assert httpx.post(url, json=body, headers={**headers, "X-Fairlead-Labels": "client"}).status_code == 400
    image["inputs"]["seed"] = 16
    job = {"workflow": graph, "metadata": {"client": "acme"}, "extra_data": {"api_key_service_org": client.key}}
    answer = httpx.post(f"{server.url}/api/v2/jobs", json=job, headers={"X-API-Key": client.key})
    assert answer.status_code < 300, answer.text
    assert client.wait_for_end(answer.json()["id"])["status"] == "completed"
    used = httpx.get(f"{server.url}/v2/usage?label=client=acme", headers=headers).json()["data"]
    assert sum(row["runs"] for row in used) == 2


@pytest.mark.req("C-11", "K-07")
@pytest.mark.parametrize("credential", ["key", "token"])
def test_credential_of_the_call_pays_where_no_key_is_named(
    server: Server, client: WorkflowClient, credential: str
) -> None:
    """Editors know no other key, so the credential of the call pays; for a token its workspace pays."""
    seed = 8 if credential == "key" else 9
    graph = {
        "1": node("PartnerLocalProceduralImage1", **_PROMPT, seed=seed),
        "2": node("PreviewImage", images=["1", 0]),
    }
    headers = {"Authorization": f"Bearer {client.key if credential == 'key' else _token(client.workspace)}"}
    answer = httpx.post(f"{server.url}/api/prompt", json={"prompt": graph}, headers=headers)
    assert answer.status_code == 200, answer.text
    assert client.wait_for_end(answer.json()["prompt_id"])["status"] == "completed"
    assert [row["kind"] for row in server.ledger(client.workspace)] == ["hold", "post"]


def _token(workspace: str, **claims: Any) -> str:
    payload = {"sub": "editor", "workspace": workspace, "exp": int(time.time()) + 600, "iss": JWT_ISSUER}
    return jwt.encode({**payload, "aud": JWT_AUDIENCE, **claims}, JWT_SECRET, "HS256")


@pytest.mark.req("C-11", "C-14")
def test_partner_nodes_want_a_credential_that_pays(server: Server, client: WorkflowClient) -> None:
    """A token that is limited to some models is 400, a wrong key 401, an empty workspace 402; nothing was begun."""
    graph = {
        "1": node("PartnerLocalProceduralImage1", **_PROMPT, seed=6),
        "2": node("PreviewImage", images=["1", 0]),
    }
    poor = server.new_workspace("poor", "--billing", "prepaid")
    keys = ("flk_wrong", poor)
    statuses = [client.post(graph, extra_data={"api_key_service_org": key}).status_code for key in keys]
    credentials = (_token(client.workspace, models=["local/*"]), poor)
    statuses += [
        httpx.post(
            f"{server.url}/api/prompt", json={"prompt": graph}, headers={"Authorization": f"Bearer {one}"}
        ).status_code
        for one in credentials
    ]
    assert statuses == [401, 402, 400, 402]
    assert client.http.get("/api/jobs").json()["jobs"] == []


@pytest.mark.req("C-12")
def test_credits_that_run_out_on_the_way_are_an_error_of_their_own(server: Server, client: WorkflowClient) -> None:
    """The balance was not empty at the submission, and does not reach for the run."""
    poor = server.new_workspace("nearly-poor", "--billing", "prepaid", credit="0.00001")
    graph = {
        "1": node("PartnerLocalProceduralImage1", **_PROMPT, seed=7),
        "2": node("PreviewImage", images=["1", 0]),
    }
    failure = _failure(client, graph, extra_data={"api_key_service_org": poor})
    assert failure["exception_type"] == "InsufficientFundsError"
