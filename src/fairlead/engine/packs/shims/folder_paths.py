"""`folder_paths` as packs import it: folders of files and of models, and what lies in them."""

import mimetypes
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fairlead.engine.nodes.context import NoSuchFileError
from fairlead.engine.nodes.files import fill_prefix
from fairlead.engine.nodes.node_context import current_context
from fairlead.engine.packs.folders import PackFolders

MODEL_EXTENSIONS: Final = frozenset({".ckpt", ".pt", ".pt2", ".bin", ".pth", ".safetensors", ".pkl", ".sft", ".gguf"})
_LISTED_MAX: Final = 100_000
_DEPTH_MAX: Final = 16
_OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType({"unet": "diffusion_models", "clip": "text_encoders"})
_MODEL_FOLDERS: Final = (
    "checkpoints", "configs", "loras", "vae", "text_encoders", "diffusion_models", "clip_vision", "style_models",
    "embeddings", "diffusers", "vae_approx", "controlnet", "gligen", "upscale_models", "hypernetworks", "photomaker",
    "classifiers", "model_patches", "audio_encoders",
)  # fmt: skip


class ModelDownloadError(FileNotFoundError):
    """A workflow needs a model that this installation does not have."""

    exception_type: Final = "ModelDownloadError"


class FolderPaths:
    """The functions of `folder_paths`. The folders of models are those next to the packs, and what packs add."""

    def __init__(self, folders: PackFolders) -> None:
        self._folders = folders
        self._models: dict[str, tuple[list[str], set[str]]] = {
            name: ([str(root / name) for root in folders.models], set(MODEL_EXTENSIONS)) for name in _MODEL_FOLDERS
        }

    def members(self) -> dict[str, object]:
        """Everything the module has, by name."""
        functions = {name: getattr(self, name) for name in dir(self) if not name.startswith("_") and name != "members"}
        roots = [str(root) for root in self._folders.models]
        return {
            **functions,
            "models_dir": roots[0] if roots else "",
            "base_path": str(Path(roots[0]).parent) if roots else "",
            "folder_names_and_paths": self._models,
            "supported_pt_extensions": set(MODEL_EXTENSIONS),
        }

    # Folders of files.

    def get_input_directory(self) -> str:
        """The folder where packs look for inputs by path; what a node is given by name is laid there before."""
        return str(self._folders.path("input"))

    def get_output_directory(self) -> str:
        """The folder where packs write results. What a node shows of it becomes a file of the job."""
        return str(self._folders.path("output"))

    def get_temp_directory(self) -> str:
        """The folder where packs write what is not kept."""
        return str(self._folders.path("temp"))

    def get_user_directory(self) -> str:
        """A folder for what packs keep: no longer than the host lives."""
        return str(self._folders.path("temp"))

    def get_directory_by_type(self, type_name: str) -> str | None:
        """The folder called input, output or temp; None for another."""
        return str(self._folders.path(type_name)) if type_name in {"input", "output", "temp"} else None

    def annotated_filepath(self, name: str) -> tuple[str, str | None]:
        """A name without its folder, and the folder; None when it names none."""
        kind, bare = self._folders.parse_name(name)
        return (bare, None) if bare == name else (bare, str(self._folders.path(kind)))

    def get_annotated_filepath(self, name: str, default_dir: str | None = None) -> str:
        """The path of a file a caller named; NoSuchFileError for one there is not."""
        context = current_context()
        if context is not None and default_dir is None:
            return str(self._folders.stage(name, context))
        kind, bare = self._folders.parse_name(name)
        folder = Path(default_dir) if default_dir is not None else self._folders.path(kind)
        return str(_within(folder, bare))

    def exists_annotated_filepath(self, name: str) -> bool:
        """Whether there is a file of a name."""
        context = current_context()
        try:
            return context is not None and bool(context.input_file(name))
        except NoSuchFileError:
            return False

    def get_save_image_path(
        self, filename_prefix: str, output_dir: str, image_width: int = 0, image_height: int = 0
    ) -> tuple[str, str, int, str, str]:
        """Where to write the next file of a prefix: its folder, the beginning of its name, its number, its subfolder.

        The last is the prefix. ValueError for a prefix that leads out of the folder.
        """
        prefix = fill_prefix(filename_prefix, {"width": image_width, "height": image_height})
        path = _within(Path(output_dir), prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        subfolder = path.parent.relative_to(Path(os.path.normpath(output_dir))).as_posix()
        numbers = re.compile(rf"{re.escape(path.name)}_(\d{{1,9}})(?=[_.]|$)")
        found = (numbers.match(entry.name) for entry in os.scandir(path.parent))
        number = max((int(match[1]) for match in found if match), default=0) + 1
        return str(path.parent), path.name, number, "" if subfolder == "." else subfolder, filename_prefix

    def filter_files_content_types(self, files: Iterable[str], content_types: Sequence[str]) -> list[str]:
        """The names of the files that are image, video, audio or model, by their extensions."""
        return [name for name in files if _content(name) in content_types]

    def filter_files_extensions(self, files: Iterable[str], extensions: Iterable[str]) -> list[str]:
        """The names with one of some extensions, in order; without extensions all."""
        wanted = {extension.lower() for extension in extensions}
        return sorted(name for name in files if not wanted or Path(name).suffix.lower() in wanted)

    # Folders of models.

    def add_model_folder_path(self, folder_name: str, full_folder_path: str, is_default: bool = False) -> None:  # noqa: FBT001, FBT002 -- packs may give it by place
        """Look for models of a kind in another folder as well, with `is_default` there first."""
        folders, _ = self._models.setdefault(_current_name(folder_name), ([], set()))
        if full_folder_path not in folders:
            folders.insert(0 if is_default else len(folders), full_folder_path)

    def get_folder_paths(self, folder_name: str) -> list[str]:
        """The folders with models of a kind. KeyError for a kind nobody has named."""
        return list(self._models[_current_name(folder_name)][0])

    def get_filename_list(self, folder_name: str) -> list[str]:
        """The models of a kind, in alphabetical order; none when there is no such folder."""
        folders, extensions = self._models.get(_current_name(folder_name), ([], set()))
        names = (name for folder in folders for name in _files_below(Path(folder)))
        return sorted({name for name in names if not extensions or Path(name).suffix.lower() in extensions})

    def get_full_path(self, folder_name: str, filename: str) -> str | None:
        """The path of a model, or None."""
        for folder in self._models.get(_current_name(folder_name), ([], set()))[0]:
            try:
                path = _within(Path(folder), filename)
            except ValueError:
                return None
            if path.is_file():
                return str(path)
        return None

    def get_full_path_or_raise(self, folder_name: str, filename: str) -> str:
        """The path of a model. ModelDownloadError (C-12) when there is none: models are not downloaded here."""
        found = self.get_full_path(folder_name, filename)
        if found is None:
            raise ModelDownloadError(f"this installation has no model {filename} in {folder_name}")
        return found


def _within(folder: Path, name: str) -> Path:
    root = Path(os.path.normpath(folder))
    path = Path(os.path.normpath(root / name))
    if not path.is_relative_to(root):
        raise ValueError(f"{name!r:.200} leads out of its folder")
    return path


def _files_below(root: Path) -> Iterator[str]:
    """The names of files by their paths below a folder; only so many, and only so deep."""
    left = _LISTED_MAX
    for folder, folders, files in os.walk(root, followlinks=True):
        below = Path(folder).relative_to(root)
        folders[:] = [] if len(below.parts) >= _DEPTH_MAX else [name for name in folders if not name.startswith(".")]
        for name in files[: max(left, 0)]:
            yield (below / name).as_posix()
        left -= len(files)


def _current_name(folder_name: str) -> str:
    return _OLD_NAMES.get(folder_name, folder_name)


def _content(name: str) -> str:
    if Path(name).suffix.lower() in MODEL_EXTENSIONS:
        return "model"
    return (mimetypes.guess_type(name, strict=False)[0] or "").partition("/")[0]
