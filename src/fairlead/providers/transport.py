"""The one place that opens connections to partners. Foreign errors end here, in three of our own.

Redirects are never followed (they would carry our credentials along), encodings are declined, every wait and every
body has a bound.
"""

import functools
from collections.abc import Mapping
from typing import Final

import aiohttp
from yarl import URL

from fairlead.providers.classify import Reply

_CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 60.0
_HEADER_BYTES: Final = 32 * 1024


class TransportError(Exception):
    """No usable answer came back."""


class UnreachableError(TransportError):
    """No connection could be made: the partner has certainly not begun to work."""


class TooSlowError(TransportError):
    """The partner did not answer in time; whether it worked is unknown."""


class BrokenOffError(TransportError):
    """The connection broke, or the answer was malformed or too large; whether the partner worked is unknown."""


class Transport:
    """A pool of connections to partners."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None, *, seconds: float, limit: int
    ) -> Reply:
        """Make one request and read the whole answer: within `seconds`, `limit` in bytes."""
        session = self._session or self._open()
        try:
            response = await session.request(
                method,
                _url(url),
                data=content,
                headers=headers,
                allow_redirects=False,
                timeout=_timeout(seconds),
            )
            body = await _read_bounded(response, limit)
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(str(error)) from error
        except TimeoutError as error:
            kind = UnreachableError if isinstance(error, aiohttp.ConnectionTimeoutError) else TooSlowError
            raise kind(f"no answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise BrokenOffError(str(error) or type(error).__name__) from error
        return Reply(response.status, response.headers, body)

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
            headers={"Accept-Encoding": "identity", "User-Agent": "fairlead"},
            skip_auto_headers=("Accept",),
        )
        return self._session


@functools.lru_cache(maxsize=4096)
def _url(text: str) -> URL:
    """The parsed form of an address; a provider has few, and polling asks the same one again and again."""
    return URL(text, encoded=True)


@functools.lru_cache(maxsize=256)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)


async def _read_bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read a body of at most `limit` bytes; BrokenOffError for a larger or an encoded one.

    A body that was read whole gives its connection back; any other end closes it.
    """
    try:
        return await _read(response, limit)
    except BaseException:
        response.close()
        raise


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise BrokenOffError("the answer is encoded, though that was declined")
    length = response.content_length
    if length is not None and length <= limit:
        return await response.read()
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            raise BrokenOffError(f"the answer passes {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
