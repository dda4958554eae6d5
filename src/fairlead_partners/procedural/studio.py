"""From a checked request to the bytes of an answer: everything here runs in a generating thread.

The generators are imported inside the functions on purpose: numpy, Pillow and OpenCV cost sixty megabytes
and a quarter of a second, which a partner that is never called should not pay.
"""

import base64
import time
from collections.abc import Callable
from pathlib import Path

from .requests import AudioRequest, ImageRequest, TaskRequest, TextRequest, UpscaleRequest
from .tasks import Made
from .wire import Answer, json_answer


def image_answer(request: ImageRequest, seed: int, id_: str) -> Answer:
    """Paint or edit a picture; Problem 422 when the input picture cannot be used."""
    from . import edit, image  # noqa: PLC0415 -- heavy: imported by the first generation that needs it

    if request.image is None:
        width = 512 if request.width is None else request.width
        height = 512 if request.height is None else request.height
        png = image.paint(request.prompt, seed, width, height)
    else:
        png, width, height = edit.edit(request, request.image, seed)
    picture = {
        "b64_json": base64.b64encode(png).decode("ascii"),
        "mime_type": "image/png",
        "width": width,
        "height": height,
    }
    usage = {"images": 1, "megapixels": round(width * height / 1e6, 6)}
    return json_answer(200, {"id": id_, "created": int(time.time()), "seed": seed, "data": [picture], "usage": usage})


def audio_answer(request: AudioRequest, seed: int) -> Answer:
    """Compose a piece of music as a WAV file."""
    from . import audio  # noqa: PLC0415 -- heavy: imported by the first generation that needs it

    wav, seconds = audio.compose(request.prompt, seed, request.duration_seconds, request.sample_rate)
    headers = (
        ("content-type", "audio/wav"),
        ("x-seed", str(seed)),
        ("x-usage-seconds", f"{seconds:.6f}".rstrip("0").rstrip(".")),
    )
    return Answer(200, wav, headers)


def text_answer(request: TextRequest, seed: int, id_: str) -> Answer:
    """Write a piece of prose."""
    from . import text  # noqa: PLC0415 -- heavy: imported by the first generation that needs it

    written = text.write(request.prompt, seed, request.max_characters)
    return json_answer(
        200,
        {
            "id": id_,
            "created": int(time.time()),
            "seed": seed,
            "text": written,
            "usage": {"characters": len(written)},
        },
    )


def check_upscale(request: UpscaleRequest) -> None:
    """Look at what is to be enlarged; Problem 501 when the network is not installed, 422 when it cannot be used."""
    from . import upscale  # noqa: PLC0415 -- heavy: imported by the first generation that needs it

    upscale.check(request)


def render(request: TaskRequest, seed: int, path: Path, goes_on: Callable[[float], bool]) -> Made:
    """Make a clip or an enlargement at `path`, asking `goes_on` again and again whether to continue."""
    from . import upscale, video  # noqa: PLC0415 -- heavy: imported by the first generation that needs it

    if isinstance(request, UpscaleRequest):
        return upscale.enlarge(request, path, goes_on)
    return video.render(request, seed, path, goes_on)
