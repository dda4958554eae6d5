"""Pictures from words and edits of pictures."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

SMALL = {"prompt": "sunset over dunes", "width": 64, "height": 64}


def pixels(answer: Any) -> np.ndarray[Any, Any]:
    """Decode the picture in an answer."""
    data = base64.b64decode(answer.json()["data"][0]["b64_json"])
    return np.asarray(Image.open(io.BytesIO(data)), dtype=np.float64)


def data_uri(side: tuple[int, int], format_: str = "PNG") -> str:
    """Return a picture with obvious structure: a bright square on a dark slope."""
    picture = np.tile(np.linspace(0, 90, side[0], dtype=np.uint8)[None, :, None], (side[1], 1, 3))
    picture[side[1] // 4 : side[1] // 2, side[0] // 4 : side[0] // 2] = 230
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format_)
    return f"data:image/{format_.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def likeness(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    """Return the correlation of two pictures' light."""
    return float(np.corrcoef(one.mean(axis=2).ravel(), other.mean(axis=2).ravel())[0, 1])


def test_picture_has_the_size_and_usage_asked_for(vendor: Any) -> None:
    """The answer carries a PNG of the asked size and exact megapixels."""
    answer = vendor.post("/v1/images", {"prompt": "nebula", "width": 96, "height": 65, "seed": 5})
    body = answer.json()
    assert answer.status_code == 200
    assert pixels(answer).shape == (65, 96, 3)
    assert body["seed"] == 5
    assert body["usage"] == {"images": 1, "megapixels": 0.00624}
    assert body["data"][0]["mime_type"] == "image/png"


def test_same_seed_gives_the_same_picture_and_another_seed_another(vendor: Any) -> None:
    """A picture depends on prompt, size and seed alone."""
    first, again = (vendor.post("/v1/images", {**SMALL, "seed": 7}).json() for _ in range(2))
    other = vendor.post("/v1/images", {**SMALL, "seed": 8}).json()
    assert first["data"] == again["data"] != other["data"]
    assert first["id"] != again["id"]


def test_missing_seed_is_chosen_and_reported(vendor: Any) -> None:
    """The reported seed makes the same picture again."""
    first = vendor.post("/v1/images", SMALL).json()
    again = vendor.post("/v1/images", {**SMALL, "seed": first["seed"]}).json()
    assert first["data"] == again["data"]


def test_every_family_of_pictures_can_be_painted_at_odd_sizes(vendor: Any) -> None:
    """No composition depends on a friendly size."""
    for word in ("mountain", "lake", "aurora", "galaxy", "marble", "silk", "tiles"):
        body = {"prompt": word, "width": 201, "height": 64, "seed": 3}
        assert pixels(vendor.post("/v1/images", body)).std() > 3


def test_edit_keeps_the_dimensions_and_resembles_its_input(vendor: Any) -> None:
    """An edit is nearer to its input than a new picture of the same prompt is."""
    body = {"prompt": "at night", "seed": 1}
    edited = pixels(vendor.post("/v1/images", {**body, "image": data_uri((120, 90))}))
    painted = pixels(vendor.post("/v1/images", {**body, "width": 120, "height": 90}))
    original = pixels_of_uri(data_uri((120, 90)))
    assert edited.shape == (90, 120, 3)
    assert likeness(edited, original) > 0.9 > likeness(painted, original)


def pixels_of_uri(uri: str) -> np.ndarray[Any, Any]:
    """Decode the picture in a data URI."""
    data = base64.b64decode(uri.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)), dtype=np.float64)


def test_prompt_words_steer_the_edit(vendor: Any) -> None:
    """Each named change gives its own picture, and monochrome really has no colour."""
    prompts = ("pencil sketch", "dreamy blur", "black and white", "pixel art", "sunset", "something else")
    body = {"image": data_uri((96, 96)), "seed": 1, "strength": 1}
    results = [pixels(vendor.post("/v1/images", {**body, "prompt": prompt})) for prompt in prompts]
    assert len({result.tobytes() for result in results}) == len(prompts)
    assert np.ptp(results[2], axis=2).max() == 0


def test_strength_zero_returns_the_input_and_one_side_keeps_the_shape(vendor: Any) -> None:
    """Strength mixes the edit in; a single given side scales the other."""
    uri = data_uri((96, 64))
    same = vendor.post("/v1/images", {"prompt": "fire", "image": uri, "strength": 0})
    assert np.array_equal(pixels(same), pixels_of_uri(uri))
    smaller = vendor.post("/v1/images", {"prompt": "fire", "image": uri, "width": 192})
    assert pixels(smaller).shape == (128, 192, 3)


def test_jpeg_and_webp_inputs_are_read_and_large_ones_scaled_down(vendor: Any) -> None:
    """All three formats work, and an answer never exceeds 2048 pixels on a side."""
    for format_ in ("JPEG", "WEBP"):
        body = {"prompt": "gold", "image": data_uri((80, 70), format_)}
        assert pixels(vendor.post("/v1/images", body)).shape == (70, 80, 3)
    wide = vendor.post("/v1/images", {"prompt": "gold", "image": data_uri((4096, 40))})
    assert pixels(wide).shape == (20, 2048, 3)


def test_input_that_is_no_safe_picture_is_refused(vendor: Any) -> None:
    """Too many pixels, a wrong kind, bad base64, noise and a truncated file all name the field."""
    good = data_uri((64, 64))
    bad = (
        data_uri((4097, 2)),
        "https://example.com/a.png",
        "data:image/gif;base64,R0lGODlhAQABAAAAACw=",
        "data:image/png;base64,????",
        "data:image/png;base64,AAAA",
        good[: len(good) // 2 // 4 * 4 + 2],
        good.replace("image/png", "image/jpeg"),
    )
    for uri in bad:
        answer = vendor.post("/v1/images", {"prompt": "x", "image": uri})
        assert answer.status_code == 422, uri[:60]
        assert answer.json()["error"]["param"] == "image"
