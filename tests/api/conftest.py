"""One real server for most tests of the HTTP face, a fake partner behind it, its books proven after each test."""

import http.client
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import jwt
import pytest

from api.legs import KEYS, NEVER_COOLS_DOWN, at_ease, fill_legs
from api.queues import QUEUE_SETTINGS, Client, NewClient, fill_queue
from databases import Postgres
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from servers import Server, serving

JWT_ISSUER: Final = "https://id.example"
JWT_AUDIENCE: Final = "fairlead-tests"
JWT_SECRET: Final = "a shared secret of the tests, long enough for every variant of HMAC with SHA-2"
NESTED: Final = {
    "type": "object",
    "required": ["prompt"],
    "additionalProperties": False,
    "properties": {
        "prompt": {"type": "string", "minLength": 1, "maxLength": 20},
        "model": {"type": "string"},
        "count": {"type": "integer", "minimum": 1, "maximum": 4, "default": 1},
        "layers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind"],
                "properties": {"kind": {"enum": ["sky", "sea"]}, "alpha": {"type": "number", "maximum": 1}},
            },
        },
    },
}
_UNIT: Final = 'at_most = "10"\nrequested = { product = ["/units"] }\nmeasured = { answer = "/usage/units" }'

MakeToken: TypeAlias = Callable[..., str]
NewName: TypeAlias = Callable[[], str]


@pytest.fixture
def partner(shared_partner: FakePartner) -> Iterator[FakePartner]:
    """Return the partner with nothing remembered; every call answers `{"made":true}` until a test says otherwise."""
    for path in ("/json", "/hasty"):
        shared_partner.script(path, reply(200, b'{"made":true}'))
    yield shared_partner
    shared_partner.release()
    shared_partner.reset()


@pytest.fixture(scope="session")
def shared_router(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the server most tests share."""
    folder = tmp_path_factory.mktemp("router")
    catalog = CatalogFolder(folder / "catalog")
    fill(catalog, shared_partner.url)
    with serving(folder / "data", catalog=catalog.path, env=SETTINGS) as server:
        yield server


@pytest.fixture
def router(shared_router: Server, partner: FakePartner) -> Iterator[Server]:
    """Return the shared server; after the test no run, no hold and no slot may be left, and the books must add up."""
    yield shared_router
    partner.release()
    shared_router.prove_settled()


@pytest.fixture(scope="session")
def shared_legs(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the server whose models have alternates."""
    folder = tmp_path_factory.mktemp("legs")
    catalog = CatalogFolder(folder / "catalog")
    fill_legs(catalog, shared_partner.url)
    more = {"FAIRLEAD_MARKUP": "fake/marked-1=12.5", "FAIRLEAD_NATIVE_ALIASES": "service-ui"}
    env = {**SETTINGS, **KEYS, "FAIRLEAD_LOG_LEVEL": "debug", **more}
    with serving(folder / "data", catalog=catalog.path, env=env, arguments=("--no-local-partner",)) as server:
        server.cli("workspaces", "change", "default", "--in-flight-limit", "-1", "--cap", "100000")
        yield server


@pytest.fixture
def legs(shared_legs: Server, partner: FakePartner) -> Iterator[Server]:
    """Return that server with every leg answering; after the test nothing may be left, and the books must add up."""
    at_ease(partner)
    yield shared_legs
    partner.release()
    shared_legs.prove_settled()


@pytest.fixture(scope="session")
def queue_catalog(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    """Return the catalog of the tests of the queue."""
    catalog = CatalogFolder(tmp_path_factory.mktemp("queue") / "catalog")
    fill_queue(catalog, shared_partner.url)
    return catalog


@pytest.fixture(scope="session")
def shared_queue(
    postgres: Postgres, queue_catalog: CatalogFolder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Return the server most tests of the queue share, on PostgreSQL."""
    database = postgres.url(postgres.create())
    env, data = {**SETTINGS, **QUEUE_SETTINGS}, tmp_path_factory.mktemp("queued") / "data"
    plain = ("--no-local-partner",)
    with serving(data, database=database, catalog=queue_catalog.path, env=env, arguments=plain) as server:
        yield server


@pytest.fixture
def queue(shared_queue: Server, partner: FakePartner) -> Iterator[Server]:
    """Return that server; after the test nothing may wait or be under way, and the books must add up."""
    at_ease(partner)
    partner.script("/json", reply(200, b'{"made":true}'))
    yield shared_queue
    partner.release()
    shared_queue.prove_settled()


@pytest.fixture
def new_client(queue: Server, new_name: NewName) -> NewClient:
    """Return a function that makes a workspace, with the options of `new_workspace`, for a caller of the queue."""

    def make(*options: str, **more: Any) -> Client:
        name = new_name()
        return Client(queue, name, queue.new_workspace(name, *options, **more))

    return make


@pytest.fixture
def client(new_client: NewClient) -> Client:
    """Return a caller of the queue in a workspace of this test."""
    return new_client()


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    """Return names nobody has used."""
    return (f"workspace-{number}" for number in itertools.count())


@pytest.fixture
def new_name(names: Iterator[str]) -> NewName:
    """Return a function that makes a name for a workspace."""
    return lambda: next(names)


@pytest.fixture
def token() -> MakeToken:
    """Return a function that signs a token as the issuer would, but for what it is told to change."""

    def make(workspace: str = "default", *, secret: str = JWT_SECRET, algorithm: str = "HS256", **claims: Any) -> str:
        told = {
            "sub": "somebody", "workspace": workspace, "exp": int(time.time()) + 600,
            "iss": JWT_ISSUER, "aud": JWT_AUDIENCE, **claims,
        }  # fmt: skip
        return jwt.encode({name: value for name, value in told.items() if value is not None}, secret, algorithm)

    return make


SETTINGS: Final = {
    "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
    "FAIRLEAD_PROVIDER_OTHER_KEY": SECRET,
    "FAIRLEAD_JWT_SECRET": JWT_SECRET,
    "FAIRLEAD_JWT_ISSUER": JWT_ISSUER,
    "FAIRLEAD_JWT_AUDIENCE": JWT_AUDIENCE,
}


def fill(catalog: CatalogFolder, url: str) -> None:
    """Write the providers and models the tests of this folder speak of."""
    for name in ("fake", "other", "lockbox"):
        catalog.add_provider(url, name, tail=NEVER_COOLS_DOWN)
    for call in ("json", "picky", "hasty", "bytes", "task"):
        catalog.add_model(f"fake/{call}-1", call)
    catalog.add_model("fake/closed-1", schema=NESTED)
    catalog.add_model("fake/metered-1", price="0.005", component=_UNIT)
    catalog.add_model("fake/dear-1", price="3")
    catalog.add_model("fake/retired-1", tail='[retirement]\ndate = 2026-01-31\nsuccessor = "fake/json-1"\n')
    catalog.add_model("fake/retired-2", tail="[retirement]\ndate = 2026-01-31\n")
    catalog.add_model("fake/retiring-1", tail='[retirement]\ndate = 2999-12-31\nsuccessor = "fake/json-1"\n')
    catalog.add_model("other/json-1", provider="other")
    catalog.add_model("lockbox/json-1", provider="lockbox")
    for number in range(120):
        catalog.add_model(f"page/m-{number:03d}")


def catalog_of(tmp_path: Path, url: str) -> CatalogFolder:
    """Make a catalog folder with one provider and no models."""
    catalog = CatalogFolder(tmp_path / "catalog")
    catalog.add_provider(url, tail=NEVER_COOLS_DOWN)
    return catalog


@pytest.fixture
def ask_raw() -> Callable[[Server, str, str], tuple[int, dict[str, str], str]]:
    """Return a function that asks for a path exactly as it is written: clients like to tidy paths up."""

    def ask(server: Server, method: str, target: str) -> tuple[int, dict[str, str], str]:
        host, port = server.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            connection.putheader("X-API-Key", server.key)
            connection.putheader("Content-Length", "0")
            connection.endheaders()
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return response.status, headers, response.read().decode()
        finally:
            connection.close()

    return ask
