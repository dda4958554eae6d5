"""Nodes that make and change masks."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.nodes.folders import FolderContext
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.executor import Executor, Outcome, Work
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import validate
from fairlead.engine.media.arrays import Array
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.masks import (
    NODES,
    batch_masks,
    crop_mask,
    feather_mask,
    grow_mask,
    image_color_to_mask,
    image_to_mask,
    invert_mask,
    mask_composite,
    mask_preview,
    mask_to_image,
    solid_mask,
    threshold_mask,
)
from fairlead.engine.nodes.registry import Registry


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    """The context of a node that needs no files."""
    return FolderContext(tmp_path)


def _mask(*rows: tuple[float, ...]) -> Array:
    return np.array([rows], np.float32)


def _dot(height: int, width: int, y: int, x: int) -> Array:
    mask = np.zeros((1, height, width), np.float32)
    mask[0, y, x] = 1
    return mask


def test_solid_mask_has_its_size_and_value() -> None:
    """Width comes before height."""
    assert solid_mask(0.25, 3, 2).tolist() == [[[0.25] * 3] * 2]


def test_threshold_excludes_the_value_itself() -> None:
    """Only what is more is 1."""
    assert threshold_mask(_mask((0.2, 0.5, 0.75)), 0.5).tolist() == [[[0, 0, 1]]]


def test_mask_is_inverted() -> None:
    """1 - mask."""
    assert invert_mask(_mask((0.0, 0.25, 1.0))).tolist() == [[[1.0, 0.75, 0.0]]]


def test_crop_is_taken_at_its_place() -> None:
    """The crop begins at x 1 and y 1 and is at most two wide and nine high."""
    mask = _mask((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12))
    assert crop_mask(mask, 1, 1, 2, 9).tolist() == [[[6, 7], [10, 11]]]


def test_crop_beyond_the_mask_is_refused() -> None:
    """The error says what there is."""
    with pytest.raises(ValueError, match=r"nothing to crop at \(4, 0\) in a mask of 4 x 1"):
        crop_mask(_mask((1, 2, 3, 4)), 4, 0, 1, 1)


def test_feathering_rises_from_the_left_and_the_top() -> None:
    """A third, two thirds and all of it in three columns; half and all of it in two rows."""
    left = feather_mask(np.ones((1, 1, 5), np.float32), 3, 0, 0, 0)
    assert left.ravel() == pytest.approx([1 / 3, 2 / 3, 1, 1, 1])
    corner = feather_mask(np.ones((1, 3, 3), np.float32), 2, 2, 0, 0)
    assert corner[0] == pytest.approx(np.array([[0.25, 0.5, 0.5], [0.5, 1, 1], [0.5, 1, 1]]))


def test_feathering_falls_to_the_right_and_the_bottom() -> None:
    """The outermost column or row has the least of it; the other side is left alone."""
    right = feather_mask(np.ones((1, 1, 6), np.float32), 0, 0, 4, 0)
    assert right.ravel() == pytest.approx([1, 1, 1, 0.75, 0.5, 0.25])
    bottom = feather_mask(np.ones((1, 6, 1), np.float32), 0, 0, 0, 2)
    assert bottom.ravel() == pytest.approx([1, 1, 1, 1, 1, 0.5])


def test_feathering_is_limited_to_the_mask() -> None:
    """It rises over the whole mask."""
    assert feather_mask(np.ones((1, 1, 2), np.float32), 16384, 0, 0, 0).ravel() == pytest.approx([0.5, 1])
    assert feather_mask(np.ones((1, 1, 2), np.float32), 0, 0, 16384, 0).ravel() == pytest.approx([1, 0.5])


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("multiply", [0.9, 0.0, 0.12, 0.48]),
        ("add", [0.9, 0.0, 0.7, 1.0]),
        ("subtract", [0.9, 0.0, 0.1, 0.2]),
        ("and", [0.9, 0.0, 0.0, 1.0]),
        ("or", [0.9, 0.0, 0.0, 1.0]),
        ("xor", [0.9, 0.0, 0.0, 0.0]),
    ],
)
def test_masks_are_combined_by_the_operation_asked_for(operation: str, result: list[float]) -> None:
    """Only where the source lies, from x 2 on; more than a half is yes."""
    destination, source = _mask((0.9, 0.0, 0.4, 0.8)), _mask((0.3, 0.6, 1.0))
    assert mask_composite(destination, source, 2, 0, operation).ravel() == pytest.approx(result)


@pytest.mark.parametrize(("operation", "result"), [("and", [0, 0, 0, 1]), ("or", [0, 1, 1, 1]), ("xor", [0, 1, 1, 0])])
def test_logical_operations_follow_their_truth_tables(operation: str, result: list[float]) -> None:
    """The four cases; exactly a half is no, as half to even has it."""
    combined = mask_composite(_mask((0.5, 0.0, 0.6, 1.0)), _mask((0.0, 1.0, 0.2, 0.7)), 0, 0, operation)
    assert combined.ravel().tolist() == result


def test_source_beyond_the_mask_changes_nothing() -> None:
    """There is nothing to combine; the destination itself is never changed."""
    destination = _mask((0.5, 0.5))
    assert mask_composite(destination, _mask((1.0,)), 2, 7, "add").ravel().tolist() == [0.5, 0.5]
    mask_composite(destination, _mask((1.0,)), 0, 0, "add")
    assert destination.ravel().tolist() == [0.5, 0.5]


def test_one_source_is_combined_with_every_mask() -> None:
    """It goes with all of them."""
    result = mask_composite(np.zeros((3, 1, 1), np.float32), _mask((1.0,)), 0, 0, "add")
    assert result.ravel().tolist() == [1, 1, 1]


def _grow_by_definition(mask: Array, steps: int, corner: int) -> Array:
    """One step after the other: the greatest of the neighbours, with or without those at the corners."""
    for _ in range(steps):
        before, mask = mask, mask.copy()
        for y in range(mask.shape[1]):
            for x in range(mask.shape[2]):
                near = [
                    before[0, y + dy, x + dx]
                    for dy in (-1, 0, 1)
                    for dx in (-1, 0, 1)
                    if (corner or not (dy and dx)) and 0 <= y + dy < mask.shape[1] and 0 <= x + dx < mask.shape[2]
                ]
                mask[0, y, x] = max(near)
    return mask


@pytest.mark.parametrize("tapered", [True, False])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 7, 20])
def test_growing_agrees_with_growing_step_by_step(context: FolderContext, steps: int, tapered: bool) -> None:  # noqa: FBT001 -- a case
    """Diamonds with tapered corners, squares without; shrinking is growing of what is not."""
    mask = np.random.default_rng(3).random((1, 9, 13)).astype(np.float32) ** 6
    wanted = _grow_by_definition(mask, steps, corner=not tapered)
    assert (grow_mask(context, mask, steps, tapered) == wanted).all()
    shrunk = grow_mask(context, 1 - mask, -steps, tapered)
    assert shrunk == pytest.approx(1 - wanted, abs=1e-6)


def test_dot_grows_to_a_diamond(context: FolderContext) -> None:
    """The expected values were worked out by hand."""
    grown = grow_mask(context, _dot(5, 5, 2, 2), 2, tapered_corners=True)
    assert grown[0].tolist() == [
        [0, 0, 1, 0, 0], [0, 1, 1, 1, 0], [1, 1, 1, 1, 1], [0, 1, 1, 1, 0], [0, 0, 1, 0, 0],
    ]  # fmt: skip


def test_growing_by_thousands_takes_a_few_passes(context: FolderContext) -> None:
    """Passes double their reach, and stop when they have reached everything: 16384 is a few, each after a check."""
    assert grow_mask(context, _dot(300, 400, 0, 0), 16384, tapered_corners=True).all()
    assert 8 <= context.checks <= 12


def test_masks_of_different_sizes_are_batched() -> None:
    """They are scaled to the first, cut to its proportions, and stay in order."""
    masks = {"mask0": solid_mask(0.1, 2, 2), "mask1": np.full((2, 4, 9), 0.2, np.float32), "mask2": _dot(2, 6, 0, 2)}
    batch = batch_masks(masks)
    assert batch[:3, 0, 0] == pytest.approx([0.1, 0.2, 0.2])
    assert batch[3].tolist() == [[1, 0], [0, 0]]


def test_mask_becomes_a_grey_image_and_back() -> None:
    """Three equal channels, and one of them is the mask again."""
    image = mask_to_image(_mask((0.0, 0.5)))
    assert image.tolist() == [[[[0, 0, 0], [0.5, 0.5, 0.5]]]]
    assert image_to_mask(image, "green").tolist() == [[[0, 0.5]]]


@pytest.mark.parametrize(("channel", "value"), [("red", 0.25), ("green", 0.5), ("blue", 0.75), ("alpha", 1.0)])
def test_mask_is_the_channel_asked_for(channel: str, value: float) -> None:
    """The channel is taken as it is: alpha is not inverted."""
    image = np.array([[[[0.25, 0.5, 0.75, 1.0]]]], np.float32)
    assert image_to_mask(image, channel).tolist() == [[[value]]]


def test_missing_alpha_is_refused() -> None:
    """The error says what is missing."""
    with pytest.raises(ValueError, match="no alpha channel"):
        image_to_mask(np.zeros((1, 1, 1, 3), np.float32), "alpha")


def test_colour_is_found_exactly() -> None:
    """Colours are compared in 8 bits, rounded: 0x804020 is 128, 64, 32, and one level off is another colour."""
    pixels = np.array([[[[128, 64, 32], [128, 64, 33], [127.6, 64.4, 31.7], [32, 64, 128]]]], np.float32)
    assert image_color_to_mask(pixels / np.float32(255), 0x804020).tolist() == [[[1, 0, 1, 0]]]


def test_masks_are_shown_as_grey_previews(tmp_path: Path) -> None:
    """A grey picture for each, not kept, with the prompt in it."""
    context = FolderContext(tmp_path, {"prompt": {"1": {}}, "extra_pnginfo": {"workflow": [2]}})
    result = mask_preview(context, np.array([[[0.0, 0.5]], [[1.0, 0.25]]], np.float32))
    files = result.ui["images"]
    assert [file["type"] for file in files] == ["temp", "temp"]
    with Image.open(tmp_path / "temp" / files[0]["filename"]) as picture:
        assert np.asarray(picture).tolist() == [[[0, 0, 0], [127, 127, 127]]]
        assert picture.info == {"prompt": '{"1": {}}', "workflow": "[2]"}


def test_masks_go_through_a_graph(tmp_path: Path) -> None:
    """A mask is made, grown, batched with itself and shown: two pictures, each with a cross in it."""
    graph = read_graph(
        {
            "1": {"class_type": "SolidMask", "inputs": {"value": 0.0, "width": 5, "height": 5}},
            "2": {"class_type": "SolidMask", "inputs": {"value": 1.0, "width": 1, "height": 1}},
            "3": {
                "class_type": "MaskComposite",
                "inputs": {"destination": ["1", 0], "source": ["2", 0], "x": 2, "y": 2, "operation": "add"},
            },
            "4": {"class_type": "GrowMask", "inputs": {"mask": ["3", 0], "expand": 1, "tapered_corners": True}},
            "5": {"class_type": "BatchMasksNode", "inputs": {"masks.mask0": ["4", 0], "masks.mask1": ["4", 0]}},
            "6": {"class_type": "MaskPreview", "inputs": {"mask": ["5", 0]}},
        }
    )

    async def run() -> Outcome:
        registry = Registry(NODES)
        validated = await validate(graph, registry)
        executor = Executor(registry, ResultCache(1 << 20))
        work = Work(validated.graph, validated.outputs, Folders(tmp_path, tmp_path, tmp_path))
        try:
            return await executor.run(work, lambda _: None)
        finally:
            executor.close()

    files = asyncio.run(run()).ui["6"]["images"]
    assert len(files) == 2
    with Image.open(tmp_path / files[1]["filename"]) as picture:
        rows = (np.asarray(picture)[..., 0] // 255).tolist()
    assert rows == [[0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: solid_mask(1.0, 65536, 16385),
        lambda: batch_masks(
            {"mask0": np.zeros((1, 4096, 4096), np.float32), "mask1": np.zeros((64, 1, 1), np.float32)}
        ),
    ],
)
def test_memory_of_a_mask_is_bounded(make: Callable[[], Array]) -> None:
    """What would come out is counted before anything is made."""
    with pytest.raises(ValueError, match="one value"):
        make()
