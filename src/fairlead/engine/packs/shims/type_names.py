"""`comfy.comfy_types` as packs import it: names of types, and base classes of nodes."""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias

InputTypeDict: TypeAlias = dict[str, object]


class IO(StrEnum):
    """The types of inputs and outputs."""

    STRING = "STRING"
    IMAGE = "IMAGE"
    MASK = "MASK"
    LATENT = "LATENT"
    BOOLEAN = "BOOLEAN"
    INT = "INT"
    FLOAT = "FLOAT"
    COMBO = "COMBO"
    CONDITIONING = "CONDITIONING"
    SAMPLER = "SAMPLER"
    SIGMAS = "SIGMAS"
    GUIDER = "GUIDER"
    NOISE = "NOISE"
    CLIP = "CLIP"
    CONTROL_NET = "CONTROL_NET"
    VAE = "VAE"
    MODEL = "MODEL"
    LORA_MODEL = "LORA_MODEL"
    LOSS_MAP = "LOSS_MAP"
    CLIP_VISION = "CLIP_VISION"
    CLIP_VISION_OUTPUT = "CLIP_VISION_OUTPUT"
    STYLE_MODEL = "STYLE_MODEL"
    GLIGEN = "GLIGEN"
    UPSCALE_MODEL = "UPSCALE_MODEL"
    AUDIO = "AUDIO"
    WEBCAM = "WEBCAM"
    POINT = "POINT"
    FACE_ANALYSIS = "FACE_ANALYSIS"
    BBOX = "BBOX"
    SEGS = "SEGS"
    VIDEO = "VIDEO"
    ANY = "*"
    NUMBER = "FLOAT,INT"
    PRIMITIVE = "STRING,FLOAT,INT,BOOLEAN"


class ComfyNodeABC(ABC):
    """A base class of nodes."""

    DESCRIPTION: ClassVar[str]
    CATEGORY: ClassVar[str]
    FUNCTION: ClassVar[str]

    @classmethod
    @abstractmethod
    def INPUT_TYPES(cls) -> InputTypeDict:  # noqa: N802 -- packs call it so
        """Declare the inputs."""


class CheckLazyMixin:
    """A check of lazy inputs that needs all of them."""

    def check_lazy_status(self, **kwargs: object) -> list[str]:
        """Name those that are not known yet."""
        return [name for name, value in kwargs.items() if value is None]


MEMBERS: Final = {
    "IO": IO,
    "ComfyNodeABC": ComfyNodeABC,
    "CheckLazyMixin": CheckLazyMixin,
    **dict.fromkeys(("InputTypeDict", "InputTypeOptions", "HiddenInputTypeDict", "FileLocator"), dict[str, object]),
}
