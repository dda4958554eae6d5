import asyncio
import hashlib
import json
import os

import numpy as np
from aiohttp import web
from PIL import Image

import comfy.model_management as mm
import comfy.utils
import folder_paths
import nodes
from comfy.comfy_types import IO, ComfyNodeABC, InputTypeDict
from comfy_execution.graph import ExecutionBlocker
from server import PromptServer


class AnyType(str):
    def __ne__(self, other):
        return False


any_type = AnyType("*")


class AlwaysEqual(str):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


@PromptServer.instance.routes.post("/third-party/hello")
async def hello(request):
    return web.json_response({})


class Brighten(ComfyNodeABC):
    """A picture, progress, previews and text."""

    DESCRIPTION = "Makes a picture brighter."

    @classmethod
    def INPUT_TYPES(cls) -> InputTypeDict:
        return {
            "required": {
                "image": (IO.IMAGE, {"tooltip": "what to make brighter"}),
                "amount": (IO.FLOAT, {"default": 0.1, "min": 0, "max": 1, "step": 0.01}),
                "steps": ("INT", {"default": 3, "min": 1, "max": nodes.MAX_RESOLUTION}),
            },
            "hidden": {"unique_id": "UNIQUE_ID", "prompt": "PROMPT", "extra": "EXTRA_PNGINFO"},
        }

    RETURN_TYPES = ("IMAGE", "STRING")
    RETURN_NAMES = ("image", "report")
    OUTPUT_TOOLTIPS = ("the brighter one", "what was done")
    FUNCTION = "brighten"
    CATEGORY = "third party/pictures"

    def brighten(self, image, amount, steps, unique_id, prompt, extra):
        bar = comfy.utils.ProgressBar(steps)
        for step in range(steps):
            mm.throw_exception_if_processing_interrupted()
            preview = Image.fromarray((np.clip(image[0], 0, 1) * 255).astype(np.uint8))
            bar.update_absolute(step + 1, steps, ("JPEG", preview, 64))
        PromptServer.instance.send_progress_text(f"{steps} steps", unique_id)
        report = {"id": unique_id, "class": prompt[unique_id]["class_type"], "extra": extra}
        return (np.clip(image + amount, 0, 1), json.dumps(report))


class Number:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("INT", {"default": 0})}}

    RETURN_TYPES = ("INT",)
    FUNCTION = "give"
    CATEGORY = "third party"

    def give(self, value):
        return (value,)


class Numbers:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"count": ("INT", {"default": 3})}}

    RETURN_TYPES = ("INT",)
    OUTPUT_IS_LIST = (True,)
    FUNCTION = "give"
    CATEGORY = "third party"

    def give(self, count):
        return (list(range(count)),)


class SumAll:
    """Takes lists as they are, hidden inputs too."""

    INPUT_IS_LIST = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"values": ("INT", {"forceInput": True})}, "hidden": {"unique_id": "UNIQUE_ID"}}

    RETURN_TYPES = ("INT",)
    FUNCTION = "sum"
    CATEGORY = "third party"

    def sum(self, values, unique_id):
        assert isinstance(unique_id, list) and len(unique_id) == 1
        return (sum(values),)


class SlowDouble:
    """Several at the same time."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("INT", {"default": 1})}}

    RETURN_TYPES = ("INT",)
    FUNCTION = "double"
    CATEGORY = "third party"
    waiting = 0
    most = 0

    async def double(self, value):
        SlowDouble.waiting += 1
        SlowDouble.most = max(SlowDouble.most, SlowDouble.waiting)
        await asyncio.sleep(0.01)
        SlowDouble.waiting -= 1
        return (value * 2,)


class LazySwitch:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "on": ("BOOLEAN", {"default": True}),
                "yes": (any_type, {"lazy": True}),
                "no": (any_type, {"lazy": True}),
            }
        }

    RETURN_TYPES = (any_type,)
    FUNCTION = "switch"
    CATEGORY = "third party/logic"

    def check_lazy_status(self, on, yes, no):
        wanted = "yes" if on else "no"
        return [wanted] if {"yes": yes, "no": no}[wanted] is None else []

    def switch(self, on, yes=None, no=None):
        return (yes if on else no,)


class Gate:
    """Blocks, silently or with a word."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (any_type,), "open": ("BOOLEAN", {"default": True}), "message": ("STRING", {})}}

    RETURN_TYPES = (any_type,)
    FUNCTION = "gate"
    CATEGORY = "third party/logic"

    def gate(self, value, open, message):
        if open:
            return (value,)
        return (ExecutionBlocker(message or None),)


class Changing:
    """Its result depends on something outside."""

    world = 0
    calls = 0

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"mode": (["world", "always", "broken"], {"default": "world"})}}

    RETURN_TYPES = ("INT",)
    FUNCTION = "look"
    CATEGORY = "third party"

    @classmethod
    def IS_CHANGED(cls, mode):
        if mode == "always":
            return float("nan")
        if mode == "broken":
            raise RuntimeError("cannot say")
        return hashlib.sha256(str(cls.world).encode()).hexdigest()

    def look(self, mode):
        Changing.calls += 1
        return (Changing.calls,)


class Counter:
    """Keeps something in its instance."""

    NOT_IDEMPOTENT = True

    def __init__(self):
        self.count = 0

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"seed": ("INT", {"default": 0})}}

    RETURN_TYPES = ("INT",)
    FUNCTION = "next"
    CATEGORY = "third party"

    def next(self, seed):
        self.count += 1
        return (self.count,)


class Even:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("INT", {"default": 0, "max": 10}), "other": (AlwaysEqual("*"), {})}}

    @classmethod
    def VALIDATE_INPUTS(cls, value, input_types):
        if value is not None and value % 2:
            return f"{value} is not even"
        if input_types.get("other") == "IMAGE":
            return "no pictures"
        return True

    RETURN_TYPES = ("INT",)
    FUNCTION = "give"
    CATEGORY = "third party"

    def give(self, value, other):
        return (value,)


class Collect:
    """Takes what nobody declared, as long as it is linked."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}, "optional": {"first": ("INT", {"forceInput": True})}}

    RETURN_TYPES = ("STRING",)
    FUNCTION = "collect"
    CATEGORY = "third party"

    @classmethod
    def VALIDATE_INPUTS(cls, **kwargs):
        return True

    def collect(self, **kwargs):
        return (json.dumps(dict(sorted(kwargs.items()))),)


class AnyInputs(dict):
    """Optional inputs of any name."""

    def __contains__(self, name):
        return True

    def __getitem__(self, name):
        return (any_type,)


class Flexible:
    """Takes anything by any name, and shows it though it is not an output node."""

    HAS_INTERMEDIATE_OUTPUT = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}, "optional": AnyInputs()}

    RETURN_TYPES = ("STRING", "INT")
    RETURN_NAMES = "one"
    FUNCTION = "take"
    CATEGORY = "third party"

    def take(self, **kwargs):
        taken = json.dumps(dict(sorted(kwargs.items())))
        return {"ui": {"taken": [taken]}, "result": (taken,)}


class Show:
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": (any_type, {})}}

    RETURN_TYPES = ()
    FUNCTION = "show"
    CATEGORY = "third party"

    def show(self, value):
        return {"ui": {"values": [value]}}


class SavePicture:
    """Writes files by path, as packs do."""

    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "prefix": ("STRING", {"default": "third/party"})}}

    RETURN_TYPES = ()
    FUNCTION = "save"
    CATEGORY = "third party"

    def save(self, image, prefix):
        height, width = image.shape[1:3]
        folder, name, number, subfolder, _ = folder_paths.get_save_image_path(
            prefix, folder_paths.get_output_directory(), width, height
        )
        results = []
        for picture in image:
            file = f"{name}_{number:05}_.png"
            Image.fromarray((picture * 255).astype(np.uint8)).save(os.path.join(folder, file))
            results.append({"filename": file, "subfolder": subfolder, "type": "output"})
            number += 1
        return {"ui": {"images": results}}


class LoadPicture:
    """Reads files by path, as packs do."""

    @classmethod
    def INPUT_TYPES(cls):
        folder = folder_paths.get_input_directory()
        files = [f for f in os.listdir(folder) if os.path.isfile(os.path.join(folder, f))]
        return {"required": {"image": (sorted(files), {"image_upload": True})}}

    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "load"
    CATEGORY = "third party"

    @classmethod
    def IS_CHANGED(cls, image):
        with open(folder_paths.get_annotated_filepath(image), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    @classmethod
    def VALIDATE_INPUTS(cls, image):
        if not folder_paths.exists_annotated_filepath(image):
            return f"Invalid image file: {image}"
        return True

    def load(self, image):
        by_path = os.path.join(folder_paths.get_input_directory(), image)
        assert os.path.isfile(by_path)
        picture = Image.open(folder_paths.get_annotated_filepath(image)).convert("RGB")
        return (np.asarray(picture, np.float32)[None] / 255,)


class Checkpoint:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"name": (folder_paths.get_filename_list("checkpoints"), {})}}

    RETURN_TYPES = ("STRING",)
    FUNCTION = "load"
    CATEGORY = "third party"

    def load(self, name):
        return (folder_paths.get_full_path_or_raise("checkpoints", name),)


class PreviewTwice(nodes.PreviewImage):
    """Derives from a class of the engine."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"images": ("IMAGE",)}, "hidden": {"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"}}

    def save_images(self, images, filename_prefix="twice", prompt=None, extra_pnginfo=None):
        shown = super().save_images(images, filename_prefix, prompt, extra_pnginfo)
        shown["ui"]["images"] *= 2
        return shown


class Interrupting:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}}

    RETURN_TYPES = ("INT",)
    FUNCTION = "stop"
    CATEGORY = "third party"
    DEPRECATED = True
    EXPERIMENTAL = True

    def stop(self):
        raise mm.InterruptProcessingException()


NODE_CLASS_MAPPINGS = {
    f"Party{kind.__name__}": kind
    for kind in (
        Brighten, Number, Numbers, SumAll, SlowDouble, LazySwitch, Gate, Changing, Counter, Even, Collect, Flexible, Show,
        SavePicture, LoadPicture, Checkpoint, PreviewTwice, Interrupting,
    )
}
NODE_DISPLAY_NAME_MAPPINGS = {"PartyBrighten": "Brighten ☀"}
