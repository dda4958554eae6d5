"""A node pack that behaves as badly as code of strangers may."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairlead.engine.nodes.context import NamedFaultError
from fairlead.engine.nodes.node_context import NodeContext, current_context


def _own(*parts: str) -> Path:
    return Path(tempfile.gettempdir(), *parts)


def _show(text: object) -> dict[str, Any]:
    return {"ui": {"text": [text]}}


def _server() -> socket.socket:
    """Return the socket to the server: nobody hands it to a node, but it is there."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_socket()]
    sockets = [socket.socket(fileno=os.dup(int(link.name))) for link in links]
    return next(found for found in sockets if _other_end(found) != os.getpid())


def _other_end(found: socket.socket) -> int:
    """Return the process that has made a pair of sockets."""
    return int.from_bytes(found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)


class _Node:
    """What V1 nodes have in common here: one text that says what to do, and nothing to give."""

    RETURN_TYPES: ClassVar[tuple[str, ...]] = ()
    FUNCTION = "run"
    OUTPUT_NODE = True
    CATEGORY = "troubles"
    NOT_IDEMPOTENT = True

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802 -- so packs call it
        """One text."""
        return {"required": {"how": ("STRING", {"default": ""})}}


def _endless(_: str) -> None:
    while True:
        pass


def _greedy(how: str) -> None:
    size = int(how)
    kept = [np.ones(size, np.uint8) for _ in range(64)]
    _show(len(kept))


def _unsafe(address: int) -> None:
    ctypes.c_char.from_address(address).value = b"x"


def _dead(how: str) -> None:
    ways: dict[str, Callable[[], object]] = {
        "exit": lambda: os._exit(7),
        "segmentation fault": lambda: _unsafe(0),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "leave": lambda: sys.exit(3),
    }
    ways[how]()


def _odd(_: str) -> dict[str, Any]:
    endless: list[Any] = []
    endless.append(endless)
    return {
        "ui": {
            "numbers": [np.float32(0.5), np.int64(3), float("nan"), float("inf"), 2**100, True],
            "others": [b"bytes", {1}, Path("a"), np.zeros((2, 3), np.float32), "half \ud800", {1: (2, 3)}],
            "endless": [endless],
        }
    }


def _vast(how: str) -> dict[str, Any]:
    return _show("x" * int(how))


def _talkative(how: str) -> None:
    context = _context()
    for number in range(int(how)):
        context.say(str(number))
    context.preview("image/png", b"picture")
    context.progress(float(np.float32(1)), float("inf"))
    sys.stdout.write("x" * 100_000)
    sys.stderr.write("x" * 100_000)
    os.write(1, b"x" * 100_000)


def _context() -> NodeContext:
    context = current_context()
    assert context is not None
    return context


def _environment(_: str) -> dict[str, Any]:
    return _show(dict(os.environ))


def _garbage(how: str) -> None:
    _server().sendall(bytes.fromhex(how))
    time.sleep(60)


def _family(_: str) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    _own("..", "..", "..", "child").write_text(str(child.pid))
    os._exit(7)


def _gripping(_: str) -> None:
    """Hold on to the interpreter, so that no other thread of the process gets a turn."""
    ctypes.PyDLL(None).sleep(1000)


def _raise_named(how: str) -> None:
    raise NamedFaultError(how, "as asked")


def _thief(how: str) -> dict[str, Any]:
    """Have the server keep a file that is not the node's."""
    path, saved = _context().new_file("stolen", "txt")
    path.symlink_to(how)
    return _show(saved.filename)


def _writer(how: str) -> dict[str, Any]:
    path, saved = _context().new_file("written/%year%", ".txt")
    path.write_text(how)
    left, _ = _context().named_file("other.txt", "temp")
    assert not left.exists()
    if how == "fail":
        raise ValueError("after all")
    return _show(saved.as_ui())


def _reader(how: str) -> dict[str, Any]:
    return _show(_context().input_file(how).read_text())


def _kind(name: str, run: Callable[[str], Any], **more: Any) -> type:
    return type(name, (_Node,), {"run": lambda _self, how: run(how), **more})


class Unwilling(_Node):
    """Does as it is told before it is executed."""

    @classmethod
    def VALIDATE_INPUTS(cls, how: str) -> bool | str:  # noqa: N802 -- so packs call it
        """Die, never end, or say no."""
        if how == "die":
            os._exit(7)
        if how == "endless":
            _endless(how)
        return how if how != "yes" else True

    def run(self, how: str) -> dict[str, Any]:
        """Show what it was told."""
        return _show(how)


class Asynchronous(_Node):
    """Asks for a model, and for a file, in the event loop."""

    async def run(self, how: str) -> dict[str, Any]:
        """Show what the model and the file say."""
        reply = await _context().run_model("model/one", how.encode())
        second = await _context().run_model("model/one", how.encode())
        file = _context().input_file("in.txt").read_text()
        return _show([reply.body.decode(), second.body.decode(), reply.files[""].read_text(), file])


class Costly(_Node):
    """Counts how often it was really executed in this process."""

    NOT_IDEMPOTENT = False
    calls = 0

    def run(self, how: str) -> dict[str, Any]:
        """Show the count and the process."""
        del how
        Costly.calls += 1
        return _show([Costly.calls, os.getpid()])


NODE_CLASS_MAPPINGS = {
    "Endless": _kind("Endless", _endless),
    "Greedy": _kind("Greedy", _greedy),
    "Dead": _kind("Dead", _dead),
    "Odd": _kind("Odd", _odd),
    "Vast": _kind("Vast", _vast),
    "Talkative": _kind("Talkative", _talkative),
    "Environment": _kind("Environment", _environment),
    "Garbage": _kind("Garbage", _garbage),
    "Family": _kind("Family", _family),
    "Gripping": _kind("Gripping", _gripping),
    "Named": _kind("Named", _raise_named),
    "Thief": _kind("Thief", _thief),
    "Writer": _kind("Writer", _writer),
    "Reader": _kind("Reader", _reader),
    "Unwilling": Unwilling,
    "Asynchronous": Asynchronous,
    "Costly": Costly,
}
