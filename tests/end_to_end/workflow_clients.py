"""A client of the cloud workflow API, written from the specification."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import httpx
import PIL.Image
from websockets.sync.client import ClientConnection, connect

from servers import PLAIN, Server, wait_until

Graph = dict[str, dict[str, Any]]
ENDED: Final = ("completed", "failed", "cancelled")
_PATIENCE: Final = 60.0


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    """Return a node of a graph."""
    return {"class_type": class_type, "inputs": inputs}


def graph_showing(class_type: str, **inputs: Any) -> Graph:
    """Return a graph of one node whose result is shown."""
    return {"1": node(class_type, **inputs), "2": node("PreviewAny", source=["1", 0])}


def picture(width: int = 40, height: int = 30, colour: str = "#804020") -> bytes:
    """Return a picture of one colour as PNG."""
    content = io.BytesIO()
    PIL.Image.new("RGB", (width, height), colour).save(content, "PNG")
    return content.getvalue()


class WorkflowClient:
    """Speaks to a server with one key."""

    def __init__(self, server: Server, key: str | None = None, workspace: str = "default") -> None:
        """Take the server's first key where no other is given."""
        self.workspace = workspace
        self.url = server.url
        self.key = key or server.key
        self.http = httpx.Client(base_url=server.url, headers={"X-API-Key": self.key}, timeout=_PATIENCE, verify=PLAIN)

    def upload(self, content: bytes, name: str = "photo.png") -> str:
        """Upload a picture; the name to use in workflows."""
        answer = self.http.post("/api/upload/image", files={"image": (name, content)}, data={"type": "input"})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["name"])

    def post(self, graph: Any, **more: Any) -> httpx.Response:
        """Submit a workflow; the answer, whatever it is."""
        return self.http.post("/api/prompt", json={"prompt": graph, **more})

    def submit(self, graph: Any, **more: Any) -> str:
        """Submit a workflow that must be taken; its id."""
        answer = self.post(graph, **more)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["prompt_id"])

    def status(self, job_id: str) -> str:
        """The job's status."""
        answer = self.http.get(f"/api/job/{job_id}/status")
        assert answer.status_code == 200, answer.text
        return str(answer.json()["status"])

    def wait_for_end(self, job_id: str) -> dict[str, Any]:
        """Wait for a job's end; the job with its outputs."""
        wait_until(lambda: self.status(job_id) in ENDED, f"the end of {job_id}", _PATIENCE)
        found: dict[str, Any] = self.http.get(f"/api/jobs/{job_id}").json()
        return found

    def run(self, graph: Any, **more: Any) -> dict[str, Any]:
        """Submit a workflow and wait for its end."""
        return self.wait_for_end(self.submit(graph, **more))

    def files_of(self, job: Mapping[str, Any], kind: str = "images") -> Sequence[dict[str, Any]]:
        """The files of a kind that a job has shown."""
        assert job["status"] == "completed", job
        return [item for output in job["outputs"].values() for item in output.get(kind, ())]

    def download(self, file: Mapping[str, Any]) -> bytes:
        """Follow the way the specification shows: a redirect, and a link that needs no key."""
        wanted = {name: file[name] for name in ("filename", "subfolder", "type")}
        answer = self.http.get("/api/view", params=wanted)
        assert answer.status_code == 302, answer.text
        content = httpx.get(answer.headers["location"])
        assert content.status_code == 200, content.text
        return content.content

    @contextmanager
    def watching(self) -> Iterator[ClientConnection]:
        """Watch everything of the workspace over a socket."""
        address = self.url.replace("http", "ws", 1)
        with connect(f"{address}/ws?clientId=test&token={self.key}", max_size=None) as socket:
            yield socket


def read_messages(
    socket: ClientConnection, job_id: str, last: Sequence[str] = ("execution_success",)
) -> list[dict[str, Any]]:
    """Read a job's messages up to and including its last."""
    messages: list[dict[str, Any]] = []
    while not messages or messages[-1]["type"] not in last:
        said = socket.recv(timeout=_PATIENCE)
        message: dict[str, Any] = json.loads(said) if isinstance(said, str) else {"type": "binary", "data": {}}
        if message["data"].get("prompt_id") == job_id:
            messages.append(message)
    return messages
