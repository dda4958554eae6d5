"""The pictures of the simulator: what was asked for, drawn by procedure, and marked as simulated."""

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest
from PIL import Image

from fairlead_partners.simulator import media, prompts


def _picture(asked: bytes | Mapping[str, Any], kind: str = "png", width: int = 96, height: int = 64) -> Image.Image:
    token = prompts.asked.set(asked)
    try:
        return Image.open(io.BytesIO(media.picture(kind, width, height, seed=8).content)).convert("RGB")
    finally:
        prompts.asked.reset(token)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"prompt": " a red fox ", "negative_prompt": "a cat"}).encode(),
        json.dumps([{"taskType": "imageInference", "positivePrompt": "a red fox"}]).encode(),
        json.dumps({"input": {"messages": [{"role": "user", "content": [{"text": "a red fox"}]}]}}).encode(),
        json.dumps({"contents": [{"parts": [{"text": "a red fox"}]}]}).encode(),
        b'--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na red fox\r\n--x--\r\n',
        {"model": "m", "promptText": "a red fox"},
    ],
)
def test_prompt_is_found_wherever_a_vendor_has_it(body: bytes | Mapping[str, Any]) -> None:
    """The prompt is found in JSON at any depth, in forms, and in the stored request of a task."""
    token = prompts.asked.set(body)
    try:
        assert prompts.prompt() == "a red fox"
    finally:
        prompts.asked.reset(token)


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[" * 5000, b'{"width": 3}', {"n": 1}])
def test_body_without_words_has_no_prompt(body: bytes | Mapping[str, Any]) -> None:
    """A picture is drawn all the same."""
    assert len(_picture(body).getcolors(96 * 64) or []) > 4
    token = prompts.asked.set(body)
    assert prompts.prompt() == ""
    prompts.asked.reset(token)


def test_pictures_show_what_was_asked_for() -> None:
    """Another prompt is another picture, the same is the same; none is black, whatever its seed."""
    harbour, forest = ({"prompt": words} for words in ("dawn over a harbour", "a dark forest"))
    assert _picture(harbour).tobytes() == _picture(harbour).tobytes() != _picture(forest).tobytes()
    assert len(_picture(harbour).getcolors(96 * 64) or []) > 4


def test_mark_is_on_pictures_that_have_room_for_it() -> None:
    """White letters with a black rim, at the bottom; the smallest pictures have their size and no more."""
    found = _picture({"prompt": "a forest"}, "png", 512, 384).getcolors(512 * 384) or []
    colours: dict[Any, int] = {colour: count for count, colour in found}
    assert colours[255, 255, 255] > 100
    assert colours[0, 0, 0] > 100
    for kind in ("png", "jpeg", "webp"):
        assert _picture({"prompt": "a forest"}, kind, 1, 1).size == (1, 1)
        assert _picture({"prompt": "a forest"}, kind, 4096, 16).size == (2048, 8)
