"""Callers of the jobs API, and how they read its answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from servers import Server, wait_until

TERMINAL: Final = frozenset({"succeeded", "canceled", "failed", "expired"})
NOBODY: Final = "0191d3a5-7c5e-7b7e-8f35-0c6f6a4b1c2d"


@dataclass(frozen=True)
class JobsCaller:
    """A caller in a workspace of its own."""

    server: Server
    workspace: str
    key: str

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Ask for something with the caller's key, as a bearer."""
        headers = {"Authorization": f"Bearer {self.key}", **more.pop("headers", {})}
        request = self.server.client.build_request(method, path, headers=headers, **more)
        del request.headers["X-API-Key"]
        return self.server.client.send(request)

    def get(self, path: str, **more: Any) -> Any:
        """Return the JSON of an answer that must be 200."""
        response = self.ask("GET", path, **more)
        assert response.status_code == 200, response.text
        return response.json()

    def submit(self, workflow: Any, **more: Any) -> dict[str, Any]:
        """Submit a workflow, and return its job."""
        response = self.ask("POST", "/api/v2/jobs", json={"workflow": workflow, **more})
        assert response.status_code == 201, response.text
        job: dict[str, Any] = response.json()
        return job

    def job(self, job_id: str) -> dict[str, Any]:
        """Return a job as it stands."""
        job: dict[str, Any] = self.get(f"/api/v2/jobs/{job_id}")
        return job

    def reaches(self, job_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until a job has one of some statuses, and return it."""
        return (
            wait_until(lambda: (found := self.job(job_id))["status"] in statuses and found, f"a job to be {statuses}")
            or {}
        )

    def runs(self, workflow: Any, **more: Any) -> dict[str, Any]:
        """Submit a workflow, and return its job when it has ended."""
        return self.reaches(self.submit(workflow, **more)["id"], *TERMINAL)

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Cancel a job, and return it."""
        response = self.ask("POST", f"/api/v2/jobs/{job_id}/cancel")
        assert response.status_code == 200, response.text
        job: dict[str, Any] = response.json()
        return job

    def stops(self) -> None:
        """Cancel everything, and wait until it has ended."""
        live = [job for job in self.get("/api/v2/jobs")["jobs"] if job["status"] not in TERMINAL]
        for job in live:
            self.cancel(job["id"])
        for job in live:
            self.reaches(job["id"], *TERMINAL)

    @contextmanager
    def watches(self, job_id: str) -> Iterator["Stream"]:
        """Open the stream of a job."""
        headers = {"X-API-Key": self.key}
        with self.server.client.stream("GET", f"/api/v2/jobs/{job_id}/events", headers=headers) as response:
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            yield Stream(response.iter_lines())


class Stream:
    """Server-sent events, read one by one."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def next(self) -> tuple[str, Any] | None:
        """Return the next event and its data; None when the stream is over."""
        name = ""
        for line in self._lines:
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))
        return None

    def until(self, name: str, **values: Any) -> list[tuple[str, Any]]:
        """Return the events up to one of a name that has some values, with it."""
        seen = []
        while (found := self.next()) is not None:
            seen.append(found)
            if found[0] == name and values.items() <= found[1].items():
                return seen
        raise AssertionError(f"no {name} with {values} in {seen}")

    def rest(self) -> list[tuple[str, Any]]:
        """Return all events up to the end."""
        return list(iter(self.next, None))


def refusal_of(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of a refusal, whose envelope must be whole."""
    body = response.json()
    assert set(body) == {"error"}
    code = body["error"]["code"]
    more = {"organization_id"} if code == "sso_required" else {"details"}
    assert {"code", "message"} <= set(body["error"]) <= {"code", "message", *more}
    assert body["error"]["message"]
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-service-request-id"]
    assert ("retry-after" in response.headers) == (response.status_code == 429)
    return response.status_code, code
