"""Nodes that load and save folders of images, with a text next to each: what models are trained with."""

import hashlib
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

from fairlead.engine.media import pictures
from fairlead.engine.media.arrays import Array, check_items, check_size
from fairlead.engine.nodes.context import Context, NoSuchFileError
from fairlead.engine.nodes.images_io import HIDDEN, metadata
from fairlead.engine.nodes.node import Output, Result, combo, node, socket, text

_EXTENSIONS: Final = frozenset({".png", ".jpg", ".jpeg", ".webp"})
_TEXT_BYTES_MAX: Final = 1 << 20
_COMPRESSION: Final = 4

_FOLDER: Final = combo("3d", multiselect=False)
"""A folder of the inputs, which every installation of ComfyUI has."""


def _listing_digest(context: Context, folder: str) -> str:
    digest = hashlib.sha256()
    for name in context.input_files(folder):
        facts = context.input_file(name).stat()
        digest.update(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _known_folder(context: Context, folder: str | None) -> bool | str:
    if folder is None:
        return True  # it comes through a link
    try:
        context.input_files(folder)
    except NoSuchFileError:
        return f"There is no folder {folder!r} among the inputs."
    return True


@node(
    "LoadImageDataSetFromFolder", "Load Image (from Folder)", "image",
    outputs=(Output("IMAGE", "images", is_list=True),), is_experimental=True, fingerprint=_listing_digest,
    validate=_known_folder,
)  # fmt: skip
def load_image_dataset_from_folder(context: Context, folder: Annotated[str, _FOLDER]) -> list[Array]:
    """The pictures right in a folder, in alphabetical order, as a list of images."""
    depth = len(PurePosixPath(folder).parts) + 1
    names = [name for name in _pictures(context, folder) if len(PurePosixPath(name).parts) == depth]
    return _load(context, names)


@node(
    "LoadImageTextDataSetFromFolder", "Load Image-Text (from Folder)", "image",
    outputs=(Output("IMAGE", "images", is_list=True), Output("STRING", "texts", is_list=True)), is_experimental=True,
    fingerprint=_listing_digest, validate=_known_folder,
)  # fmt: skip
def load_image_text_dataset_from_folder(
    context: Context, folder: Annotated[str, _FOLDER]
) -> tuple[list[Array], list[str]]:
    """The pictures of a folder and of the folders in it, each with the text of the `.txt` of its name, or none.

    A folder `10_name` counts ten times, as the tools that train with such folders have it.
    """
    depth = len(PurePosixPath(folder).parts)
    names = [name for name in _pictures(context, folder) for _ in range(_times(PurePosixPath(name).parts[depth:-1]))]
    check_items(len(names), "pictures")
    known = frozenset(context.input_files(folder))
    texts = {name: _text_next_to(context, name, known) for name in set(names)}
    return _load(context, names), [texts[name] for name in names]


def _pictures(context: Context, folder: str) -> list[str]:
    names = [name for name in context.input_files(folder) if PurePosixPath(name).suffix.lower() in _EXTENSIONS]
    check_items(len(names), "pictures")
    return names


def _times(folders: tuple[str, ...]) -> int:
    count = folders[0].partition("_")[0] if folders else ""
    return min(int(count), 1 << 16) if count.isascii() and count.isdigit() else 1


def _load(context: Context, names: list[str]) -> list[Array]:
    """The first frame of each file; one that is named again is the same array."""
    loaded: dict[str, Array] = {}
    pixels = 0
    for index, name in enumerate(dict.fromkeys(names)):
        context.progress(index, len(names))
        image = pictures.read(context.input_file(name), frames_max=1).colours
        pixels += image.shape[1] * image.shape[2]
        check_size(pixels, 1, 1)
        loaded[name] = image
    return [loaded[name] for name in names]


def _text_next_to(context: Context, name: str, known: frozenset[str]) -> str:
    text_name = str(PurePosixPath(name).with_suffix(".txt"))
    if text_name not in known:
        return ""
    with context.input_file(text_name).open("rb") as file:
        found = file.read(_TEXT_BYTES_MAX + 1)
    if len(found) > _TEXT_BYTES_MAX:
        raise ValueError(f"The text {text_name} is longer than {_TEXT_BYTES_MAX} bytes.")
    return found.decode("utf-8", "replace").strip()


_NEW_FOLDER: Final = text("dataset", multiline=False)
_PREFIX: Final = text("image", advanced=True, multiline=False)
_MODE: Final = combo("overwrite", "increment", default="overwrite", multiselect=False)


@node(
    "SaveImageDataSetToFolder", "Save Image (to Folder) (DEPRECATED)", "image", hidden=HIDDEN, is_output=True,
    is_input_list=True, is_experimental=True, is_deprecated=True,
)  # fmt: skip
def save_image_dataset_to_folder(
    context: Context,
    images: Annotated[list[Array], socket("IMAGE")],
    folder_name: Annotated[list[str], _NEW_FOLDER],
    filename_prefix: Annotated[list[str], _PREFIX],
    mode: Annotated[list[str], _MODE],
) -> Result:
    """Save each image of the list as a PNG in a folder of the outputs, over those of an earlier run or next to them."""
    _save(context, images, f"{folder_name[0]}/{filename_prefix[0]}", mode[0])
    return Result()


@node(
    "SaveImageTextDataSetToFolder", "Save Image-Text (to Folder)", "image", hidden=HIDDEN, is_output=True,
    is_input_list=True, is_experimental=True,
)  # fmt: skip
def save_image_text_dataset_to_folder(
    context: Context,
    images: Annotated[list[Array], socket("IMAGE")],
    folder_name: Annotated[list[str], _NEW_FOLDER],
    filename_prefix: Annotated[list[str], _PREFIX],
    mode: Annotated[list[str], _MODE],
    texts: Annotated[list[str] | None, text(forceInput=True, multiline=False)] = None,
) -> Result:
    """Save each image of the list as a PNG in a folder of the outputs, and next to it its text, if it has one."""
    names = _save(context, images, f"{folder_name[0]}/{filename_prefix[0]}", mode[0])
    for name, caption in zip(names, texts or (), strict=False):
        path, _ = context.named_file(f"{name}.txt")
        path.write_text(caption, encoding="utf-8")
    return Result()


def _save(context: Context, batches: list[Array], prefix: str, mode: str) -> list[str]:
    """Save every image of the list; the names without their endings, of the first image of each value."""
    facts, number = metadata(context), 0
    names: list[str] = []
    for images in batches:
        for index, image in enumerate(images):
            context.check()
            path, name = _place(context, prefix, number, mode)
            pictures.write_png(path, image, facts, _COMPRESSION)
            number += 1
            if index == 0:
                names.append(name)
    return names


def _place(context: Context, prefix: str, number: int, mode: str) -> tuple[Path, str]:
    if mode == "overwrite":
        name = f"{prefix}_{number:05}"
        return context.named_file(f"{name}.png")[0], name
    path, file = context.new_file(prefix, "png")
    return path, str(PurePosixPath(file.subfolder, file.filename).with_suffix(""))


NODES: Final = (
    load_image_dataset_from_folder,
    load_image_text_dataset_from_folder,
    save_image_dataset_to_folder,
    save_image_text_dataset_to_folder,
)
