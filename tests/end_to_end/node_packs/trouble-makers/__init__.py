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


class Burglar(_Passing):
    """Tries the doors of the house: files of the server, its process, its folders."""

    RETURN_TYPES = ("STRING",)

    @classmethod
    def INPUT_TYPES(cls):
        """Take the folder of the server's data."""
        return {"required": {"data": ("STRING", {})}}

    def run(self, data):
        """Tell which doors were open."""
        parent = os.getppid()
        doors = {
            "secret": lambda: open(f"{data}/secret-key", "rb").read(),
            "key": lambda: open(f"{data}/first-key", "rb").read(),
            "database": lambda: open(f"{data}/fairlead.db", "rb").read(100),
            "blobs": lambda: os.listdir(f"{data}/blobs"),
            "others": lambda: os.listdir(f"{data}/scratch"),
            "environment": lambda: open(f"/proc/{parent}/environ", "rb").read(),
            "memory": lambda: open(f"/proc/{parent}/mem", "rb").read(1),
            "kill": lambda: os.kill(parent, 0),
            "write": lambda: open(f"{data}/left-behind", "w").close(),
            "home": lambda: os.listdir(os.path.expanduser("~")),
        }
        opened = []
        for name, door in doors.items():
            try:
                found = door()
            except OSError:
                continue
            if found != b"":  # nothing to be read is as good as shut
                opened.append(name)
        return (" ".join(opened),)


NODE_CLASS_MAPPINGS = {node.__name__: node for node in (Slowly, Crash, Hog, Stuck, Modelled, Secrets, Burglar)}
