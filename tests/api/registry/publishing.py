"""Callers of the registry, and what they publish."""

from dataclasses import dataclass
from typing import Any, Final

import httpx

from servers import Server

DOWNLOAD: Final = "https://example.com/releases/blur.zip"


@dataclass(frozen=True)
class Publishing:
    """A caller in a workspace of its own, with the publisher it has made; the client sends nothing by itself."""

    server: Server
    client: httpx.Client
    workspace: str
    credential: str
    publisher: str

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Ask for something with the caller's credential as a bearer token, and with nothing else."""
        headers = {"Authorization": f"Bearer {self.credential}", **more.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **more)

    def read(self, path: str, **query: Any) -> Any:
        """Read something as anybody may, without a credential, and return its JSON."""
        response = self.client.get(path, params=query)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-service-request-id"]
        return response.json()

    def next_cursor(self, path: str) -> str:
        """Read the cursor after the first entry of a list."""
        link = self.client.get(path, params={"limit": 1}).links["next"]["url"]
        return httpx.URL(link).params["cursor"]

    def make_node(self, name: str, **said: Any) -> str:
        """Make a node that nobody else has, and return its id."""
        id_ = f"{self.publisher}-{name}"
        document = {"id": id_, "name": name.title(), **said}
        assert self.ask("POST", f"/publishers/{self.publisher}/nodes", json=document).status_code == 201
        return id_

    def publish(self, node_id: str, number: str, **said: Any) -> httpx.Response:
        """Publish a version of a node."""
        document = {"version": number, "download_url": DOWNLOAD, **said}
        return self.ask("POST", f"/publishers/{self.publisher}/nodes/{node_id}/versions", json=document)


def refusal_of(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the name of a refusal, whose envelope must be whole (G-02)."""
    body = response.json()
    assert set(body) == {"error", "message"}, body
    assert body["message"].endswith(".")
    assert isinstance(body["error"], str)
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-service-request-id"]
    return response.status_code, body["error"]
