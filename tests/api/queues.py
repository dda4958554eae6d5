"""Callers of the queue, the models they ask for, and the partner that serves them."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx

from api.legs import KEYS, METERED, NEVER_COOLS_DOWN, fill_legs
from fake_partner import SECRET, Behaviour, CatalogFolder, FakePartner, reply, reply_json
from servers import Server, wait_until

BACKLOG: Final = 12
TIRED: Final = "tired/json-1"
"""A model whose provider cools down after failures."""
QUEUE_SETTINGS: Final = {
    **KEYS,
    "FAIRLEAD_PROVIDER_BRAKE_KEY": SECRET,
    "FAIRLEAD_PROVIDER_BRISK_KEY": SECRET,
    "FAIRLEAD_PROVIDER_TIRED_KEY": SECRET,
    "FAIRLEAD_QUEUE_BACKLOG": str(BACKLOG),
    "FAIRLEAD_BODY_LIMIT_MIB": "1",
}
_BRAKE: Final = """
[calls.stoppable]
protocol = "submit-and-poll"
path = "/brake"
handle = "/id"

[calls.stoppable.poll]
path = "/brake/{handle}"
every = 0.02
at_most_every = 0.1
patience = 2
status = "/state"
pending = ["running"]
succeeded = ["done"]
failed = ["failed"]
cancelled = ["stopped"]

[calls.stoppable.cancel]
path = "/brake/{handle}/stop"
"""

NewClient: TypeAlias = Callable[..., "Client"]


_EARLIER_CARDS: Final = (
    ("fake-cheap", "0.004", ""),
    ("fake-raised", "0.006", ""),
    ("fake-by-length", "0.001", 'at_most = "9"\nrequested = { product = ["/seconds"] }\n'),
)


def _card_text(version: str, price: str, more: str) -> str:
    """A card of the last leg of a model file that is not in force."""
    head = f'[[legs.rate_cards]]\nversion = "{version}"\neffective = 2019-01-01\n\n'
    return f'{head}[[legs.rate_cards.components]]\nunit = "run"\nprice = "{price}"\n{more}\n'


def fill_queue(catalog: CatalogFolder, url: str) -> None:
    """Write the models with legs, and those that only the tests of the queue speak of."""
    fill_legs(catalog, url)
    catalog.add_provider(url, "brake", repeats_safely=False, tail=_BRAKE + NEVER_COOLS_DOWN)
    catalog.add_provider(url, "brisk", give_up_after=0.5, tail=NEVER_COOLS_DOWN)
    catalog.add_provider(url, "lockbox", tail=NEVER_COOLS_DOWN)
    catalog.add_provider(url, "tired")
    catalog.add_model("brake/task-1", "stoppable", provider="brake")
    catalog.add_model("brisk/task-1", "task", provider="brisk")
    catalog.add_model("lockbox/json-1", provider="lockbox")
    catalog.add_model(TIRED, provider="tired")
    catalog.add_model("fake/json-1")
    tail = _card_text("fake-cheap", "0.002", METERED)
    catalog.add_model("fake/metered-1", price="0.005", component=METERED, tail=tail)
    catalog.add_model("fake/free-1", price="0")
    catalog.add_model("fake/rated-1", tail="".join(_card_text(*card) for card in _EARLIER_CARDS))


def copy_catalog(catalog: CatalogFolder, folder: Path) -> CatalogFolder:
    """A copy of a catalog folder that a test may change."""
    shutil.copytree(catalog.path, folder)
    return CatalogFolder(folder)


@dataclass(frozen=True, slots=True)
class Client:
    """A workspace on a server, asking for runs of `fake/json-1` where nothing else is said."""

    server: Server
    workspace: str
    key: str

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request of this workspace to a path, or to an address we were given."""
        headers = {"X-API-Key": self.key, **options.pop("headers", {})}
        return self.server.client.request(method, path, headers=headers, **options)

    def submit(self, model: str = "fake/json-1", body: Any = None, **options: Any) -> httpx.Response:
        """Ask for a queued run."""
        return self.request("POST", f"/v2/models/{model}/requests", **_with(body, options))

    def run(self, model: str = "fake/json-1", body: Any = None, **options: Any) -> httpx.Response:
        """Make the same run synchronously."""
        return self.request("POST", f"/v2/models/{model}", **_with(body, options))

    def queue(self, model: str = "fake/json-1", body: Any = None, **options: Any) -> str:
        """Queue a run that is admitted; its id."""
        response = self.submit(model, body, **options)
        assert response.status_code == 201, response.text
        request_id: str = response.json()["request_id"]
        return request_id

    def status(self, request_id: str, model: str = "fake/json-1") -> httpx.Response:
        """Ask how a run stands."""
        return self.request("GET", f"/v2/models/{model}/requests/{request_id}/status")

    def collect(self, request_id: str, model: str = "fake/json-1") -> httpx.Response:
        """Ask for what a run ended in."""
        return self.request("GET", f"/v2/models/{model}/requests/{request_id}")

    def cancel(self, request_id: str, model: str = "fake/json-1") -> httpx.Response:
        """Ask that a run may stop."""
        return self.request("PUT", f"/v2/models/{model}/requests/{request_id}/cancel")

    def stands(self, request_id: str, model: str = "fake/json-1") -> Mapping[str, Any]:
        """How a run stands, without its addresses, and without its place where it is out of the queue: that is 0."""
        told = self.status(request_id, model).json()
        if told["status"] != "IN_QUEUE":
            assert told.pop("queue_position") == 0
        assert told.pop("logs") is None
        return {name: value for name, value in told.items() if name != "request_id" and not name.endswith("_url")}

    def wait_for_completion(
        self, request_id: str, model: str = "fake/json-1", seconds: float = 60
    ) -> Mapping[str, Any]:
        """Wait until a run has ended; how it stands then."""
        told: Mapping[str, Any] = {}

        def has_ended() -> bool:
            nonlocal told
            told = self.stands(request_id, model)
            return bool(told["status"] == "COMPLETED")

        wait_until(has_ended, f"{request_id} is completed", seconds, 0.05)
        return told

    def in_progress(self, request_id: str, model: str = "fake/json-1") -> None:
        """Wait until a worker has a run."""
        wait_until(lambda: self.stands(request_id, model) == {"status": "IN_PROGRESS"}, "a worker has it", pause=0.05)

    def kinds(self, request_id: str) -> list[str]:
        """The entries in the books for a run, oldest first."""
        return [row["kind"] for row in self.server.ledger(self.workspace) if row["run_id"] == request_id]

    def charges(self, request_id: str) -> list[str]:
        """What was posted for a run, in dollars."""
        return self.server.charges(request_id, self.workspace)

    def figure(self, name: str) -> Any:
        """One of the figures of the workspace."""
        return self.server.workspace(self.workspace)[name]

    def change(self, *options: str) -> None:
        """Change the workspace as an operator does."""
        self.server.cli("workspaces", "change", self.workspace, *options)

    def store_key(self, key: str = "sk-own-key-0f6b2a9c41", provider: str = "fake") -> None:
        """Store a key of the workspace's own at a provider."""
        assert self.request("PUT", f"/v2/provider-keys/{provider}", json={"key": key}).status_code == 201


def _with(body: Any, options: dict[str, Any]) -> dict[str, Any]:
    return options if "content" in options else {"json": {} if body is None else body, **options}


def at_work(partner: FakePartner, *polls: Behaviour, stop: Behaviour | None = None) -> None:
    """Let the partner that can be stopped take work, `t1`, and answer its polls so; it agrees to stop unless told."""
    partner.script("/brake", reply_json({"id": "t1"}, 202))
    partner.script("/brake/t1", *polls)
    partner.script("/brake/t1/stop", stop or reply(204, b""))


def is_refused(response: httpx.Response, status: int, bucket: str) -> None:
    """Assert that a call was refused so, in body and header alike."""
    assert (response.status_code, response.headers["x-service-error-type"]) == (status, bucket), response.text
    assert response.json()["error_type"] == bucket
    assert response.headers["x-service-request-id"]
