"""Whole workflows of image nodes, as editors write them, executed over real folders."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fairlead.domain.jobs.events import Failed, Succeeded
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.executor import Executor, Outcome, Work
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import InvalidGraphError, validate
from fairlead.engine.nodes import batches, datasets, images_io, transform, upscaling
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.registry import Registry

_CACHE_BYTES = 100_000_000


def _execute(root: Path, document: dict[str, Any]) -> Outcome:
    """Validate and execute a workflow with the prompt in its files."""
    for kind in ("input", "output", "temp"):
        (root / kind).mkdir(exist_ok=True)
    files = Folders(root / "input", root / "output", root / "temp")
    registry = Registry(images_io.NODES, transform.NODES, upscaling.NODES, batches.NODES, datasets.NODES)

    async def run() -> Outcome:
        validated = await validate(read_graph(document), registry, context=files)
        executor = Executor(registry, ResultCache(_CACHE_BYTES))
        try:
            return await executor.run(Work(validated.graph, validated.outputs, files), lambda _: None)
        finally:
            executor.close()

    return asyncio.run(run())


def _node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def test_workflow_of_images_is_executed(tmp_path: Path) -> None:
    """Load, scale, turn, batch with another, and save: the pictures and the prompt are in the files."""
    (tmp_path / "input").mkdir()
    Image.new("RGB", (8, 4), (255, 0, 0)).save(tmp_path / "input" / "red.png")
    document = {
        "1": _node("LoadImage", image="red.png"),
        "2": _node("ImageScale", image=["1", 0], upscale_method="bicubic", width=4, height=0, crop="disabled"),
        "3": _node("ImageRotate", image=["2", 0], rotation="90 degrees"),
        "4": _node("EmptyImage", width=2, height=4, batch_size=1, color=255),
        "5": _node("BatchImagesNode", **{"images.image0": ["3", 0], "images.image1": ["4", 0]}),
        "6": _node("SaveImage", images=["5", 0], filename_prefix="made/%width%x%height%"),
    }
    outcome = _execute(tmp_path, document)
    assert isinstance(outcome.ending, Succeeded), outcome.ending
    assert [image["filename"] for image in outcome.ui["6"]["images"]] == ["2x4_00001_.png", "2x4_00002_.png"]
    colours = []
    for image in outcome.ui["6"]["images"]:
        with Image.open(tmp_path / "output" / image["subfolder"] / image["filename"]) as picture:
            assert picture.size == (2, 4)
            assert json.loads(picture.info["prompt"])["1"]["class_type"] == "LoadImage"
            colours.append(np.asarray(picture)[0, 0].tolist())
    assert colours == [[255, 0, 0], [0, 0, 255]]


def test_lists_of_images_go_through(tmp_path: Path) -> None:
    """Tiles go on one by one, are changed by a node that knows no lists, and come together again."""
    document = {
        "1": _node("EmptyImage", width=100, height=100, batch_size=1, color=0xFFFFFF),
        "2": _node("SplitImageToTileList", image=["1", 0], tile_width=64, tile_height=64, overlap=16),
        "3": _node("ImageFlip", image=["2", 0], flip_method="x-axis: vertically"),
        "4": _node("ImageMergeTileList", image_list=["3", 0], final_width=100, final_height=100, overlap=16),
        "5": _node("ImageGrid", images=["3", 0], columns=2, cell_width=32, cell_height=32, padding=0),
        "6": _node("ImageCompare", compare_view="", image_a=["4", 0], image_b=["5", 0]),
        "7": _node("GetImageSize", image=["5", 0]),
        "8": _node(
            "SaveImageAdvanced", images=["4", 0], filename_prefix="x", format="png",
            **{"format.bit_depth": "16-bit", "format.input_color_space": "sRGB"},
        ),
        "9": _node(
            "ResizeImageMaskNode", input=["5", 0], resize_type="scale width", scale_method="lanczos",
            **{"resize_type.width": 10},
        ),
        "10": _node("SaveAnimatedWEBP", images=["9", 0], filename_prefix="w", fps=6, lossless=True, quality=80,
                    method="default"),
    }  # fmt: skip
    outcome = _execute(tmp_path, document)
    assert isinstance(outcome.ending, Succeeded), outcome.ending
    assert len(outcome.ui["6"]["a_images"]) == len(outcome.ui["6"]["b_images"]) == 1
    with Image.open(tmp_path / "temp" / outcome.ui["6"]["b_images"][0]["filename"]) as grid:
        assert (grid.size, grid.getextrema()) == ((64, 64), ((255, 255),) * 3)
    with Image.open(tmp_path / "output" / "w_00001_.webp") as small:
        assert small.size == (10, 10)
    assert (tmp_path / "output" / "x_00001_.png").exists()


def test_missing_picture_fails_validation(tmp_path: Path) -> None:
    """Validation says which file there is not, and is not content with the choices of an empty list either."""
    document = {"1": _node("LoadImage", image="../secret.png"), "2": _node("PreviewImage", images=["1", 0])}
    with pytest.raises(InvalidGraphError) as refused:
        _execute(tmp_path, document)
    (fault,) = refused.value.node_faults["1"].faults
    assert (fault.type, "Invalid image file: ../secret.png" in fault.details) == ("custom_validation_failed", True)


def test_impossible_size_is_the_error_of_its_node(tmp_path: Path) -> None:
    """It is the error of its node."""
    document = {
        "1": _node("EmptyImage", width=16384, height=16384, batch_size=4096, color=0),
        "2": _node("PreviewImage", images=["1", 0]),
    }
    outcome = _execute(tmp_path, document)
    assert isinstance(outcome.ending, Failed)
    assert "more than the" in str(outcome.ending)


def test_folder_of_pictures_goes_through(tmp_path: Path) -> None:
    """A folder is loaded with its texts, shuffled, cropped and saved: twice over the same names, once beside them."""
    folder = tmp_path / "input" / "set"
    folder.mkdir(parents=True)
    for name in ("a", "b", "c"):
        Image.new("RGB", (8, 8), "white").save(folder / f"{name}.png")
        (folder / f"{name}.txt").write_text(name, encoding="utf-8")
    document = {
        "1": _node("LoadImageTextDataSetFromFolder", folder="set"),
        "2": _node("ShuffleImageTextDataset", images=["1", 0], texts=["1", 1], seed=7),
        "3": _node("CenterCropImages", images=["2", 0], width=4, height=2),
        "4": _node(
            "SaveImageTextDataSetToFolder", images=["3", 0], texts=["2", 1], folder_name="made", filename_prefix="i",
            mode="overwrite",
        ),
        "5": _node(
            "SaveImageTextDataSetToFolder", images=["3", 0], texts=["2", 1], folder_name="more", filename_prefix="i",
            mode="increment",
        ),
    }  # fmt: skip
    for _ in range(2):
        outcome = _execute(tmp_path, document)
        assert isinstance(outcome.ending, Succeeded), outcome.ending
    made, more = (sorted((tmp_path / "output" / name).iterdir()) for name in ("made", "more"))
    assert [path.name for path in made] == [f"i_0000{number}.{kind}" for number in range(3) for kind in ("png", "txt")]
    assert [path.name for path in more if path.suffix == ".png"] == [f"i_0000{number}_.png" for number in range(1, 7)]
    assert {path.read_text(encoding="utf-8") for path in made if path.suffix == ".txt"} == {"a", "b", "c"}
    with Image.open(made[0]) as picture:
        assert picture.size == (4, 2)
