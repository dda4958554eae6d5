"""A node pack of the tests: it keeps hold of a file that it handed over and writes on, and tampers with its inputs."""

import mmap
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO, Any, ClassVar

_open: list[tuple[IO[bytes], mmap.mmap]] = []


class HandOver:
    """Hands over a file, and keeps a writable descriptor and a writable mapping of it."""

    RETURN_TYPES: ClassVar[tuple[str, ...]] = ("STRING",)
    FUNCTION = "hand_over"
    OUTPUT_NODE = True
    CATEGORY = "tests"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802 -- the name node packs use
        """Return the inputs: the name and the text of the file."""
        return {"required": {"name": ("STRING", {}), "text": ("STRING", {})}}

    def hand_over(self, name: str, text: str) -> dict[str, Any]:
        """Write the file."""
        file = (Path(import_module("folder_paths").get_output_directory()) / name).open("w+b")
        file.write(text.encode())
        file.flush()
        _open.append((file, mmap.mmap(file.fileno(), 0)))
        return {"ui": {"images": [{"filename": name, "subfolder": "", "type": "output"}]}, "result": (name,)}


class WriteOn:
    """Writes through what was kept of every file that was handed over."""

    RETURN_TYPES: ClassVar[tuple[str, ...]] = ()
    FUNCTION = "write_on"
    OUTPUT_NODE = True
    CATEGORY = "tests"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802 -- the name node packs use
        """Return the inputs: what tells that the file was handed over."""
        return {"required": {"after": ("STRING", {})}}

    def write_on(self, after: str) -> dict[str, Any]:
        """Write other bytes, and say of how many files."""
        del after
        for file, mapping in _open:
            mapping[:4] = b"MINE"
            mapping.flush()
            file.seek(4)
            file.write(b" NOW")
            file.flush()
        return {"ui": {"written": [len(_open)]}}


class Tamper:
    """Tries every way to change the file behind an input."""

    RETURN_TYPES: ClassVar[tuple[str, ...]] = ()
    FUNCTION = "tamper"
    OUTPUT_NODE = True
    CATEGORY = "tests"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802 -- the name node packs use
        """Return the inputs: the name of a file."""
        return {"required": {"name": ("STRING", {})}}

    def tamper(self, name: str) -> dict[str, Any]:
        """Say what of the file could be read, and which ways led to it."""
        folders = import_module("folder_paths")
        path = os.path.realpath(folders.get_annotated_filepath(name))
        with open(path, "rb") as file:  # noqa: PTH123 -- as packs do it
            read = len(file.read())
            through = f"/proc/self/fd/{file.fileno()}"
            ways: dict[str, Callable[[], object]] = {
                "write": lambda: os.open(path, os.O_WRONLY),
                "append": lambda: os.open(path, os.O_WRONLY | os.O_APPEND),
                "reopen": lambda: os.open(through, os.O_RDWR),
                "truncate": lambda: os.truncate(path, 1),
                "cut": lambda: os.open(path, os.O_RDONLY | os.O_TRUNC),
                "link": lambda: os.link(path, Path(folders.get_output_directory()) / "link"),
                "move": lambda: os.rename(path, Path(folders.get_output_directory()) / "moved"),  # noqa: PTH104 -- likewise
                "replace": lambda: os.rename(__file__, path),  # noqa: PTH104 -- likewise
                "delete": lambda: os.unlink(path),  # noqa: PTH108 -- likewise
                "list": lambda: os.listdir(os.path.dirname(path)),  # noqa: PTH208, PTH120 -- likewise
            }
            found = [way for way, attempt in ways.items() if _leads_on(attempt)]
        _leads_on(lambda: os.chmod(path, 0))  # noqa: PTH101 -- whether it is done or only answered so, nobody may notice
        return {"ui": {"read": [read], "ways": found}}


def _leads_on(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


NODE_CLASS_MAPPINGS = {"HandOver": HandOver, "WriteOn": WriteOn, "Tamper": Tamper}
