"""Planted secrets do not leave: not in an answer, a log line, a metric, a trace, a webhook or the database (S-10).

The partner repeats whatever it is shown, in every place of an answer and in several spellings; every route of every API
is also called, with and without a credential. Then everything that left is searched for every secret.
"""

import asyncio
import base64
import json
import re
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import httpx
import pytest
from sqlalchemy import select

from databases import opened_database
from end_to_end.attack_table import ATTACKS
from end_to_end.attacked_things import JWT_SECRET, token
from fairlead.storage.db.tables import metadata
from fake_partner import Behaviour, CatalogFolder, FakePartner, Request, reply, running_partner
from servers import PLAIN, Server, ServerFailedError, serving, wait_until

pytestmark = pytest.mark.req("S-10")

_OURS: Final = f"ours+{secrets.token_hex(12)}/{secrets.token_hex(8)}"
_OWN: Final = f"byok-{secrets.token_urlsafe(30)}"
_THING: Final = re.compile(r"\{[^{}\" ]*\}")
_CALLS: Final = {"json": "/json", "picky": "/picky", "bytes": "/bytes", "task": "/tasks"}

Spelling = Callable[[str], str]
_SPELLINGS: Final[Mapping[str, Spelling]] = {
    "plain": str,
    "percent": lambda text: quote(text, safe=""),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "Basic": lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
    "escaped": lambda text: text.replace("/", "\\/"),
    "all but its end": lambda text: f"{text[:-4]}****",
}
_Told = Callable[[str], tuple[int, Any, dict[str, str]]]
_ANSWERS: Final[Mapping[str, _Told]] = {
    "a refused input": lambda key: (400, {"error": {"message": f"bad key {key} here"}}, {}),
    "a refused field": lambda key: (422, {"error": {"message": key, "param": f"a.{key}", "kind": key}}, {}),
    "a refused key": lambda key: (401, {"error": {"message": key}}, {"X-Echo": key, "WWW-Authenticate": key}),
    "a failure": lambda key: (500, {"error": {"code": "broken", "message": key}}, {}),
    "no capacity": lambda key: (429, {"error": {"message": key}}, {"Retry-After": key}),
    "a redirect": lambda key: (302, {"key": key}, {"Location": f"https://x.example/?key={key}"}),
    "a rejection": lambda key: (200, {"state": "rejected", "why": f"key {key}"}, {}),
    "a result": lambda key: (200, {"ok": True, "made": {"headers": [f"Bearer {key}"]}, key: 1}, {"X-Echo": key}),
    "a type": lambda key: (200, {"ok": True}, {"Content-Type": f"application/json; key={key}"}),
    "a link": lambda key: (200, {"ok": True, "url": f"https://files.example/a.png?key={key}"}, {}),
    "a name of work": lambda key: (200, {"id": f"task?key={key}", "state": "running"}, {}),
}


def _telling(told: _Told, spelling: Spelling) -> Behaviour:
    """Answer with the credential one was shown, in a spelling."""

    async def behave(request: Request, writer: Any) -> None:
        status, document, headers = told(spelling(request.headers["authorization"].removeprefix("Bearer ")))
        content_type = headers.pop("Content-Type", "application/json")
        body = json.dumps(document).replace("\\\\/", "\\/").encode()
        await reply(status, body, content_type, **{name.replace("-", "_"): text for name, text in headers.items()})(
            request, writer
        )

    return behave


@dataclass
class Watched:
    """A server with planted secrets, and everything that has left it through the front."""

    server: Server
    partner: FakePartner
    byok: str
    hidden: dict[str, str]
    left: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, headers: Mapping[str, str], **body: Any) -> httpx.Response:
        """Ask, and keep all of the answer."""
        with (
            httpx.Client(base_url=self.server.url, timeout=50, verify=PLAIN) as client,
            client.stream(method, path, headers=dict(headers), **body) as answer,
        ):
            if "event-stream" in answer.headers.get("content-type", ""):  # it is open, and may never end
                return answer
            answer.read()
        self.left.append(f"{method} {path}: {answer.status_code} {dict(answer.headers)} {answer.text}")
        return answer

    def find_secrets(self, texts: list[str]) -> list[str]:
        """Which secrets are in some texts, in whatever spelling, and in which text."""
        return [
            f"{name} ({spelling}) in {text[:200]}"
            for text in texts
            for name, secret in self.hidden.items()
            for spelling, spell in _SPELLINGS.items()
            for read in (text, unquote(text), text.replace("\\/", "/"))
            if spell(secret) in read
        ]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Return a server that tells all it ever would: log level debug, traces, webhooks to this machine."""
    folder = tmp_path_factory.mktemp("secrets")
    catalog = CatalogFolder(folder / "catalog")
    with running_partner() as partner:
        catalog.add_provider(partner.url, tail="[cooldown]\nafter = 1000\nseconds = 1\n", retries=1)
        for call in _CALLS:
            catalog.add_model(f"fake/{call}-1", call)
        settings = {
            "FAIRLEAD_PROVIDER_FAKE_KEY": _OURS,
            "FAIRLEAD_JWT_SECRET": JWT_SECRET,
            "FAIRLEAD_JWT_ISSUER": "https://id.example",
            "FAIRLEAD_JWT_AUDIENCE": "attacked",
            "FAIRLEAD_ENGINE": "true",
            "FAIRLEAD_LOG_LEVEL": "debug",
            "FAIRLEAD_OTLP_ENDPOINT": f"{partner.url}/otlp",
            "FAIRLEAD_WEBHOOK_PRIVATE_ADDRESSES": "true",
            "FAIRLEAD_DRAIN_SECONDS": "1",
        }
        arguments = ("--no-local-partner",)
        with serving(folder / "data", catalog=catalog.path, env=settings, arguments=arguments) as server:
            byok = server.new_workspace("byok")
            stored = httpx.put(f"{server.url}/v2/provider-keys/fake", headers={"X-API-Key": byok}, json={"key": _OWN})
            assert stored.status_code == 201
            secret = httpx.get(f"{server.url}/v2/webhook-secret", headers={"X-API-Key": byok}).json()["secret"]
            hidden = {
                "our key": _OURS,
                "the caller's own key": _OWN,
                "the secret of tokens": JWT_SECRET,
                "the master secret": (server.data / "secret-key").read_text().strip(),
                "an API key": server.key,
                "another API key": byok,
                "a webhook secret": secret.removeprefix("whsec_"),
                "a token": token("default").rpartition(".")[2],
            }
            yield Watched(server, partner, byok, hidden)


@pytest.mark.parametrize("answer", sorted(_ANSWERS))
def test_partner_that_repeats_what_it_is_shown_is_not_repeated(watched: Watched, answer: str) -> None:
    """At once and queued, with our key and with the caller's own, in every spelling."""
    _have_secrets_told(watched, answer)
    assert watched.find_secrets(watched.left) == []
    shown = [request.headers.get("authorization", "") for request in watched.partner.requests("/json")]
    assert {f"Bearer {_OURS}", f"Bearer {_OWN}"} <= {*shown}


def _have_secrets_told(watched: Watched, answer: str) -> None:
    """Run models whose partner repeats what it was shown, at once and queued."""
    spellings = list(_SPELLINGS.items())
    for number, (call, path) in enumerate(_CALLS.items()):
        for name, spelling in spellings[number % 2 :: 2]:
            watched.partner.script(path, _telling(_ANSWERS[answer], spelling))
            for key in (watched.server.key, watched.byok):
                made = watched.ask("POST", f"/v2/models/fake/{call}-1", {"X-API-Key": key}, json={"prompt": name})
                assert made.status_code != 500, made.text
    _queue(watched, answer)


def _queue(watched: Watched, answer: str) -> None:
    """A queued run whose end is collected, listed and told to a receiver."""
    for key in (watched.server.key, watched.byok):
        watched.partner.script("/json", _telling(_ANSWERS[answer], _SPELLINGS["plain"]))
        credential, before = {"X-API-Key": key}, len(watched.partner.requests("/hook"))
        path = f"/v2/models/fake/json-1/requests?webhook_url={quote(watched.partner.url + '/hook', safe='')}"
        taken = watched.ask("POST", path, credential, json={"prompt": answer})
        assert taken.status_code == 201, taken.text
        place = f"/v2/models/fake/json-1/requests/{taken.json()['request_id']}"
        wait_until(lambda: len(watched.partner.requests("/hook")) > before, "the webhook", seconds=60)  # noqa: B023 -- called in this round
        for part in ("", "/status", "/deliveries"):
            watched.ask("GET", place + part, credential)
        watched.left.append(str(watched.server.cli("runs", "show", taken.json()["request_id"], "--json")))
    watched.left += [f"{one.headers} {one.body!r}" for one in watched.partner.requests("/hook")]


def test_no_route_of_any_api_tells_a_secret(watched: Watched) -> None:
    """Every route there is, with a key, a token, a wrong key and nobody, asked for what nobody has."""
    watched.partner.script("/json", _telling(_ANSWERS["a failure"], str))
    for attack in ATTACKS:
        if "webhook-secret" in attack.path:
            continue  # what they tell is a secret, to its owner
        path = _THING.sub(str(uuid.uuid4()), attack.path)
        body = {
            name: value for name in ("params", "json", "content", "files", "data") if (value := getattr(attack, name))
        }
        for credential in (
            {"X-API-Key": watched.server.key},
            {"X-API-Key": f"{watched.server.key[:-1]}x"},
            {"Authorization": f"Bearer {token('default')}"},
            {"Authorization": f"Bearer {token('nowhere')}x"},
            {},
        ):
            answer = watched.ask(attack.method, path, {**attack.headers, **credential}, **body)
            assert answer.status_code != 500, f"{attack.path}: {answer.text}"
    assert len(watched.left) > 4 * len(ATTACKS) - 20
    assert watched.find_secrets(watched.left) == []


def test_no_log_line_metric_trace_or_table_holds_a_secret(watched: Watched) -> None:
    """What was written beside the answers: the log at its most talkative, the metrics, the traces, the database."""
    _have_secrets_told(watched, "a failure")
    metrics = watched.ask("GET", "/metrics", {}).text
    log = watched.server.log.read_text("utf-8")
    assert "fairlead_runs_total" in metrics or "fairlead_run" in metrics
    assert log.count("\n") > 20
    traces = [str(request.body) for request in wait_until(lambda: _traces(watched), "traces", seconds=40)]
    tables = asyncio.run(_tables(watched.server))
    assert len(tables) > len(metadata.sorted_tables)
    assert watched.find_secrets([log, metrics, *traces, *tables]) == []


async def _tables(server: Server) -> list[str]:
    """Every row of the server's database."""
    async with opened_database(server.database or f"sqlite:///{server.data / 'fairlead.db'}") as database:
        return await database.read(
            lambda connection: [
                f"{table.name} {row}" for table in metadata.sorted_tables for row in connection.execute(select(table))
            ]
        )


def _traces(watched: Watched) -> list[Request]:
    return [request for request in watched.partner.requests() if request.path.startswith("/otlp")]


@pytest.mark.parametrize("address", ["127.0.0.1:1/x", "127.0.0.1:port/x", "127.0.0.1:1/x?sslmode=strange", "/x"])
def test_password_of_a_database_is_not_told(tmp_path: Path, address: str) -> None:
    """A server that cannot use its database says why without its password."""
    password = secrets.token_hex(12)
    with (
        pytest.raises(ServerFailedError) as failed,
        serving(
            tmp_path / "data",
            database=f"postgresql://fairlead:{password}@{address}",
            env={"FAIRLEAD_LOG_LEVEL": "debug"},
        ),
    ):
        pass
    assert password not in str(failed.value)
    assert len(str(failed.value)) > 30
