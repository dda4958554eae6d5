"""Whatever kind of value a field has, a vendor takes it or says what is wrong; the simulator itself never fails."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

GOOGLE = "/v1/projects/p/locations/l/publishers/google/models/"
TEXT = {"type": "text", "text": "x", "role": "first_frame"}
LINK = {"type": "image_url", "image_url": {"url": "x"}, "role": "first_frame"}
IMAGE_CONFIG = {"imageSize": "512", "aspectRatio": "1:1"}

BODIES: dict[str, dict[str, Any]] = {
    "/openai/v1/images/generations": {
        "model": "m", "prompt": "x", "n": 1, "size": "64x64", "quality": "low", "output_format": "png",
        "output_compression": 5,
    },
    "/openai/v1/images/edits": {"model": "m", "prompt": "x", "size": "64x64", "images": [{"image_url": "x"}]},
    "/openai/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": 1},
    "/openai/v1/responses": {"model": "m", "input": "x", "max_output_tokens": 16},
    "/anthropic/v1/messages": {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]},
    "/bfl/v1/flux-2-pro": {"prompt": "x", "width": 64, "height": 64, "seed": 1, "webhook_url": "x"},
    "/elevenlabs/v1/text-to-dialogue": {
        "inputs": [{"text": "x", "voice_id": "v"}], "settings": {"stability": 0.5}, "seed": 1,
    },
    "/elevenlabs/v1/sound-generation": {"text": "x", "duration_seconds": 1, "loop": True},
    "/byteplus/api/v3/images/generations": {
        "model": "m", "prompt": "x", "size": "64x64", "image": ["x"], "sequential_image_generation": "auto",
        "sequential_image_generation_options": {"max_images": 2},
    },
    "/byteplus/api/v3/contents/generations/tasks": {
        "model": "m", "content": [TEXT], "duration": 5, "ratio": "16:9", "seed": 1, "callback_url": "x",
    },
    "/byteplus-voice/api/v3/tts/create": {
        "model": "seed-audio-1.0", "text_prompt": "x", "audio_config": {"format": "mp3", "sample_rate": 24_000},
    },
    f"/veo{GOOGLE}m:predictLongRunning": {
        "instances": [{"prompt": "x", "image": {"gcsUri": "x", "mimeType": "image/png"}}],
        "parameters": {"sampleCount": 1, "durationSeconds": 8, "storageUri": "gs://x"},
    },
    f"/vertexai{GOOGLE}gemini-3-pro-image:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "x"}]}],
        "generationConfig": {"responseModalities": ["IMAGE"], "imageConfig": IMAGE_CONFIG},
    },
    f"/vertexai{GOOGLE}imagen:predict": {
        "instances": [{"prompt": "x"}], "parameters": {"sampleCount": 1, "outputOptions": {"mimeType": "image/png"}},
    },
    "/kling/v1/videos/text2video": {
        "prompt": "x", "mode": "pro", "duration": "5", "cfg_scale": 0.5, "multi_shot": True, "multi_prompt": [{}],
    },
    "/kling/v1/images/generations": {"prompt": "x", "n": 2, "aspect_ratio": "1:1"},
    "/luma/dream-machine/v1/generations": {"model": "ray-2", "prompt": "xxxx", "keyframes": {"frame0": {}}},
    "/luma_2/v1/generations": {"prompt": "x", "type": "image_edit", "source": LINK["image_url"], "image_ref": []},
    "/runway/v1/image_to_video": {
        "model": "m", "promptImage": [{"uri": "x", "position": "first"}], "ratio": "1280:720", "duration": 5, "seed": 1,
    },
    "/runway/v1/text_to_image": {"model": "m", "promptText": "x", "ratio": "1024:1024", "referenceImages": []},
    "/minimax/v1/video_generation": {"model": "m", "prompt": "x", "duration": 6, "first_frame_image": "x"},
    "/minimax/v2/video_generation": {"model": "m", "content": [TEXT, LINK], "duration": 5, "resolution": "768P"},
    "/fal/fal-ai/flux-2-pro": {"prompt": "x", "image_size": {"width": 64, "height": 64}, "num_images": 1},
}  # fmt: skip

ODD: list[Any] = [None, -1, 2.0, 2.5, 1e30, True, "", "x", [], [[]], {}, [{}]]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Walk every place of a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        yield from places(part, (*path, name))


def replace(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy with another value in one place."""
    if not path:
        return value
    copy = json.loads(json.dumps(body))
    place = copy
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return copy


def status_addresses(path: str, answer: Any) -> list[str]:
    """Say where to ask after what was submitted."""
    id_ = answer["data"]["task_id"] if path.startswith("/kling/") else answer.get("id") or answer.get("task_id")
    found = [answer[name] for name in ("polling_url", "status_url", "response_url") if name in answer]
    if path.startswith(("/byteplus/api/v3/contents/", "/kling/", "/luma_2/", "/luma/")):
        found.append(f"{path}/{id_}")
    elif path.startswith("/runway/"):
        found.append(f"/runway/v1/tasks/{id_}")
    elif path.startswith("/minimax/v1/"):
        found.append(f"/minimax/v1/query/video_generation?task_id={id_}")
    elif path.startswith("/minimax/v2/"):
        found.append(f"/minimax/v2/query/video_generation/{id_}")
    return found


@pytest.fixture(scope="module")
def instant(start_simulator: Any) -> Iterator[Any]:
    """Return a simulator whose tasks take no time."""
    with start_simulator("--task-seconds", "0") as own:
        yield own


@pytest.mark.parametrize("path", BODIES)
def test_odd_fields_never_break_the_simulator(instant: Any, path: str) -> None:
    """Each field in turn has each kind of value; neither the submission nor the poll is 5xx."""
    key = {"x-api-key": "simulated"} if path.startswith("/byteplus-voice/") else {}
    assert instant.post(path, BODIES[path], **key).status_code in {200, 201}
    for place in places(BODIES[path]):
        for value in ODD:
            body = replace(BODIES[path], place, value)
            answer = instant.post(path, body, **key)
            assert answer.status_code < 500, (body, answer.text)
            if answer.status_code < 300 and answer.headers["content-type"] == "application/json":
                for address in status_addresses(path, answer.json()):
                    assert instant.get(address).status_code < 500, body
