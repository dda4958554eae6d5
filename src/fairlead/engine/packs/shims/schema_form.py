"""The schema form of nodes (V3) as packs import it: `from comfy_api.latest import io`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Final

from fairlead.engine.nodes.node import Blocked
from fairlead.engine.packs.shims import schema_types
from fairlead.engine.packs.shims.schema_types import Input, Output, WidgetInput


class ComfyType:
    """A type of values: its name, what it is in Python, its inputs and outputs."""

    io_type: ClassVar[str] = "*"
    Type: ClassVar[object] = object
    Input: ClassVar[type[Input]] = Input
    Output: ClassVar[type[Output]] = Output


def made_type(
    io_type: str, input_: type[Input] = Input, output: type[Output] = Output, **members: object
) -> type[ComfyType]:
    """A type of a name, with the inputs and outputs of a kind."""
    name = {"io_type": io_type}
    own = {"Input": type("Input", (input_,), name), "Output": type("Output", (output,), name)}
    return type(io_type, (ComfyType,), {**name, **own, **members})


@cache
def custom(io_type: str) -> type[ComfyType]:
    """A type of a pack's own."""
    return made_type(io_type)


def comfytype(io_type: str, **_: object) -> Callable[[type], type]:
    """Make a class of a pack a type of a name; what it has itself stays."""

    def name_parts(kind: type) -> type:
        for name, value in vars(made_type(io_type)).items():
            if name in {"io_type", "Input", "Output"} and name not in vars(kind):
                setattr(kind, name, value)
        for part in (vars(kind)["Input"], vars(kind)["Output"]):
            part.io_type = io_type
        return kind

    return name_parts


class FolderType(StrEnum):
    """Where files are."""

    input = "input"
    output = "output"
    temp = "temp"


class UploadType(StrEnum):
    """What a widget lets people upload."""

    image = "image_upload"
    audio = "audio_upload"
    video = "video_upload"
    model = "file_upload"


class NumberDisplay(StrEnum):
    """How a number is shown."""

    number = "number"
    slider = "slider"
    gradient_slider = "gradientslider"
    color = "color"


class ControlAfterGenerate(StrEnum):
    """What happens to a seed after it was used."""

    fixed = "fixed"
    increment = "increment"
    decrement = "decrement"
    randomize = "randomize"


class RemoteOptions:
    """Choices that an editor asks for at a route."""

    def __init__(self, route: str, refresh_button: bool, control_after_refresh: str = "first", **more: object) -> None:  # noqa: FBT001 -- packs may give it by place
        self._told = {
            "route": route, "refresh_button": refresh_button, "control_after_refresh": control_after_refresh, **more
        }  # fmt: skip

    def as_dict(self) -> dict[str, object]:
        """The choices as editors read them."""
        return {name: value for name, value in self._told.items() if value is not None}


class Hidden(StrEnum):
    """Hidden inputs, by name; the value is the kind."""

    unique_id = "UNIQUE_ID"
    prompt = "PROMPT"
    extra_pnginfo = "EXTRA_PNGINFO"
    dynprompt = "DYNPROMPT"
    auth_token_comfy_org = "AUTH_TOKEN_COMFY_ORG"  # noqa: S105 -- the name of one
    api_key_comfy_org = "API_KEY_COMFY_ORG"


class HiddenHolder:
    """The values of hidden inputs by name; those a class has not asked for are None."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._values.get(name)


@dataclass
class Schema:
    """Everything a class of nodes says about itself."""

    node_id: str
    display_name: str | None = None
    category: str = "sd"
    inputs: Sequence[Input] = ()
    outputs: Sequence[Output] = ()
    hidden: Sequence[Hidden] = ()
    description: str = ""
    search_aliases: Sequence[str] = ()
    is_input_list: bool = False
    is_output_node: bool = False
    is_deprecated: bool = False
    is_experimental: bool = False
    is_dev_only: bool = False
    is_api_node: bool = False
    not_idempotent: bool = False
    enable_expand: bool = False
    accept_all_inputs: bool = False
    essentials_category: str | None = None
    has_intermediate_output: bool = False
    price_badge: object = None


class NodeOutput:
    """What a node gives: values, something to show, a graph in its place, or why it blocks the nodes after it."""

    def __init__(
        self,
        *args: object,
        ui: Any = None,
        expand: Mapping[str, object] | None = None,
        block_execution: str | None = None,
    ) -> None:
        self.args = args
        self.ui = ui
        self.expand = expand
        self.block_execution = block_execution

    @property
    def result(self) -> object:
        """The values; None when there are none."""
        return self.args or None

    def __getitem__(self, index: int) -> object:
        return self.args[index]


class UIOutput:
    """Something to show; packs derive from it."""

    def as_dict(self) -> dict[str, object]:
        """It as it is shown."""
        raise NotImplementedError(f"{type(self).__name__} has no as_dict")


class ComfyNode:
    """What classes of nodes derive from. `hidden` holds the hidden inputs while one is executed."""

    hidden: ClassVar[HiddenHolder] = HiddenHolder({})

    @classmethod
    def define_schema(cls) -> Schema:
        """Say what the class is."""
        raise NotImplementedError(f"{cls.__name__} has no define_schema")

    @classmethod
    def execute(cls, **kwargs: object) -> object:
        """Execute a node."""
        raise NotImplementedError(f"{cls.__name__} has no execute")

    @classmethod
    def check_lazy_status(cls, **kwargs: object) -> list[str]:
        """Name the lazy inputs that are needed: all, unless a class knows better."""
        return [name for name, value in kwargs.items() if value is None]

    @classmethod
    def GET_SCHEMA(cls) -> Schema:  # noqa: N802 -- packs call it so
        """The schema, for packs that ask each other."""
        return cls.define_schema()


_WIDGETS: Final = {"Int": "INT", "Float": "FLOAT", "String": "STRING", "Boolean": "BOOLEAN", "Color": "COLOR"}
_SOCKETS: Final = {
    "Image": "IMAGE", "Mask": "MASK", "Latent": "LATENT", "Audio": "AUDIO", "Video": "VIDEO", "SVG": "SVG",
    "Conditioning": "CONDITIONING", "Sampler": "SAMPLER", "Sigmas": "SIGMAS", "Noise": "NOISE", "Guider": "GUIDER",
    "Clip": "CLIP", "ClipVision": "CLIP_VISION", "ClipVisionOutput": "CLIP_VISION_OUTPUT", "Vae": "VAE",
    "Model": "MODEL", "ControlNet": "CONTROL_NET", "StyleModel": "STYLE_MODEL", "Gligen": "GLIGEN",
    "UpscaleModel": "UPSCALE_MODEL", "LatentUpscaleModel": "LATENT_UPSCALE_MODEL", "LoraModel": "LORA_MODEL",
    "LossMap": "LOSS_MAP", "Hooks": "HOOKS", "HookKeyframes": "HOOK_KEYFRAMES", "TimestepsRange": "TIMESTEPS_RANGE",
    "LatentOperation": "LATENT_OPERATION", "FlowControl": "FLOW_CONTROL", "Accumulation": "ACCUMULATION",
    "Load3D": "LOAD_3D", "Load3DAnimation": "LOAD_3D_ANIMATION", "Load3DCamera": "LOAD3D_CAMERA", "Photomaker":
    "PHOTOMAKER", "Point": "POINT", "FaceAnalysis": "FACE_ANALYSIS", "BBOX": "BBOX", "SEGS": "SEGS", "Mesh": "MESH",
    "Voxel": "VOXEL", "AnyType": "*", "Webcam": "WEBCAM", "BoundingBox": "BOUNDING_BOX", "Curve": "CURVE",
    "ImageCompare": "IMAGECOMPARE", "Dict": "DICT", "Array": "ARRAY",
}  # fmt: skip


def _members() -> dict[str, object]:
    """Everything `io` has, by name."""
    types = {name: made_type(io_type, WidgetInput) for name, io_type in _WIDGETS.items()}
    types |= {name: custom(io_type) for name, io_type in _SOCKETS.items()}
    types["Combo"] = made_type("COMBO", schema_types.ComboInput)
    types["MultiCombo"] = made_type("COMBO", schema_types.MultiComboInput)
    types["MultiType"] = made_type("COMFY_MULTITYPED_V3", schema_types.MultiTypeInput)
    types["MatchType"] = made_type(
        "COMFY_MATCHTYPE_V3", schema_types.MatchTypeInput, schema_types.MatchTypeOutput,
        Template=schema_types.MatchTemplate,
    )  # fmt: skip
    types["Autogrow"] = made_type(
        "COMFY_AUTOGROW_V3", schema_types.AutogrowInput, TemplatePrefix=schema_types.TemplatePrefix,
        TemplateNames=schema_types.TemplateNames,
    )  # fmt: skip
    types["DynamicCombo"] = made_type(
        "COMFY_DYNAMICCOMBO_V3", schema_types.DynamicComboInput, Option=schema_types.DynamicOption
    )
    rest = (
        ComfyNode, ComfyType, ControlAfterGenerate, FolderType, Hidden, HiddenHolder, Input, NodeOutput, NumberDisplay,
        Output, RemoteOptions, Schema, UploadType, WidgetInput,
    )  # fmt: skip
    named = {kind.__name__: kind for kind in rest}
    return {
        **types,
        **named,
        "Custom": custom,
        "comfytype": comfytype,
        "_UIOutput": UIOutput,
        "ComfyTypeIO": ComfyType,
        "ExecutionBlocker": Blocked,
    }


MEMBERS: Final = _members()
