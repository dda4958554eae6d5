"""Nodes that do what nodes should not: they are slow, crash, take all memory, or never end."""

import ctypes
import mmap
import os
import resource
import socket as sockets
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


class Hostile(_Passing):
    """Does what a pack must not: reaches others, changes files, takes memory that nobody counts, stays forever."""

    RETURN_TYPES = ("STRING",)

    @classmethod
    def INPUT_TYPES(cls):
        """Take the folder of the server's data, its port, and a Unix socket."""
        return {"required": {"data": ("STRING", {}), "port": ("INT", {"default": 0}), "socket": ("STRING", {})}}

    def run(self, data, port, socket):
        """Tell what went well, and the number of the process that was left behind."""
        database = f"{data}/fairlead.db"
        attempts = {
            "sniff": lambda: sockets.socket(sockets.AF_PACKET, sockets.SOCK_RAW, 0x0300).close(),
            "raw": lambda: sockets.socket(sockets.AF_INET, sockets.SOCK_RAW, 6).close(),
            "port": lambda: self.connect(sockets.AF_INET, ("127.0.0.1", port)),
            "unix": lambda: self.connect(sockets.AF_UNIX, socket),
            "memory": lambda: mmap.mmap(-1, 1 << 30),
            "file in memory": lambda: os.memfd_create("x"),
            "/dev/shm": lambda: open("/dev/shm/fairlead-attack", "w").close(),
            "limits of the server": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3)),
            "mode": lambda: os.chmod(database, 0o666) or os.stat(database).st_mode & 0o077 or self.fail(),
            "watch": lambda: ctypes.CDLL(None).inotify_init() >= 0 or self.fail(),
            "user": lambda: os.setuid(12345),
            "trace": lambda: ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0 or self.fail(),
            "namespace": lambda: ctypes.CDLL(None).unshare(0x10000000) == 0 or self.fail(),
        }
        done = []
        for name, attempt in attempts.items():
            try:
                attempt()
            except OSError:
                continue
            done.append(name)
        return (" ".join([*done, f"left:{self.leave()}"]),)

    def fail(self):
        """Say that nothing came of it."""
        raise OSError

    def connect(self, family, address):
        """Connect to somebody."""
        with sockets.socket(family) as made:
            made.settimeout(2)
            made.connect(address)

    def leave(self):
        """Leave a process behind."""
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.setsid()
            pid = os.fork()
            if pid == 0:
                os.closerange(0, 100)
                time.sleep(600)
                os._exit(0)
            os.write(writing, str(pid).encode())
            os._exit(0)
        os.wait()
        return os.read(reading, 100).decode()


NODE_CLASS_MAPPINGS = {node.__name__: node for node in (Slowly, Crash, Hog, Stuck, Modelled, Secrets, Burglar, Hostile)}
