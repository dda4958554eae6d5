"""The vendor as a real process on a free port, once for the whole folder."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

SOURCE = Path(__file__).parents[2] / "src"
MODULE = "fairlead_partners.procedural"


class Vendor:
    """A running vendor and a client that talks to it."""

    def __init__(self, process: "subprocess.Popen[str]", token: str | None = None) -> None:
        """Wait for the line that says where the process listens."""
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on http://"), line
        self.process = process
        self.url = line.removeprefix("listening on ").strip()
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=30)

    def post(self, path: str, body: dict[str, Any], key: str | None = None) -> httpx.Response:
        """Send a JSON body, with an idempotency key if given."""
        return self.client.post(path, json=body, headers={} if key is None else {"idempotency-key": key})

    def finished_video(self, id_: str) -> dict[str, Any]:
        """Poll a video until it ended."""
        for _ in range(600):
            task: dict[str, Any] = self.client.get(f"/v1/videos/{id_}").json()
            if task["status"] not in ("queued", "running"):
                return task
            time.sleep(0.05)
        raise AssertionError(task)


@contextmanager
def running(
    *arguments: str, token: str | None = None, temporary: Path | None = None, **options: Any
) -> Iterator[Vendor]:
    """Start a vendor and end it afterwards, whatever happened."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    environment.pop("PROCEDURAL_TOKEN", None)
    if token is not None:
        environment["PROCEDURAL_TOKEN"] = token
    if temporary is not None:
        environment["TMPDIR"] = str(temporary)
    command = [sys.executable, "-m", MODULE, *arguments]
    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stdin=subprocess.PIPE, **options
    ) as process:
        vendor = None
        try:
            vendor = Vendor(process, token)
            yield vendor
        finally:
            if vendor is not None:
                vendor.client.close()
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="session")
def vendor() -> Iterator[Vendor]:
    """Return the vendor that most tests share."""
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def start() -> Any:
    """Return a function that starts a vendor of one's own."""
    return running


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Return a listening socket for a vendor to inherit."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        yield bound
