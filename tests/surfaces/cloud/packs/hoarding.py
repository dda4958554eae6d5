"""A node pack of the tests: it keeps hold of a file that it handed over, and writes on."""

import mmap
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


NODE_CLASS_MAPPINGS = {"HandOver": HandOver, "WriteOn": WriteOn}
