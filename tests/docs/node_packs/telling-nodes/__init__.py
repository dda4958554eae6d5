"""Nodes that show everything a node can tell of itself while it works."""

import time

import comfy.model_management
import comfy.utils
from PIL import Image
from server import PromptServer


class Telling:
    """Tells its steps, shows a picture of each, says a word, and gives its seed on."""

    CATEGORY = "telling"
    FUNCTION = "tell"
    RETURN_TYPES = ("INT",)

    @classmethod
    def INPUT_TYPES(cls):
        """Take a seed and a number of steps."""
        return {
            "required": {"seed": ("INT", {"default": 0}), "steps": ("INT", {"default": 3, "min": 1})},
            "hidden": {"unique_id": "UNIQUE_ID"},
        }

    def tell(self, seed, steps, unique_id):
        """Work, and tell of it."""
        bar = comfy.utils.ProgressBar(steps)
        for step in range(steps):
            time.sleep(0.06)
            picture = Image.new("RGB", (32, 24), (40 * step % 256, 80, 120))
            bar.update_absolute(step + 1, steps, ("PNG" if step % 2 else "JPEG", picture, 32))
        PromptServer.instance.send_progress_text(f"{steps} steps are done", unique_id)
        return (seed,)


class Failing(Telling):
    """Fails, and says why."""

    def tell(self, seed, steps, unique_id):
        """Fail."""
        raise ValueError(f"the seed {seed} is not to its liking")


class Lasting(Telling):
    """Works until nobody wants it to any more."""

    def tell(self, seed, steps, unique_id):
        """Look again and again whether it is wanted."""
        while True:
            time.sleep(0.01)
            comfy.model_management.throw_exception_if_processing_interrupted()


NODE_CLASS_MAPPINGS = {"Telling": Telling, "Failing": Failing, "Lasting": Lasting}
NODE_DISPLAY_NAME_MAPPINGS = {"Telling": "Tell everything"}
