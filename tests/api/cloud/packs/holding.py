"""A node pack of the tests: nodes that hold their job until it is stopped, and one that fails."""

import asyncio
from importlib import import_module
from typing import Any, ClassVar


class HoldOn:
    """Shows that it began, and holds on."""

    RETURN_TYPES: ClassVar[tuple[str, ...]] = ()
    FUNCTION = "hold_on"
    OUTPUT_NODE = True
    CATEGORY = "tests"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802 -- the name node packs use
        """Return the inputs: a number, so that two of them are different."""
        return {"required": {"number": ("INT", {"default": 0})}}

    async def hold_on(self, number: int) -> dict[str, Any]:
        """Hold on for longer than any test takes."""
        await asyncio.sleep(600)
        return {"ui": {"number": [number]}}


class HoldPicture:
    """Shows a preview, and holds on."""

    RETURN_TYPES: ClassVar[tuple[str, ...]] = ()
    FUNCTION = "hold_picture"
    OUTPUT_NODE = True
    CATEGORY = "tests"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802 -- the name node packs use
        """Return the inputs: none."""
        return {"required": {}}

    async def hold_picture(self) -> dict[str, Any]:
        """Show a small picture, and hold on for longer than any test takes."""
        picture = import_module("PIL.Image").new("RGB", (8, 8))
        import_module("comfy.utils").ProgressBar(2).update_absolute(1, 2, ("PNG", picture, 8))
        await asyncio.sleep(600)
        return {}


class FallOver:
    """Fails."""

    RETURN_TYPES: ClassVar[tuple[str, ...]] = ()
    FUNCTION = "fall_over"
    OUTPUT_NODE = True
    CATEGORY = "tests"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802 -- the name node packs use
        """Return the inputs: the words to fail with."""
        return {"required": {"words": ("STRING", {"default": ""})}}

    def fall_over(self, words: str) -> None:
        """Fail with the words."""
        raise ValueError(words)


NODE_CLASS_MAPPINGS = {"HoldOn": HoldOn, "HoldPicture": HoldPicture, "FallOver": FallOver}
