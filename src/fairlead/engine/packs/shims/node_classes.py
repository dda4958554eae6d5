"""`nodes` as packs import it: all classes by name, and a few to derive from."""

import secrets
import string
from collections.abc import Iterable
from typing import ClassVar, Final

from fairlead.engine.nodes.node import Blocked, Definition, Result
from fairlead.engine.nodes.node_context import current_context
from fairlead.engine.nodes.registry import describe
from fairlead.engine.packs.calling import complete
from fairlead.engine.packs.shims.shown import ImageSaveHelper
from fairlead.engine.packs.tensors import for_pack, from_pack

EDGE_MAX: Final = 16384


class OwnNode:
    """One of our own nodes as a class that packs can look at, and call where it needs nothing but values."""

    DEFINITION: ClassVar[Definition]
    FUNCTION: ClassVar[str] = "call"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, object]:  # noqa: N802 -- packs call it so
        """The inputs as editors read them."""
        inputs: dict[str, object] = describe(cls.DEFINITION)["input"]
        return inputs

    def call(self, **inputs: object) -> object:
        """Call the node, from within another."""
        converted = {name: from_pack(value) for name, value in inputs.items()}
        given = complete(self.DEFINITION.run(**converted, **self._context()))
        values = given.values if isinstance(given, Result) else given if isinstance(given, tuple) else (given,)
        results = tuple(value if isinstance(value, Blocked) else for_pack(value) for value in values)
        return {"ui": dict(given.ui), "result": results} if isinstance(given, Result) and given.ui else results

    def _context(self) -> dict[str, object]:
        return {"context": current_context()} if self.DEFINITION.takes_context else {}


class SavingNode(OwnNode):
    """A node that saves images. Packs derive from it, and change where and how."""

    FUNCTION = "save_images"

    def __init__(self) -> None:
        self.type = "output"
        self.prefix_append = ""
        self.compress_level = 4

    def save_images(
        self, images: object, filename_prefix: str = "ComfyUI", prompt: object = None, extra_pnginfo: object = None
    ) -> dict[str, object]:
        """Save each image as a PNG; the texts in it are those of the node's hidden inputs."""
        del prompt, extra_pnginfo
        prefix = f"{filename_prefix}{self.prefix_append}"
        return {"ui": {"images": ImageSaveHelper.save_images(images, prefix, self.type, None, self.compress_level)}}


class PreviewingNode(SavingNode):
    """A node that shows images."""

    def __init__(self) -> None:
        super().__init__()
        self.type = "temp"
        self.prefix_append = "_temp_" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))
        self.compress_level = 1


class LoadingNode(OwnNode):
    """A node that loads an image."""

    FUNCTION = "load_image"

    def load_image(self, image: str) -> object:
        """The images of a file, and as their mask what is transparent."""
        return self.call(image=image)


_BASES: Final[dict[str, type[OwnNode]]] = {
    "SaveImage": SavingNode,
    "PreviewImage": PreviewingNode,
    "LoadImage": LoadingNode,
}


def class_of(definition: Definition) -> type[OwnNode]:
    """A node of ours as a class."""
    members = {
        "DEFINITION": definition,
        "CATEGORY": definition.category,
        "RETURN_TYPES": tuple(output.type for output in definition.outputs),
        "RETURN_NAMES": tuple(output.name or output.type for output in definition.outputs),
        "OUTPUT_IS_LIST": tuple(bool(output.is_list) for output in definition.outputs),
        "OUTPUT_NODE": definition.is_output,
        "INPUT_IS_LIST": definition.is_input_list,
    }
    return type(definition.name, (_BASES.get(definition.name, OwnNode),), members)


def members(definitions: Iterable[Definition]) -> dict[str, object]:
    """Everything the module has, by name; packs are added to its mappings as they are loaded."""
    listed = list(definitions)
    classes: dict[str, object] = {definition.name: class_of(definition) for definition in listed}
    return {
        "NODE_CLASS_MAPPINGS": classes,
        "NODE_DISPLAY_NAME_MAPPINGS": {definition.name: definition.title for definition in listed},
        "EXTENSION_WEB_DIRS": {},
        "MAX_RESOLUTION": EDGE_MAX,
        **{name: classes[name] for name in _BASES if name in classes},
    }
