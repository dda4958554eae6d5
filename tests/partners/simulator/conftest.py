"""The simulator as a real process on a free port, once for the whole folder."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

SOURCE = Path(__file__).parents[3] / "src"
MODULE = "fairlead_partners.simulator"
TASK_SECONDS = "0.15"
PATIENCE_SECONDS = 60.0

BEARER = {"authorization": "Bearer simulated"}
KEYS: Mapping[str, Mapping[str, str]] = {
    "anthropic": {"x-api-key": "simulated", "anthropic-version": "2023-06-01"},
    "bfl": {"x-key": "simulated"},
    "elevenlabs": {"xi-api-key": "simulated"},
    "fal": {"authorization": "Key simulated"},
    "runway": {**BEARER, "x-runway-version": "2024-11-06"},
}

TENCENT_SIGNED = f"SignedHeaders=content-type;host, Signature={'0' * 64}"


def kling_token(**changes: Any) -> str:
    """Sign the token Kling documents, with the simulator's key pair."""
    now = int(time.time())
    claims = {"iss": "simulated-access", "exp": now + 1800, "nbf": now - 5, **changes}
    return jwt.encode(claims, "simulated-secret-of-32-characters!!", "HS256")


def tencent_keys() -> Mapping[str, str]:
    """Return the headers of a signed call, with a signature of an account the simulator does not know."""
    signed = f"TC3-HMAC-SHA256 Credential=AKIDanybody/2026-11-23/hunyuan/tc3_request, {TENCENT_SIGNED}"
    return {"authorization": signed, "x-tc-timestamp": str(int(time.time())), "x-tc-version": "2023-09-01"}


class Simulator:
    """A running simulator and a client that talks to it with good keys."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Wait for the line that says where the process listens."""
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on http://"), line
        self.process = process
        self.url = line.removeprefix("listening on ").strip()
        self.client = httpx.Client(base_url=self.url, timeout=30)

    @staticmethod
    def kling_token(**changes: Any) -> str:
        """Sign a token for Kling, with claims of one's own."""
        return kling_token(**changes)

    def keys(self, provider: str) -> Mapping[str, str]:
        """Return the headers that let a caller in."""
        if provider == "kling":
            return {"authorization": f"Bearer {kling_token()}"}
        return tencent_keys() if provider == "tencent" else KEYS.get(provider, BEARER)

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send JSON to `/provider/...`."""
        return self.client.post(path, json=body, headers={**self.keys(path.split("/")[1]), **headers})

    def get(self, address: str) -> httpx.Response:
        """Fetch `/provider/...`, or an absolute address of the simulator."""
        path = address.removeprefix(self.url)
        return self.client.get(path, headers=dict(self.keys(path.split("/")[1])))

    def until(self, fetch: Callable[[], httpx.Response], done: Callable[[Any], bool]) -> tuple[Any, list[Any]]:
        """Poll until `done`; return the last document and all of them."""
        seen: list[Any] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            seen.append(fetch().json())
            if done(seen[-1]):
                return seen[-1], seen
            time.sleep(0.02)
        raise AssertionError(seen[-1])

    def order(self, provider: str, fault: str, **more: Any) -> None:
        """Order a fault for the next calls of a provider."""
        answer = self.client.post("/_simulator/faults", json={"provider": provider, "fault": fault, **more})
        assert answer.status_code == 201, answer.text


@contextmanager
def running(*arguments: str, **options: Any) -> Iterator[Simulator]:
    """Start a simulator and end it afterwards, whatever happened."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", MODULE, "--task-seconds", TASK_SECONDS, *arguments]
    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stdin=subprocess.PIPE, **options
    ) as process:
        simulator = None
        try:
            simulator = Simulator(process)
            yield simulator
        finally:
            if simulator is not None:
                simulator.client.close()
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="session")
def simulator() -> Iterator[Simulator]:
    """Return the simulator that most tests share."""
    with running() as started:
        yield started


@pytest.fixture
def own_simulator() -> Iterator[Simulator]:
    """Return a simulator of one's own, for tests that order faults or read the log."""
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def start_simulator() -> Any:
    """Return a function that starts a simulator of one's own."""
    return running
