"""/ws with a real server, a real database and clients of the protocol: who may watch, and what watchers are told."""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest
import uvloop
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from api.cloud.watching import JOB, NOW, ServerFixture, picture, place, run_server
from fairlead.api.cloud.wire import FEATURES
from fairlead.clock import Clock
from fairlead.domain.jobs.events import (
    Cached,
    Executed,
    Executing,
    Failed,
    Failure,
    Finished,
    Notice,
    Progress,
    ProgressText,
    QueueChanged,
    Started,
    Succeeded,
)
from fairlead.messaging.event_hub import HubLimits
from fairlead.observing.observations import FaultAnswered
from fairlead.operations.accounts.keys import revoke_key
from fairlead.storage.db.opening import open_database

pytestmark = pytest.mark.req("C-08")

Scene = Callable[[ServerFixture], Awaitable[None]]
Play = Callable[..., None]
_GARBAGE: Final = (
    "",
    "no JSON",
    "[]",
    '{"type":"feature_flags"}',
    '{"type":"feature_flags","data":{"supports_preview_metadata":"yes"}}',
    '{"type":"feature_flags","data":[]}',
    '{"type":7}',
    '{"type":"run","data":{}}',
    '{"type":"\\ud800","data":{}}',
    "[" * 30_000,
    b"\x00\x01\x02",
)
"""What a client might say first; bytes are not a message, so that the next one is the first."""


@pytest.fixture
def play(sqlite_url: str) -> Iterator[Play]:
    """Return a function that plays a scene with a server, in the event loop servers use."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        async def whole(scene: Scene, **options: Any) -> None:
            database = open_database(sqlite_url)
            try:
                async with run_server(database, **options) as server:
                    await scene(server)
            finally:
                await database.close()

        yield lambda scene, **options: runner.run(whole(scene, **options))


def test_run_is_told_in_the_documented_order(play: Play) -> None:
    """What happens to a job arrives in the order clients rely on; the last word comes after the status."""

    async def scene(server: ServerFixture) -> None:
        async with server.watching() as client:
            server.tell(Started(), Cached(["1"]), Executing(place()), Progress(place(), 1, 2))
            server.tell(Executed(place(), {"images": []}), Finished(place()), Succeeded())
            server.tell(QueueChanged(0), job=None)
            assert await client.kinds(11) == [
                "execution_start",
                "execution_cached",
                "progress_state",
                "executing",
                "progress",
                "progress_state",
                "executed",
                "progress_state",
                "execution_success",
                "status",
                "executing",
            ]

    play(scene)


@pytest.mark.parametrize("path", ["/ws", "/api/ws"])
def test_greeting_says_how_much_waits_and_who_the_client_is(play: Play, path: str) -> None:
    """A client is told how much waits, and who it is: whatever it says it is, or else something new."""

    async def scene(server: ServerFixture) -> None:
        server.remaining = 4
        for given in ("", "me", "ä" * 500):
            url = server.url(path, token=server.key, clientId=given)
            async with connect(url, compression=None, proxy=None) as connection:
                told = json.loads(await connection.recv())
            sid = told["data"].pop("sid")
            assert sid == "me" if given == "me" else 30 < len(sid) < 40
            assert told == {
                "type": "status",
                "data": {"status": {"exec_info": {"queue_remaining": 4}}, "queue_remaining": 4},
            }

    play(scene)


def test_newcomer_is_told_what_is_executed(play: Play) -> None:
    """Who comes in the middle of a job is told what is executed, with the job's id."""

    async def scene(server: ServerFixture) -> None:
        server.tell(Started(), Executing(place("3")))
        async with server.watching() as client:
            assert await client.message() == {
                "type": "executing",
                "data": {"node": "3", "display_node": "3", "prompt_id": JOB},
            }

    play(scene)


def test_sockets_of_one_client_are_all_told(play: Play) -> None:
    """All sockets of a workspace are told the same, also with the same clientId, also when the first one closes."""

    async def scene(server: ServerFixture) -> None:
        _, stranger = await server.new_workspace("elsewhere")
        async with server.watching(clientId="me") as second, server.watching(key=stranger.text) as other:
            async with server.watching(clientId="me") as first, server.watching() as third:
                server.tell(Started())
                told = [await client.message() for client in (first, second, third)]
                assert told == [{"type": "execution_start", "data": {"prompt_id": JOB, "timestamp": NOW}}] * 3
            server.tell(Succeeded())
            assert (await second.message())["type"] == "execution_success"
            server.tell(Notice("Only you."), job=None, workspace_id="elsewhere")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(other.connection.recv(), 0.05)

    play(scene)


@pytest.mark.parametrize("query", ["", "?token=", "?token=flk_wrong", "?token=a.b.c", "?token=" + quote("ключ")])
def test_socket_needs_a_valid_key(play: Play, query: str) -> None:
    """Without a good key nothing is opened: the answer is 401, in the envelope of the API."""

    async def scene(server: ServerFixture) -> None:
        with pytest.raises(InvalidStatus) as caught:
            async with connect(f"ws://127.0.0.1:{server.port}/ws{query}", proxy=None):
                pass
        response = caught.value.response
        assert response.status_code == 401
        (told,) = [one for one in server.seen if isinstance(one, FaultAnswered)]
        assert (response.headers["x-service-request-id"], told.result) == (told.request_id, "unauthorized")
        assert response.headers["content-type"] == "application/json"
        assert json.loads(response.body or b"")["error"]["type"] == "unauthorized"

    play(scene)


def test_key_in_a_header_opens_a_socket(play: Play) -> None:
    """A client that can send headers may send its key there."""

    async def scene(server: ServerFixture) -> None:
        for headers in ({"X-API-Key": server.key}, {"Authorization": f"Bearer {server.key}"}):
            async with connect(server.url(), additional_headers=headers, proxy=None) as connection:
                assert json.loads(await connection.recv())["type"] == "status"

    play(scene)


def test_socket_of_a_revoked_key_is_closed(play: Play) -> None:
    """A credential is looked at again and again; when it is not good any more, its sockets are closed."""

    async def scene(server: ServerFixture) -> None:
        async with server.watching() as client:
            await revoke_key(server.database, server.key_id, Clock())
            assert await client.wait_for_close() == (1008, "The credential is not valid any more.")

    play(scene, recheck=0.05)


def test_number_of_sockets_is_bounded(play: Play) -> None:
    """One socket too many is refused with 429, and the others go on."""

    async def scene(server: ServerFixture) -> None:
        async with server.watching() as client:
            with pytest.raises(InvalidStatus) as caught:
                async with server.watching():
                    pass
            assert caught.value.response.status_code == 429
            server.tell(Started())
            assert await client.kinds(1) == ["execution_start"]

    play(scene, limits=HubLimits(per_workspace=1))


@pytest.mark.req("C-09")
def test_client_is_sent_only_what_it_can_read(play: Play) -> None:
    """Frames have metadata for a client that has said that it reads them, from then on; the server says what it can."""

    async def scene(server: ServerFixture) -> None:
        async with server.watching() as plain, server.watching() as knowing:
            server.tell(picture(3))
            assert await knowing.frame() == struct.pack(">II", 1, 2) + bytes(3)
            told = await knowing.shake_hands(supports_preview_metadata=True, supports_progress_text_metadata=True)
            assert told == {"type": "feature_flags", "data": dict(FEATURES)}
            server.tell(picture(3), ProgressText(place(), "half"))
            assert [struct.unpack(">I", (await knowing.frame())[:4]) for _ in range(2)] == [(4,), (3,)]
            await plain.frame()
            assert await plain.frame() == struct.pack(">II", 1, 2) + bytes(3)
            assert await plain.frame() == struct.pack(">II", 3, 1) + b"7half"

    play(scene)


def test_garbage_from_a_client_is_ignored(play: Play) -> None:
    """What is not a handshake is ignored, and only the first message can be one."""

    async def scene(server: ServerFixture) -> None:
        for said in _GARBAGE:
            async with server.watching() as client:
                await client.connection.send(said)
                await client.connection.send('{"type":"feature_flags","data":{"supports_preview_metadata":true}}')
                await asyncio.sleep(0.02)
                server.tell(picture(1), Started())
                while isinstance(content := await client.next(), str):
                    assert "feature_flags" in content
                wants = 4 if isinstance(said, bytes) else 1
                assert struct.unpack(">I", content[:4]) == (wants,)
                assert await client.kinds(1) == ["execution_start"]

    play(scene)


def test_talkative_client_is_told_everything(play: Play) -> None:
    """A client that says more than anybody wants to hear is read slowly, and told everything meanwhile."""

    async def scene(server: ServerFixture) -> None:
        async with server.watching() as client:
            for number in range(50):
                await client.connection.send(f'{{"type":"ping","number":{number}}}')
            server.tell(Started(), Succeeded())
            assert await client.kinds(2) == ["execution_start", "execution_success"]

    play(scene)


def test_sockets_work_under_a_server_without_extensions(play: Play) -> None:
    """Under a server that knows no extension, messages are sent as messages, and a refusal is a closing."""

    async def scene(server: ServerFixture) -> None:
        for key, is_good in ((server.key, True), ("flk_wrong", False)):
            said: asyncio.Queue[Any] = asyncio.Queue()
            told: asyncio.Queue[Any] = asyncio.Queue()
            said.put_nowait({"type": "websocket.connect"})
            scope = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b"token=" + key.encode()}
            served = asyncio.create_task(server.api(scope, said.get, told.put, "an id"))
            if is_good:
                assert await told.get() == {"type": "websocket.accept"}
                assert "queue_remaining" in (await told.get())["text"]
                server.tell(picture(1), Started())
                assert (await told.get())["bytes"] == struct.pack(">II", 1, 2) + bytes(1)
                assert "execution_start" in (await told.get())["text"]
                said.put_nowait({"type": "websocket.disconnect", "code": 1000})
            else:
                assert await told.get() == {"type": "websocket.close", "code": 1008}
            await served

    play(scene)


@pytest.mark.parametrize(
    ("first", "content", "code"),
    [
        (0x81, b"x" * 70_000, 1009),
        (0x81, b"\xff\xfe", 1007),
        (0x83, b"x", 1002),
        (0xF1, b"x", 1002),
        (0x80, b"x", 1002),
        (0x89, b"x" * 126, 1002),
    ],
    ids=["too long", "no UTF-8", "unknown opcode", "reserved bits", "a part of nothing", "a long ping"],
)
def test_client_that_breaks_the_protocol_is_closed_alone(play: Play, first: int, content: bytes, code: int) -> None:
    """It is closed with the code of the protocol, and nobody else notices."""

    async def scene(server: ServerFixture) -> None:
        async with server.watching() as neighbour, server.raw() as client:
            await client.head()
            client.send(first, content)
            assert (await client.closing())[0] == code
            server.tell(Started())
            assert await neighbour.kinds(1) == ["execution_start"]

    play(scene)


@pytest.mark.parametrize(
    ("begin", "first", "frames"),
    [(b"", 0x81, 20_000), (b"\x01\x80" + bytes(4), 0x00, 3_000)],
    ids=["messages", "parts of one"],
)
def test_flood_of_small_messages_closes_the_socket(play: Play, begin: bytes, first: int, frames: int) -> None:
    """Too many messages at once, or too many fragments of one, close the socket."""

    async def scene(server: ServerFixture) -> None:
        async with server.raw() as client:
            await client.head()
            client.writer.write(begin + (bytes([first, 0x80]) + bytes(4)) * frames)
            assert (await client.closing())[0] == 1008

    play(scene)


def test_answers_to_pings_are_bounded(play: Play) -> None:
    """A client that sends pings and never reads is not answered forever."""

    async def scene(server: ServerFixture) -> None:
        async with server.raw(buffer=4096) as client:
            await client.head()
            ping = b"\x89\xfd" + bytes(4) + bytes(125)
            for _ in range(20):
                client.writer.write(ping * 4_000)
                await asyncio.wait_for(client.writer.drain(), 10)
            await asyncio.sleep(0.05)
            assert max(_unsent(server)) < 1_000_000

    play(scene)


def test_slow_client_does_not_delay_its_neighbours(play: Play) -> None:
    """A client that does not read is closed when too much waits for it; until then and after, others are told all."""

    async def scene(server: ServerFixture) -> None:
        async with server.raw(buffer=4096) as slow:
            await slow.head()
            async with server.watching() as quick:
                said = 0
                while said < 2_000 and _sockets(server) == 2:
                    server.tell(Executed(place(), {"text": ["x" * 20_000]}))
                    said += 1
                    assert (await quick.message())["type"] == "executed"
                assert said < 2_000
                server.tell(Succeeded())
                assert await quick.kinds(1) == ["execution_success"]

    play(scene, limits=HubLimits(waiting_bytes=200_000))


def test_slow_client_is_told_why_it_was_closed(play: Play) -> None:
    """One that was too slow and reads on in time finds the code and the reason at the end of what was sent."""

    async def scene(server: ServerFixture) -> None:
        async with server.raw(buffer=4096) as slow:
            await slow.head()
            said = 0
            while said < 2_000 and _sockets(server) == 1:
                server.tell(Executed(place(), {"text": ["x" * 20_000]}))
                said += 1
                await asyncio.sleep(0)
            assert await slow.closing() == (1013, "What happens is not read as fast as it happens.")

    play(scene, limits=HubLimits(waiting_bytes=200_000))


def test_stopping_server_closes_its_sockets(play: Play) -> None:
    """When the server stops, sockets are told so; one that never answers is cut, and does not hold the server up."""

    async def scene(server: ServerFixture) -> None:
        async with server.raw() as raw:
            await raw.head()
            async with server.watching() as client:
                server.tell(Started())
                assert await client.kinds(1) == ["execution_start"]
                server.web.should_exit = True
                assert await client.wait_for_close() == (1001, "The server stops.")
            assert (await raw.rest()).endswith(struct.pack(">H", 1001) + b"The server stops.")

    play(scene)


def test_silent_socket_stays_open(play: Play) -> None:
    """However long nothing happens, a socket stays; a connection that asks for nothing does not."""

    async def scene(server: ServerFixture) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with server.watching() as client:
            assert await asyncio.wait_for(reader.read(), 10) == b""
            server.tell(Started())
            assert await client.kinds(1) == ["execution_start"]
        writer.close()

    play(scene, patience=0.1)


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [(b"\xff", b"", b"400"), (b"x" * 9_000, b"", b"414"), (b"x", b"A: b\r\n" * 200, b"431")],
    ids=["no ASCII", "too long", "too many headers"],
)
def test_malformed_request_is_answered_and_closed(play: Play, target: bytes, headers: bytes, status: bytes) -> None:
    """It is answered, and its connection is closed."""

    async def scene(server: ServerFixture) -> None:
        async with server.raw(b"/ws?token=" + target, headers=headers) as client:
            assert (await client.rest()).startswith(b"HTTP/1.1 " + status)
            assert _sockets(server) == 0

    play(scene)


def test_key_in_an_address_is_not_logged(play: Play, capfd: pytest.CaptureFixture[str]) -> None:
    """The address of a socket has a key in it, and is written nowhere."""

    async def scene(server: ServerFixture) -> None:
        async with server.watching() as client:
            server.tell(Started())
            await client.kinds(1)
        with pytest.raises(InvalidStatus):
            await connect(server.url(token="flk_wrong"), proxy=None)
        written = capfd.readouterr()
        assert server.key not in written.err + written.out
        assert "flk_wrong" not in written.err + written.out

    play(scene)


def test_failed_job_is_told_with_its_reason(play: Play) -> None:
    """An error arrives with its type and words."""

    async def scene(server: ServerFixture) -> None:
        async with server.watching() as client:
            server.tell(Failed(Failure(place(), "Load", "OOMError", "Too large.", ["line"], {}, [])))
            data = (await client.message())["data"]
            assert (data["exception_type"], data["exception_message"], data["prompt_id"]) == (
                "OOMError",
                "Too large.",
                JOB,
            )

    play(scene)


def _sockets(server: ServerFixture) -> int:
    """How many watch."""
    return sum(len(listeners) for listeners in server.event_hub._subscriptions.values())


def _unsent(server: ServerFixture) -> list[int]:
    """How many bytes wait in the server to be sent, by connection."""
    return [connection.transport.get_write_buffer_size() for connection in server.web.server_state.connections]
