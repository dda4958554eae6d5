"""The process that reads large documents: `python -m fairlead.documents.program --fd N`.

It answers one question after another over its socket. A message is its length in eight bytes, then its content: a
question and its document come as two messages. The answer is one message, then the number of requested parts, then each
part as a message. Nothing of a document is kept.
"""

import resource
import socket
import struct
import sys
from typing import Final

import msgspec

from fairlead.documents.examining import Question, answer_to

LENGTH: Final = struct.Struct("!Q")
_MEMORY_BYTES: Final = 3 * 2**30
"""Enough for a document of a gigabyte; one that needs more ends the process and is refused."""


def main() -> None:
    """Serve until the other end is closed."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    questions = msgspec.json.Decoder(Question)
    with socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1])) as line:
        while (asked := _receive(line)) is not None and (content := _receive(line)) is not None:
            found, parts = answer_to(questions.decode(asked), content)
            _send(line, msgspec.json.encode(found))
            line.sendall(LENGTH.pack(len(parts)))
            for part in parts:
                _send(line, part)
            del content, found, parts


def _send(line: socket.socket, message: bytes) -> None:
    line.sendall(LENGTH.pack(len(message)))
    line.sendall(message)


def _receive(line: socket.socket) -> bytes | None:
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
