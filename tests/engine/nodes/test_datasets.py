"""Folders of pictures and texts, loaded and saved."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.nodes.folders import FolderContext
from fairlead.engine.media.arrays import Array
from fairlead.engine.nodes.datasets import (
    load_image_dataset_from_folder,
    load_image_text_dataset_from_folder,
    save_image_dataset_to_folder,
    save_image_text_dataset_to_folder,
)
from fairlead.engine.nodes.node import definition_of


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    """Inputs with a folder `set`: two pictures, a folder that counts thrice, one that counts once, other files."""
    context = FolderContext(tmp_path)
    for name, grey in (("b.png", 20), ("a.JPG", 10), ("3_cat/c.webp", 30), ("plain/d.png", 40)):
        path = tmp_path / "input" / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        options = {"lossless": True} if name.endswith("webp") else {"quality": 100}
        Image.new("RGB", (4, 4), (grey, grey, grey)).save(path, **options)
    (tmp_path / "input" / "set" / "3_cat" / "c.txt").write_text("  a cat\n", encoding="utf-8")
    (tmp_path / "input" / "set" / "notes.md").write_text("no picture", encoding="utf-8")
    return context


def _greys(images: list[Array]) -> list[int]:
    return [round(float(image[0, 0, 0, 0]) * 255) for image in images]


def test_folder_is_loaded_alone_and_in_order(context: FolderContext) -> None:
    """Its own pictures, in alphabetical order."""
    images = load_image_dataset_from_folder(context, "set")
    assert _greys(images) == [10, 20]
    assert images[0].shape == (1, 4, 4, 3)


def test_folder_counts_as_often_as_its_name_says(context: FolderContext) -> None:
    """Folders within count as often as their names begin with, and each picture has the text beside it."""
    images, texts = load_image_text_dataset_from_folder(context, "set")
    assert list(zip(_greys(images), texts, strict=True)) == [
        (30, "a cat"), (30, "a cat"), (30, "a cat"), (10, ""), (20, ""), (40, "")
    ]  # fmt: skip


def test_number_of_loaded_pictures_is_bounded(context: FolderContext) -> None:
    """A list has an end."""
    (context.root / "input" / "set" / "plain").rename(context.root / "input" / "set" / "999999999_x")
    with pytest.raises(ValueError, match="more than the"):
        load_image_text_dataset_from_folder(context, "set")


def test_changed_folder_has_another_fingerprint(context: FolderContext) -> None:
    """A picture more is another fingerprint; a folder there is not does not pass validation."""
    of = definition_of(load_image_dataset_from_folder)
    assert of.fingerprint is not None
    assert of.validate is not None
    before = of.fingerprint(context, "set")
    assert of.fingerprint(context, "set") == before
    Image.new("L", (1, 1)).save(context.root / "input" / "set" / "e.png")
    assert of.fingerprint(context, "set") != before
    assert of.validate(context, "set") is True
    assert "nowhere" in of.validate(context, "nowhere")


def _saved_files(context: FolderContext) -> list[str]:
    return sorted(path.relative_to(context.root / "output").as_posix() for path in context.root.glob("output/*/*"))


def test_saving_again_overwrites(context: FolderContext) -> None:
    """Numbers begin at 0 each time, across batches, so what was there before is replaced."""
    images = [np.full((2, 1, 1, 3), 1.0, np.float32), np.zeros((1, 1, 1, 3), np.float32)]
    for _ in range(2):
        save_image_dataset_to_folder(context, images, ["set"], ["i"], ["overwrite"])
    assert _saved_files(context) == ["set/i_00000.png", "set/i_00001.png", "set/i_00002.png"]
    with Image.open(context.root / "output" / "set" / "i_00001.png") as second:
        assert np.asarray(second)[0, 0].tolist() == [255] * 3


def test_incrementing_never_overwrites(context: FolderContext) -> None:
    """Each picture takes the next free number, and its text has its name."""
    images = [np.zeros((1, 1, 1, 3), np.float32)] * 2
    for texts in (["one", "zwölf"], None):
        save_image_text_dataset_to_folder(context, images, ["set"], ["i"], ["increment"], texts)
    names = [f"set/i_{number:05}_.png" for number in (1, 2, 3, 4)]
    assert _saved_files(context) == sorted([*names, "set/i_00001_.txt", "set/i_00002_.txt"])
    assert (context.root / "output" / "set" / "i_00002_.txt").read_text(encoding="utf-8") == "zwölf"


def test_text_lies_next_to_its_first_image(context: FolderContext) -> None:
    """A text of a batch lies beside its first image."""
    images = [np.zeros((2, 1, 1, 3), np.float32), np.zeros((1, 1, 1, 3), np.float32)]
    save_image_text_dataset_to_folder(context, images, ["set"], ["i"], ["overwrite"], ["first", "second"])
    assert [name for name in _saved_files(context) if name.endswith("txt")] == ["set/i_00000.txt", "set/i_00002.txt"]
