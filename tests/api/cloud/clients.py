"""Callers of the cloud API, and the workflows they submit."""

from dataclasses import dataclass
from typing import Any, Final

import httpx

from servers import Server, wait_until

ENDED: Final = frozenset({"completed", "failed", "cancelled"})


def picture(colour: int = 255, prefix: str = "made") -> dict[str, Any]:
    """Return a workflow of two nodes that saves a picture."""
    made = {"width": 16, "height": 16, "batch_size": 1, "color": colour}
    return {
        "1": {"class_type": "EmptyImage", "inputs": made},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": prefix}},
    }


def holding(number: int = 0) -> dict[str, Any]:
    """Return a workflow that is executed until it is stopped."""
    return {"1": {"class_type": "HoldOn", "inputs": {"number": number}}}


def failing(words: str) -> dict[str, Any]:
    """Return a workflow that fails."""
    return {"1": {"class_type": "FallOver", "inputs": {"words": words}}}


@dataclass(frozen=True)
class Client:
    """A caller in a workspace of its own."""

    server: Server
    workspace: str
    key: str

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Ask for something with the caller's key."""
        headers = {"X-API-Key": self.key, **more.pop("headers", {})}
        return self.server.client.request(method, path, headers=headers, **more)

    def get(self, path: str, **more: Any) -> Any:
        """Return the JSON of an answer that must be 200."""
        return json_of(self.ask("GET", path, **more))

    def post(self, path: str, document: Any = None, **more: Any) -> Any:
        """Send JSON, and return that of an answer that must be 200."""
        return json_of(self.ask("POST", path, json=document, **more))

    def submit(self, workflow: Any, **more: Any) -> str:
        """Submit a workflow, and return the id of its job."""
        job_id: str = self.post("/api/prompt", {"prompt": workflow, **more})["prompt_id"]
        return job_id

    def status(self, job_id: str) -> str:
        """Return how a job stands."""
        status: str = self.get(f"/api/job/{job_id}/status")["status"]
        return status

    def reaches(self, job_id: str, *statuses: str) -> str:
        """Wait until a job has one of some statuses, and return it."""
        return wait_until(lambda: (found := self.status(job_id)) in statuses and found, f"a job to be {statuses}") or ""

    def runs(self, workflow: Any, **more: Any) -> str:
        """Submit a workflow, wait for its job's end, and return its id."""
        job_id = self.submit(workflow, **more)
        self.reaches(job_id, *ENDED)
        return job_id

    def stops(self) -> None:
        """Give up everything that waits or is executed, and wait until it has ended."""
        self.post("/api/queue", {"clear": True})
        self.post("/api/interrupt")
        wait_until(lambda: self.get("/api/prompt")["exec_info"]["queue_remaining"] == 0, "no job is left")


def json_of(response: httpx.Response) -> Any:
    """Return the JSON of an answer that must be 200."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


def refusal_of(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the type of a refusal, whose envelope must be whole."""
    body = response.json()
    assert set(body["error"]) == {"type", "message", "details", "extra_info"}
    assert body["error"]["message"]
    assert isinstance(body["node_errors"], dict)
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-service-request-id"]
    return response.status_code, body["error"]["type"]
