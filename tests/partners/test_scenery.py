"""Pictures show what their prompts name: measured in regions of real pictures, and in what is read from words."""

import base64
import io
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from fairlead_partners.procedural.scenery.subject import Figure, read

SEEDS = (1, 2, 3)
Picture = np.ndarray[Any, Any]


def paint(vendor: Any, prompt: str, seed: int = 1, width: int = 192, height: int = 128) -> Picture:
    """Return a picture as colours from 0 to 1."""
    body = {"prompt": prompt, "seed": seed, "width": width, "height": height}
    data = base64.b64decode(vendor.post("/v1/images", body).json()["data"][0]["b64_json"])
    return np.asarray(Image.open(io.BytesIO(data)), dtype=np.float64) / 255


def sky(picture: Picture) -> Picture:
    """Return the upper third."""
    return picture[: picture.shape[0] // 3]


def ground(picture: Picture) -> Picture:
    """Return the lower third."""
    return picture[-picture.shape[0] // 3 :]


def colour(region: Picture) -> Picture:
    """Return the mean red, green and blue."""
    return np.asarray(region.mean(axis=(0, 1)))


@pytest.mark.parametrize("seed", SEEDS)
def test_sea_has_a_horizon_and_water_below_it(vendor: Any, seed: int) -> None:
    """The strongest level edge lies in the middle of the picture; below it blue outweighs red."""
    picture = paint(vendor, "the open sea at noon, clear sky", seed)
    rows = picture.mean(axis=(1, 2))
    edges = np.abs(np.diff(cv2.GaussianBlur(rows[:, None], (1, 3), 0)[:, 0]))
    horizon = int(np.argmax(edges[20:110])) + 20
    assert 0.45 < horizon / len(rows) < 0.70
    red, _, blue = colour(picture[horizon + 4 :])
    assert blue > red + 0.1


@pytest.mark.parametrize("place", ["sea", "mountains", "city", "forest", "desert", "meadow", "lake", "village"])
def test_night_is_darker_than_noon_everywhere(vendor: Any, place: str) -> None:
    """At noon a place has at least twice the light of night."""
    noon, night = (paint(vendor, f"{place} at {time}").mean() for time in ("noon", "night"))
    assert noon > 2 * night


def test_dusk_is_warmer_than_noon(vendor: Any) -> None:
    """The light above the horizon is red at sunset and blue at noon."""
    for seed in SEEDS:
        dusk, noon = (paint(vendor, f"hills at {time}", seed)[40:70] for time in ("sunset", "midday"))
        assert colour(dusk)[0] > colour(dusk)[2]
        assert colour(noon)[2] > colour(noon)[0]


def test_windows_of_a_city_are_lit_at_night(vendor: Any) -> None:
    """Between dark walls there are many points of bright, warm light, and fewer over the sea."""
    lit = []
    for prompt in ("a city at night, no moon", "the sea at night, no moon"):
        picture = paint(vendor, prompt, width=384, height=256)[80:170]
        lit.append(int(((picture[..., 0] > 0.5) & (picture[..., 0] > picture[..., 2])).sum()))
    assert lit[0] > 300 > 10 * lit[1]


def test_water_mirrors_what_stands_behind_it(vendor: Any) -> None:
    """The skyline by a river resembles its own mirror image; without the water it does not."""
    picture = paint(vendor, "a city by the river at dusk", width=256, height=256).mean(axis=2)
    rows = range(130, 160)
    likeness = max(
        np.corrcoef(picture[row - 60 : row - 5].ravel(), picture[row + 5 : row + 60][::-1].ravel())[0, 1]
        for row in rows
    )
    assert likeness > 0.6


def test_snow_and_fog_whiten_and_storms_darken(vendor: Any) -> None:
    """Winter is bright and not green, fog takes contrast from the distance, and a storm takes light from the sky."""
    summer, winter = (ground(paint(vendor, f"hills in {season} at noon")) for season in ("summer", "winter"))
    assert winter.mean() > summer.mean() + 0.1
    assert colour(winter)[2] > colour(winter)[1]
    assert colour(summer)[1] > colour(summer)[2]
    clear, foggy = (paint(vendor, f"mountains at noon, {air}", 3)[50:90] for air in ("clear", "thick fog"))
    assert foggy.std() < clear.std()
    calm, storm = (sky(paint(vendor, f"the sea at noon, {air}")) for air in ("clear", "a storm, no lightning"))
    assert storm.mean() < calm.mean()


def test_named_colours_stain_the_light(vendor: Any) -> None:
    """A red and a blue version of a scene lean to their colours."""
    red, blue = (colour(sky(paint(vendor, f"a {name} dawn over the sea"))) for name in ("red", "blue"))
    assert red[0] - red[2] > blue[0] - blue[2] + 0.2


def test_figures_stand_dark_against_the_light(vendor: Any) -> None:
    """A horse at dusk puts dark pixels where a meadow without it has none."""
    for kind in ("horse", "man", "castle", "elephant", "tree"):
        picture = paint(vendor, f"a {kind} on the beach at sunset", 4).max(axis=2)
        assert (picture[64:105] < 0.18).sum() > 40, kind


def test_figure_takes_the_colour_named_before_it(vendor: Any) -> None:
    """A red and a green balloon differ in their own colours, not in the sky's."""
    red, green = (paint(vendor, f"a {name} balloon over the hills at noon", 4) for name in ("red", "green"))
    assert ((red[..., 0] - red[..., 1]) > 0.2).sum() > 30
    assert ((green[..., 1] - green[..., 0]) > 0.05).sum() > ((red[..., 1] - red[..., 0]) > 0.05).sum() / 2


def test_every_word_can_be_painted(vendor: Any) -> None:
    """No place, figure, weather, sky, time or season fails, at odd sizes."""
    from fairlead_partners.procedural.scenery import vocabulary  # noqa: PLC0415 -- its tables are the cases

    tables = (vocabulary.PLACES, vocabulary.FIGURES, vocabulary.CONDITIONS, vocabulary.SKIES, vocabulary.SEASONS)
    for meaning in sorted({meaning for table in tables for meaning in table.values()}):
        assert paint(vendor, f"two {meaning}", 1, 97, 64).std() > 0.01, meaning


def test_words_are_read_with_synonyms_plurals_and_negations() -> None:
    """Synonyms and plurals mean the same; what is negated is refused; numbers and colours go to their figures."""
    subject = read("Three white horses on a foggy shore at sunset, no people, without clouds")
    assert subject.places == ("sea",)
    assert subject.figures == (Figure("horse", 3, "f4f3ee"),)
    assert (subject.conditions, subject.time, subject.colours) == (("fog",), "dusk", ())
    assert {"person", "cloudy"} <= subject.refused
    assert read("not a city but a forest in autumn").places == ("forest",)
    assert read("starry sky").time == "night"
    assert read("a green field under a violet sky").colours == ("7d4bb8",)
    assert not read("seventeen abstractions").is_place


def test_clip_of_a_place_moves_and_ends_where_it_began(vendor: Any, tmp_path: Path) -> None:
    """Frames differ from their neighbours, and the last one leads to the first as any other to its next."""
    body = {"prompt": "clouds over the sea at noon", "seed": 2, "duration_seconds": 1, "fps": 12}
    task = vendor.finished_video(vendor.post("/v1/videos", body).json()["id"])
    path = tmp_path / "clip.mp4"
    path.write_bytes(vendor.client.get(task["result"]["url"]).content)
    clip = cv2.VideoCapture(str(path))
    frames = []
    while (read_ := clip.read())[0]:
        frames.append(read_[1].astype(np.float64))
    clip.release()
    steps = [np.abs(frames[number] - frames[number - 1]).mean() for number in range(len(frames))]
    assert min(steps) > 0.3
    assert steps[0] < 2.5 * np.median(steps)
