"""What a caller with a key of its own tries: documents, headers, pictures and queues that keep others waiting."""

import asyncio
import io
import json
import socket
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import httpx
import PIL.Image

from attacks.witness import GRAPH
from attacks.world import Attack, Verdict, World, environment
from end_to_end.workflow_clients import ENDED, WorkflowClient, graph_showing
from fake_partner import Request, reply
from servers import serving, wait_until

MIB: Final = 2**20
ERROR_BYTES_MAX: Final = 64 * 1024
_GROWTH_MAX: Final = 400 * MIB
"""What a server may grow by while documents of 60 MiB come in, a few at a time."""
_RUN: Final = "/v2/models/local/procedural-text-1"
_PARTNER_MODEL: Final = "/v2/models/fake/json-1"
_TOO_LARGE: Final = 431
_PREVIEWS: Final = 9
_EDGE: Final = 6_000
_PATIENCE: Final = 180.0
_HEAD_SECONDS: Final = 40.0
_LONG_SECONDS: Final = 600
_LONG_JOBS: Final = 5
_HOSTS: Final = 2
"""The default of `FAIRLEAD_ENGINE_HOSTS`."""
_SHORT_JOBS: Final = 10
_POISONED: Final = 30
"""Six times as many as cool a key down."""
_WAIT_MAX: Final = 1.0
"""The seconds that another workspace's job may wait for a place that nobody can be asked to give back."""

# Documents.


def large_documents(world: World) -> Verdict:
    """Send documents of very many values to everything that reads JSON."""
    sizes = (5 * MIB, 60 * MIB) if world.is_full else (2 * MIB,)
    before, answers = world.memory(), []
    for size in sizes:
        values = b"[" + b"{}," * (size // 3) + b"{}]"
        for path, document in (
            (_RUN, b'{"prompt":%b}'),
            (f"{_RUN}/estimate", b'{"prompt":%b}'),
            (f"{_RUN}/requests", b'{"prompt":%b}'),
            ("/api/prompt", b'{"prompt":%b}'),
            ("/api/v2/jobs", b'{"workflow":%b}'),
        ):
            answers.append((path, _post(world.attacker, path, document % values)))
    growth = world.memory() - before
    refused = [answer.is_client_error and len(answer.content) <= ERROR_BYTES_MAX for _, answer in answers]
    found = ", ".join(f"{path.rpartition('/')[2]} {answer.status_code}" for path, answer in answers)
    return Verdict(all(refused) and growth < _GROWTH_MAX, f"{found}; grew by {growth / MIB:.0f} MiB")


def deep_and_long_documents(world: World) -> Verdict:
    """Send nesting without end, one huge text, and one number of a million digits."""
    size = (20 if world.is_full else 1) * MIB
    documents = (
        b'{"prompt":' + b"[" * size,
        b'{"prompt":"' + b"a" * size + b'"}',
        b'{"prompt":"' + b"\\u00e9" * (size // 6) + b'"}',
        b'{"seed":' + b"9" * min(size, 10**6) + b"}",
        b"{" + b",".join(b'"k%d":0' % number for number in range(size // 12)) + b"}",
    )
    answers = [_post(world.attacker, path, document) for document in documents for path in (_RUN, "/api/prompt")]
    refused = [answer.status_code < 500 and len(answer.content) <= ERROR_BYTES_MAX for answer in answers]
    return Verdict(all(refused), ", ".join(str(answer.status_code) for answer in answers))


def large_accepted_documents(world: World) -> Verdict:
    """Send long texts that are taken: as bodies of runs, at once and queued, and as workflows."""
    body, workflow = ((size if world.is_full else MIB) - 4096 for size in (60 * MIB, 16 * MIB))
    graph = b'{"1":{"class_type":"PrimitiveString","inputs":{"value":"%b"}},'
    graph += b'"2":{"class_type":"PreviewAny","inputs":{"source":["1",0]}}}'
    world.partner.script("/json", reply(200, b'{"made":true}'))
    answers = []
    for character in (b"a", "é".encode(), b"\\n"):
        for path, document, size in (
            (_PARTNER_MODEL, b'{"prompt":"%b"}', body),
            (f"{_PARTNER_MODEL}/requests", b'{"prompt":"%b"}', body),
            ("/api/prompt", b'{"prompt":' + graph + b"}", workflow),
            ("/api/v2/jobs", b'{"workflow":' + graph + b"}", workflow),
        ):
            answers.append((path, _post(world.attacker, path, document % (character * (size // len(character))))))
    world.partner.reset()
    found = ", ".join(f"{path.rpartition('/')[2]} {answer.status_code}" for path, answer in answers)
    return Verdict(all(answer.is_success for _, answer in answers), found)


def large_partner_answer(world: World) -> Verdict:
    """Have a partner answer with a document of very many values, then with long texts, which reach the caller."""
    size = (60 if world.is_full else 4) * MIB
    many = b'{"made":[' + b"{}," * (size // 3) + b"{}]}"
    texts = [b'{"made":"%b"}' % text for text in (b"a" * (size - 99), b"\\n" * (size // 2 - 99))]
    answers = []
    for content in (many, *texts):
        world.partner.script("/json", reply(200, content))
        answers.append(_post(world.attacker, _PARTNER_MODEL, b'{"prompt":"a harbour"}'))
        world.partner.reset()
    refused, *taken = answers
    held = refused.status_code == httpx.codes.BAD_GATEWAY
    held = held and all(answer.content == sent for answer, sent in zip(taken, texts, strict=True))
    return Verdict(held, ", ".join(f"{answer.status_code}, {len(answer.content):,} bytes" for answer in answers))


def endless_headers(world: World) -> Verdict:
    """Send 96 MiB of small headers on one connection, without a key; and a head that never ends."""
    before = world.memory()
    line = b"x-%06d: y\r\n"
    chunk = b"".join(line % number for number in range(6_000))
    sent, answer = 0, b""
    with _connect(world) as connection, suppress(OSError):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(96 * MIB // len(chunk) if world.is_full else 20):
            connection.sendall(chunk)
            sent += len(chunk)
        answer = connection.recv(4096)
    growth = world.memory() - before
    status = answer.split(b" ")[1].decode() if answer.count(b" ") else "hung up"
    return Verdict(growth < 16 * MIB, f"{status} after {sent / MIB:.1f} MiB; grew by {growth / MIB:.0f} MiB")


# Shares.


def many_previews(world: World) -> Verdict:
    """Ask for nine previews of a picture that takes long to decode, at the same moment."""
    content = io.BytesIO()
    edge = _EDGE if world.is_full else _EDGE // 6
    PIL.Image.effect_noise((edge, edge), 80).convert("RGB").save(content, "PNG", compress_level=1)
    name = world.attacker.upload(content.getvalue(), "large.png")
    view = {"filename": name, "type": "input", "preview": "webp;90"}
    answers = _at_once([lambda: _view(world.attacker, view)] * _PREVIEWS)
    statuses = sorted(answer.status_code for answer in answers)
    return Verdict(all(status < 600 for status in statuses), f"answered {statuses}")


def crowded_queue(world: World) -> Verdict:
    """Submit a hundred jobs before two others submit twenty each; whose end first from then on?"""
    crowd, few, counted = (100, 20, 32) if world.is_full else (24, 8, 12)
    with _newcomer(world) as second, _newcomer(world) as third:
        clients = (world.attacker, second, third)
        jobs = [_submit(client, count) for client, count in zip(clients, (crowd, few, few), strict=True)]
        began = datetime.now(UTC)
        ended = sorted(end for client, own in zip(clients, jobs, strict=True) for end in _ends(client, own))
    first = [workspace for moment, workspace in ended if moment >= began][:counted]
    shares = [first.count(client.workspace) for client in clients]
    return Verdict(min(shares[1:]) >= counted // 3 - 2, f"of the first {counted} to end: {shares}")


def long_jobs(world: World) -> Verdict:
    """Hold every engine place with long jobs, and have more of them wait; how long do another's jobs wait meanwhile?"""
    long = graph_showing("Slowly", given=json.dumps({"seconds": _LONG_SECONDS, "turn": uuid.uuid4().hex}))
    waits = []
    with _newcomer(world) as other:
        jobs = [world.attacker.submit(long) for _ in range(_LONG_JOBS)]
        try:
            wait_until(lambda: _count_under_way(world.attacker, jobs) == _HOSTS, "the long jobs", _PATIENCE)
            for _ in range(_SHORT_JOBS):
                ended = other.run(GRAPH)
                waits.append((ended["execution_start_time"] - ended["create_time"]) / 1000)
            holds_all = _count_under_way(world.attacker, jobs) == _HOSTS
        finally:
            world.attacker.http.post("/api/queue", json={"delete": jobs})
            for job in jobs:
                world.attacker.wait_for_end(job)
    # Where the machine does other things as well, such as in the test suite, only who came first is judged.
    held = holds_all and (max(waits) < _WAIT_MAX or not world.is_full)
    return Verdict(held, f"{len(waits)} of another waited {max(waits):.2f} s at most; all places held: {holds_all}")


def poisoned_bodies(world: World) -> Verdict:
    """Send bodies at which a partner fails, more than its key may have; another's good ones must go on reaching it."""
    world.partner.script("/json", _fail_at_poison)
    poison, good = b'{"prompt":"poison"}', b'{"prompt":"a harbour"}'
    theirs: Counter[int] = Counter()
    mine: Counter[int] = Counter()
    try:
        for _ in range(_POISONED if world.is_full else _POISONED // 3):
            mine[_post(world.attacker, _PARTNER_MODEL, poison).status_code] += 1
            theirs[_post(world.bystander, _PARTNER_MODEL, good).status_code] += 1
    finally:
        world.partner.reset()
        operator = (world.server.data / "first-operator-key").read_text("ascii").strip()
        httpx.post(f"{world.server.url}/api/admin/v1/providers/fake/end-cooldowns", headers={"X-API-Key": operator})
    held = mine[httpx.codes.SERVICE_UNAVAILABLE] > 0 and set(theirs) == {httpx.codes.OK}
    return Verdict(held, f"the attacker was answered {dict(mine)}, the bystander {dict(theirs)}")


async def _fail_at_poison(request: Request, writer: asyncio.StreamWriter) -> None:
    answer = reply(500) if b"poison" in request.body else reply(200, b'{"made":true}')
    await answer(request, writer)


def _count_under_way(client: WorkflowClient, jobs: Sequence[str]) -> int:
    return [client.status(job) for job in jobs].count("in_progress")


def _submit(client: WorkflowClient, count: int) -> Sequence[str]:
    return [
        client.submit(graph_showing("Slowly", given=json.dumps({"seconds": 0.1, "turn": number})))
        for number in range(count)
    ]


def _ends(client: WorkflowClient, jobs: Sequence[str]) -> Iterator[tuple[datetime, str]]:
    """When each of some jobs has ended."""
    for job in jobs:
        wait_until(partial(_has_ended, client, job), f"the end of {job}", _PATIENCE, pause=0.1)
        yield datetime.fromisoformat(client.http.get(f"/api/v2/jobs/{job}").json()["completed_at"]), client.workspace


def _has_ended(client: WorkflowClient, job: str) -> bool:
    return client.status(job) in ENDED


@contextmanager
def _newcomer(world: World) -> Iterator[WorkflowClient]:
    name = f"carol-{uuid.uuid4().hex[:8]}"
    client = WorkflowClient(world.server, world.server.new_workspace(name), name)
    try:
        yield client
    finally:
        client.http.close()


def too_many_requests(world: World) -> Verdict:
    """Ask the cloud and the jobs API more often in a minute than a workspace may."""
    allowed, paths = 20, ("/api/queue", "/api/v2/jobs")
    settings = {"FAIRLEAD_READS_PER_MINUTE": str(allowed)}
    with serving(world.folder / f"quotas-{uuid.uuid4().hex}", env=environment(settings)) as server:
        client = WorkflowClient(server)
        statuses = Counter(client.http.get(path).status_code for path in paths for _ in range(2 * allowed))
        client.http.close()
    refused = statuses[httpx.codes.TOO_MANY_REQUESTS]
    return Verdict(refused >= allowed, f"answered {dict(statuses)}")


def _post(client: WorkflowClient, path: str, document: bytes) -> httpx.Response:
    headers = {"Content-Type": "application/json"}
    return client.http.post(path, content=document, headers=headers, timeout=_PATIENCE)


def _view(client: WorkflowClient, wanted: Mapping[str, str]) -> httpx.Response:
    return client.http.get("/api/view", params=wanted, timeout=_PATIENCE)


def _at_once(asks: Sequence[Callable[[], httpx.Response]]) -> Sequence[httpx.Response]:
    with ThreadPoolExecutor(len(asks)) as threads:
        return [answer.result() for answer in [threads.submit(ask) for ask in asks]]


def _connect(world: World) -> socket.socket:
    address = urlsplit(world.server.url)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout=_HEAD_SECONDS)


ATTACKS: Final = (
    Attack("large documents", "JSON of up to 60 MiB and 20 million values, to each API", large_documents),
    Attack("large accepted documents", "long texts of up to 60 MiB, taken by each API", large_accepted_documents),
    Attack("strange documents", "deep nesting, one long text, one long number, many names", deep_and_long_documents),
    Attack("large partner answer", "a partner's answer of 60 MiB: 20 million values, long texts", large_partner_answer),
    Attack("endless headers", "96 MiB of small headers on one connection without a key", endless_headers),
    Attack("many previews", "nine previews of a large picture at the same moment", many_previews),
    Attack(
        "too many requests",
        "more calls of the cloud and the jobs API than a minute has",
        too_many_requests,
        is_elsewhere=True,
    ),
    Attack("crowded queue", "a hundred jobs before those of two others", crowded_queue, on_both=True),
    Attack("poisoned bodies", "bodies at which a partner fails, until its key cools down", poisoned_bodies),
    Attack("long jobs", "all engine places held by jobs of ten minutes", long_jobs, on_both=True),
)
