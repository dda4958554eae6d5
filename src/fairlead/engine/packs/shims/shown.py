"""What nodes in the schema form show: `from comfy_api.latest import ui`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.engine.media.pictures import write_animated_png, write_animated_webp, write_png
from fairlead.engine.media.sound_files import write_flac
from fairlead.engine.nodes.context import SavedFile
from fairlead.engine.nodes.images_io import metadata, show_images
from fairlead.engine.nodes.node_context import NodeContext, current_context
from fairlead.engine.packs.shims.schema_form import FolderType, UIOutput
from fairlead.engine.packs.tensors import from_pack

_COMPRESSION: Final = 4
_PREVIEW_FPS: Final = 6.0


class SavedResult(dict[str, str]):
    """A file that was written, for display."""

    def __init__(self, filename: str, subfolder: str, type: object) -> None:  # noqa: A002 -- packs call it so
        super().__init__(filename=filename, subfolder=subfolder, type=str(getattr(type, "value", type)))

    filename = property(lambda self: self["filename"])
    subfolder = property(lambda self: self["subfolder"])
    type = property(lambda self: self["type"])


class Shown(UIOutput):
    """Something to show, by its key."""

    def __init__(self, key: str, values: Sequence[object], **more: object) -> None:
        self.values = list(values)
        self._told = {key: self.values, **more}

    def as_dict(self) -> dict[str, object]:
        """The output for display."""
        return self._told


class SavedImages(Shown):
    """Images that were written."""

    def __init__(self, results: Sequence[Mapping[str, str]], is_animated: bool = False) -> None:  # noqa: FBT001, FBT002 -- packs may give it by place
        super().__init__("images", results, **({"animated": [True]} if is_animated else {}))


class SavedAudios(Shown):
    """Sounds that were written."""

    def __init__(self, results: Sequence[Mapping[str, str]]) -> None:
        super().__init__("audio", results)


class PreviewImage(SavedImages):
    """Images that are shown and not kept."""

    def __init__(self, image: object, animated: bool = False, cls: object = None, **_: object) -> None:  # noqa: FBT001, FBT002 -- as above
        del cls
        images = _images(image)
        if animated:
            saved = [ImageSaveHelper.save_animated_png(images, "preview", FolderType.temp, None, _PREVIEW_FPS, 1)]
        else:
            saved = [SavedResult(**file) for file in show_images(_context(), images)]
        super().__init__(saved, animated)


class PreviewMask(PreviewImage):
    """Masks that are shown and not kept."""

    def __init__(self, mask: object, animated: bool = False, cls: object = None, **_: object) -> None:  # noqa: FBT001, FBT002 -- as above
        array = np.asarray(from_pack(mask), np.float32)
        masks = array.reshape(-1, *array.shape[-2:])
        super().__init__(np.repeat(masks[..., None], 3, axis=-1), animated, cls)


class PreviewText(Shown):
    """A text that is shown."""

    def __init__(self, value: str, **_: object) -> None:
        super().__init__("text", [value])


class PreviewVideo(Shown):
    """Videos that were written, and are shown."""

    def __init__(self, values: Sequence[Mapping[str, str]], **_: object) -> None:
        super().__init__("images", values, animated=[True])


class PreviewAudio(SavedAudios):
    """Sounds that are shown and not kept."""

    def __init__(self, audio: object, cls: object = None, **_: object) -> None:
        super().__init__(AudioSaveHelper.save_audio(audio, "preview", FolderType.temp, cls))


class PreviewUI3D(Shown):
    """A model in three dimensions that is shown."""

    def __init__(self, model_file: str, camera_info: object = None, **_: object) -> None:
        super().__init__("result", [model_file, camera_info])


class ImageSaveHelper:
    """Writes images. Packs also pass the class of the node, which is not needed."""

    @staticmethod
    def save_images(
        images: object,
        filename_prefix: str,
        folder_type: object,
        cls: object = None,
        compress_level: int = _COMPRESSION,
    ) -> list[SavedResult]:
        """Write each image as a PNG."""
        del cls
        saved = []
        for image in _images(images):
            path, file = _place(filename_prefix, "png", folder_type, image)
            write_png(path, image, metadata(_context()), compress_level)
            saved.append(_result(file))
        return saved

    @staticmethod
    def get_save_images_ui(
        images: object, filename_prefix: str, cls: object = None, compress_level: int = _COMPRESSION
    ) -> SavedImages:
        """Write each image as a PNG, to be shown and kept."""
        return SavedImages(ImageSaveHelper.save_images(images, filename_prefix, FolderType.output, cls, compress_level))

    @staticmethod
    def save_animated_png(
        images: object, filename_prefix: str, folder_type: object, cls: object, fps: float, compress_level: int
    ) -> SavedResult:
        """Write all images as an animated PNG."""
        del cls
        batch = _images(images)
        path, file = _place(filename_prefix, "png", folder_type, batch[0])
        write_animated_png(path, batch, fps, metadata(_context()), compress_level)
        return _result(file)

    @staticmethod
    def save_animated_webp(
        images: object, filename_prefix: str, folder_type: object, cls: object, fps: float,
        lossless: bool, quality: int, method: int,  # noqa: FBT001 -- packs may give it by place
    ) -> SavedResult:  # fmt: skip
        """Write all images as an animated WebP."""
        del cls
        batch = _images(images)
        path, file = _place(filename_prefix, "webp", folder_type, batch[0])
        write_animated_webp(path, batch, fps, metadata(_context()), lossless=lossless, quality=quality, method=method)
        return _result(file)


class AudioSaveHelper:
    """Writes sounds, as FLAC."""

    @staticmethod
    def save_audio(
        audio: Any,
        filename_prefix: str,
        folder_type: object,
        cls: object = None,
        format: str = "flac",  # noqa: A002 -- packs call it so
        **_: object,
    ) -> list[SavedResult]:
        """Write each sound of a batch."""
        del cls
        if format != "flac":
            raise ValueError(f"packs write sounds as flac here, and not as {format!r:.40}")
        saved = []
        waveforms = np.asarray(from_pack(audio["waveform"]), np.float32)
        for waveform in waveforms.reshape(-1, *waveforms.shape[-2:]):
            path, file = _context().new_file(filename_prefix, "flac", _kind(folder_type))
            write_flac(path, waveform, int(audio["sample_rate"]), metadata(_context()))
            saved.append(_result(file))
        return saved

    @staticmethod
    def get_save_audio_ui(audio: object, filename_prefix: str, cls: object = None, **options: Any) -> SavedAudios:
        """Write each sound of a batch, to be shown and kept."""
        return SavedAudios(AudioSaveHelper.save_audio(audio, filename_prefix, FolderType.output, cls, **options))


def _context() -> NodeContext:
    context = current_context()
    if context is None:
        raise RuntimeError("files can only be written while a node is executed")
    return context


def _images(images: object) -> Any:
    array = np.asarray(from_pack(images), np.float32)
    return array[None] if array.ndim == 3 else array  # noqa: PLR2004 -- one image is a batch of one


def _place(prefix: str, extension: str, folder_type: object, image: Any) -> tuple[Path, SavedFile]:
    height, width = image.shape[:2]
    return _context().new_file(prefix, extension, _kind(folder_type), width=width, height=height)


def _kind(folder_type: object) -> str:
    return str(getattr(folder_type, "value", folder_type))


def _result(file: SavedFile) -> SavedResult:
    return SavedResult(file.filename, file.subfolder, file.type)


MEMBERS: Final = {
    kind.__name__: kind
    for kind in (
        AudioSaveHelper, ImageSaveHelper, PreviewAudio, PreviewImage, PreviewMask, PreviewText, PreviewUI3D,
        PreviewVideo, SavedAudios, SavedImages, SavedResult,
    )
}  # fmt: skip
