"""The process that reads large bodies: `python -m fairlead.documents.program --fd N`.

It answers one examination after another over its socket. A message is its length in eight bytes, and then so many: an
examination and the body it is about come as two messages, what was found goes back as one. It keeps nothing of a body.
"""

import resource
import socket
import struct
import sys
from typing import Final

import msgspec

from fairlead.documents.examining import Examination, examine

LENGTH: Final = struct.Struct("!Q")
_MEMORY_BYTES: Final = 3 * 2**30
"""What a body of a gigabyte may not take; one that would ends the process, and is refused."""


def main() -> None:
    """Serve until the other end is closed."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1])) as line:
        while (asked := _received(line)) is not None and (content := _received(line)) is not None:
            found = msgspec.json.encode(examine(msgspec.json.decode(asked, type=Examination), content))
            line.sendall(LENGTH.pack(len(found)) + found)


def _received(line: socket.socket) -> bytes | None:
    head = _exactly(line, LENGTH.size)
    return None if head is None else _exactly(line, LENGTH.unpack(head)[0])


def _exactly(line: socket.socket, size: int) -> bytes | None:
    content, got = bytearray(size), 0
    while got < size:
        if not (read := line.recv_into(memoryview(content)[got:])):
            return None
        got += read
    return bytes(content)


if __name__ == "__main__":
    main()
