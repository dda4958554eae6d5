"""uvicorn's WebSocket connection for `serve`: everything has a bound, and encoded broadcasts are written unchanged.

uvicorn leaves open how much a client may send before it is read, how much may wait for one that does not read, and how
long the end of a connection may take. Compression is off: it would be made again for each of a thousand sockets.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import uvicorn
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame
from websockets.http11 import Request

from fairlead.api.http.asgi import FRAMES, MESSAGE_BYTES_MAX

_UNREAD_MAX: Final = 64
_FRAGMENTS_MAX: Final = 1_000
_FAREWELL_SECONDS: Final = 2.0
"""How long a client has to answer a closing frame, and to read what was sent before it."""
_PING_SECONDS: Final = 20.0


def configure_sockets(config: uvicorn.Config) -> None:
    """Let a server have WebSockets."""
    config.ws = SocketProtocol
    config.ws_max_size = MESSAGE_BYTES_MAX
    config.ws_ping_interval = _PING_SECONDS
    config.ws_ping_timeout = _PING_SECONDS
    config.ws_per_message_deflate = False


class SocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket connection. An application may send messages of type FRAMES, and its closing is never held up."""

    _has_failed = False

    @property
    def is_open(self) -> bool:
        """Whether a WebSocket is requested or in use: pings find out whether the client is still there."""
        return self.handshake_initiated and not self.close_sent and not self.transport.is_closing()

    def hang_up(self) -> None:
        """End the connection at once, whatever waits to be sent."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read what has come. A request that cannot be read is answered; uvicorn would leave it where it is."""
        if self._has_failed:
            return
        super().data_received(data)
        if not self.handshake_initiated:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_connect(self, event: Request) -> None:
        """Begin, and tell the application which further messages can be sent."""
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[FRAMES] = {}

    def handle_cont(self, event: Frame) -> None:
        """Take a part of a message; a message of endless empty parts has no size that would end it."""
        if len(self.frames) < _FRAGMENTS_MAX:
            super().handle_cont(event)
        else:
            self._fail("A message may not come in so many parts.")

    def handle_ping(self) -> None:
        """Answer, but do not let answers pile up that nobody reads."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            # Taken and dropped: otherwise the answer would go out with the next frame.
            self.conn.data_to_send()

    def send_receive_event_to_app(self) -> None:
        """Pass a message on; one chunk of bytes may hold thousands of small ones."""
        if self.queue.qsize() < _UNREAD_MAX:
            super().send_receive_event_to_app()
        else:
            self._fail("So many messages at once are not read.")

    def keepalive_timeout(self) -> None:
        """Close the connection of a client that has left; what waits for it would never be sent."""
        super().keepalive_timeout()
        self.loop.call_later(_FAREWELL_SECONDS, self.transport.abort)

    def handle_parser_exception(self) -> None:
        """Close the connection of a client that breaks the protocol.

        What it goes on to send is thrown away for a moment: a connection that is closed on unread bytes is reset, and
        the client would never read why.
        """
        self._has_failed = True
        closed = self.conn.close_sent
        if closed is not None:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": closed.code, "reason": closed.reason})
        self._say_farewell()

    def shutdown(self) -> None:
        """Close with the code for a server that stops."""
        self.stop_keepalive()
        if self.handshake_complete:
            self._close(1001, "The server stops.")
        else:
            super().shutdown()

    async def send(self, message: Any) -> None:
        """Send what the application sends."""
        if message["type"] == FRAMES:
            if not self.writable.is_set():
                await self.writable.wait()
            self._write(message["frames"])
        elif message["type"] == "websocket.close" and self.handshake_complete:
            # Do not wait until everything before it is sent: a client that is closed often no longer reads.
            self._close(message.get("code", 1000), message.get("reason") or "")
        else:
            if self.close_sent:
                raise ClientDisconnected
            await super().send(message)

    def _write(self, frames: Sequence[bytes]) -> None:
        if self.disconnected or self.close_sent:
            raise ClientDisconnected
        if len(frames) == 1:
            self.transport.write(frames[0])
        else:
            self.transport.writelines(frames)

    def _close(self, code: int, reason: str) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        with suppress(InvalidState):  # the client is closing already
            self.conn.send_close(code, reason)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self._say_farewell()

    def _say_farewell(self) -> None:
        """Send the closing frame, read on for its answer, and hang up soon, whatever the client does."""
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.stop_keepalive()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(_FAREWELL_SECONDS, self.transport.abort)

    def _fail(self, reason: str) -> None:
        if not self.close_sent:
            self.conn.fail(1008, reason)
            self.handle_parser_exception()
