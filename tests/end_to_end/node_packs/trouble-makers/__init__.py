"""Nodes that do what nodes should not: they are slow, crash, take all memory, or never end."""

import os
import time

import comfy.utils
import folder_paths


class _Passing:
    """A node that takes a number and gives it on."""

    RETURN_TYPES = ("INT",)
    FUNCTION = "run"
    CATEGORY = "trouble"

    @classmethod
    def INPUT_TYPES(cls):
        """Take one number."""
        return {"required": {"value": ("INT", {"default": 0})}}


class Slowly(_Passing):
    """Takes `value` tenths of a second, and says how far it is."""

    def run(self, value):
        """Wait in small steps."""
        bar = comfy.utils.ProgressBar(value)
        for _ in range(value):
            time.sleep(0.1)
            bar.update(1)
        return (value,)


class Crash(_Passing):
    """Ends its process."""

    def run(self, value):
        """End."""
        os._exit(value)


class Hog(_Passing):
    """Wants `value` GiB at once."""

    def run(self, value):
        """Take them."""
        return (len(bytearray(value * 2**30)),)


class Stuck(_Passing):
    """Never ends, and never asks whether it should."""

    def run(self, value):
        """Go round and round."""
        while True:
            value += 1


class Modelled(_Passing):
    """Wants a checkpoint that nobody has."""

    def run(self, value):
        """Look for it."""
        return (len(folder_paths.get_full_path_or_raise("checkpoints", f"nobody-has-{value}.safetensors")),)


class Secrets(_Passing):
    """Shows its environment."""

    RETURN_TYPES = ("STRING",)

    def run(self, value):
        """Gather it."""
        return (repr(sorted(os.environ.items())) + str(value),)


NODE_CLASS_MAPPINGS = {node.__name__: node for node in (Slowly, Crash, Hog, Stuck, Modelled, Secrets)}
