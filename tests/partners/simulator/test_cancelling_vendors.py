"""The vendors that cancel work: while they do, what they say afterwards, and what a late DELETE does."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

_BEARER = {"authorization": "Bearer simulated"}


@dataclass(frozen=True)
class Stoppable:
    """How a vendor's work is begun, cancelled and looked at, as its documentation says.

    `id` and `status` are keys, outermost first; `cancelled` is what the status says of cancelled work, or None where
    it is not found any more; `stops_running` whether work that has begun can be cancelled.
    """

    submit: str
    body: dict[str, Any]
    id: tuple[str, ...]
    poll: str
    cancel: tuple[str, str]
    status: tuple[str, ...]
    cancelled: str | None
    stops_running: bool
    headers: tuple[tuple[str, str], ...] = tuple(_BEARER.items())


_VENDORS = {
    "byteplus": Stoppable(
        "/api/v3/contents/generations/tasks",
        {"model": "seedance-1-0-pro-250528", "content": [{"type": "text", "text": "a lighthouse"}]},
        ("id",),
        "/api/v3/contents/generations/tasks/{}",
        ("DELETE", "/api/v3/contents/generations/tasks/{}"),
        ("status",),
        "cancelled",
        stops_running=False,
    ),
    "fal": Stoppable(
        "/fal-ai/flux-2-pro",
        {"prompt": "a lighthouse"},
        ("request_id",),
        "/fal-ai/flux-2-pro/requests/{}/status",
        ("PUT", "/fal-ai/flux-2-pro/requests/{}/cancel"),
        ("error_type",),
        "client_cancelled",
        stops_running=True,
        headers=(("authorization", "Key simulated"),),
    ),
    "higgsfield": Stoppable(
        "/kling-video/v3.0/pro/text-to-video",
        {"prompt": "a lighthouse"},
        ("request_id",),
        "/requests/{}/status",
        ("POST", "/requests/{}/cancel"),
        ("status",),
        "canceled",
        stops_running=False,
        headers=(("authorization", "Key simulated:secret"),),
    ),
    "krea": Stoppable(
        "/generate/image/krea/krea-2/medium",
        {"prompt": "a lighthouse", "aspect_ratio": "1:1", "resolution": "1K"},
        ("job_id",),
        "/jobs/{}",
        ("DELETE", "/jobs/{}"),
        ("status",),
        "cancelled",
        stops_running=True,
    ),
    "meshy": Stoppable(
        "/openapi/v2/text-to-3d",
        {"mode": "preview", "prompt": "a lighthouse"},
        ("result",),
        "/openapi/v2/text-to-3d/{}",
        ("DELETE", "/openapi/v2/text-to-3d/{}"),
        ("status",),
        None,
        stops_running=False,
    ),
    "minimax": Stoppable(
        "/v2/video_generation",
        {
            "model": "MiniMax-H3",
            "content": [{"type": "text", "text": "a lighthouse"}],
            "duration": 5,
            "resolution": "768P",
        },
        ("task_id",),
        "/v2/query/video_generation/{}",
        ("DELETE", "/v2/video_generation/{}"),
        ("task", "status"),
        "cancelled",
        stops_running=False,
    ),
    "runway": Stoppable(
        "/v1/text_to_image",
        {"model": "gen4_image", "promptText": "a lighthouse", "ratio": "1024:1024"},
        ("id",),
        "/v1/tasks/{}",
        ("DELETE", "/v1/tasks/{}"),
        ("status",),
        "CANCELLED",
        stops_running=True,
        headers=(*_BEARER.items(), ("x-runway-version", "2024-11-06")),
    ),
    "wan": Stoppable(
        "/api/v1/services/aigc/video-generation/video-synthesis",
        {"model": "wan2.5-t2v-preview", "input": {"prompt": "a lighthouse"}},
        ("output", "task_id"),
        "/api/v1/tasks/{}",
        ("POST", "/api/v1/tasks/{}/cancel"),
        ("output", "task_status"),
        "CANCELED",
        stops_running=False,
        headers=(*_BEARER.items(), ("x-dashscope-async", "enable")),
    ),
}
every_vendor = pytest.mark.parametrize("name", sorted(_VENDORS))


@dataclass(frozen=True)
class Work:
    """A piece of work at a simulator."""

    simulator: Any
    name: str
    vendor: Stoppable
    id: str

    def cancel(self) -> int:
        """Cancel it, and return the HTTP status."""
        method, path = self.vendor.cancel
        status: int = self._ask(method, path).status_code
        return status

    def look(self) -> Any:
        """Return what its status says, or None where it is not found."""
        answer = self._ask("GET", self.vendor.poll)
        return None if answer.status_code == 404 else _at(answer.json(), self.vendor.status)

    def _ask(self, method: str, path: str) -> Any:
        address = f"/{self.name}{path.format(self.id)}"
        return self.simulator.client.request(method, address, headers=dict(self.vendor.headers))


def _at(document: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        document = document.get(key)
    return document


def _begin(simulator: Any, name: str, fault: str = "") -> Work:
    vendor = _VENDORS[name]
    body = {**vendor.body, "note": f"[[fault:{fault}]]"} if fault else vendor.body
    answer = simulator.client.post(f"/{name}{vendor.submit}", json=body, headers=dict(vendor.headers))
    assert answer.status_code // 100 == 2, answer.text
    return Work(simulator, name, vendor, _at(answer.json(), vendor.id))


@pytest.fixture(scope="module")
def patient(start_simulator: Any) -> Iterator[Any]:
    """Return a simulator whose work stays queued."""
    with start_simulator("--task-seconds", "600") as started:
        yield started


@pytest.fixture(scope="module")
def busy(start_simulator: Any) -> Iterator[Any]:
    """Return a simulator whose work takes no time, or forever where it is stuck."""
    with start_simulator("--task-seconds", "0") as started:
        yield started


@every_vendor
def test_queued_work_can_be_cancelled(patient: Any, name: str) -> None:
    """Every one of them cancels what is queued, and says so ever after."""
    work = _begin(patient, name)
    assert work.cancel() // 100 == 2
    assert work.look() == work.vendor.cancelled
    assert work.look() == work.vendor.cancelled


@every_vendor
def test_running_work_is_cancelled_or_refused(busy: Any, name: str) -> None:
    """Some cancel what has begun; the others refuse, and the work goes on."""
    work = _begin(busy, name, "stuck")
    before = work.look()
    status = work.cancel()
    if work.vendor.stops_running:
        assert status // 100 == 2
        assert work.look() == work.vendor.cancelled
    else:
        assert 400 <= status < 500
        assert work.look() == before


@every_vendor
def test_ended_work_is_not_cancelled(busy: Any, name: str) -> None:
    """Too late is too late: a DELETE that agrees has deleted the work, and everything else leaves it."""
    work = _begin(busy, name)
    before = work.look()
    status = work.cancel()
    if status // 100 == 2:
        assert work.vendor.cancel[0] == "DELETE"
        assert work.look() is None
        assert work.cancel() == 404
    else:
        assert work.look() == before
