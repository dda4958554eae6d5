"""Simulated partners: they work, keep their own books of it, and are reached over lines that break.

A partner knows which run it works for: every body carries the run's id in its field `tag`, as real ones carry a prompt.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from fairlead.http_client.outcomes import Reply
from fairlead.http_client.transport import BrokenOffError, TooSlowError, UnreachableError
from fairlead.providers.spec import Provider
from fairlead.providers.spec_files import load_provider
from simulation.process import Process
from simulation.scenario import Scenario

USED_MAX: Final = 4
KEYED: Final = frozenset({"careful", "third"})
"""The partners that honour idempotency keys."""
ALTERNATES: Final = frozenset({"spare", "third"})
_JSON: Final = {"content-type": "application/json"}
PATIENCE: Final = 3
"""How many polls in a row may fail."""
_LARGE: Final = 70 * 1024
_FILE: Final = """\
provider = "{name}"
title = "A simulated partner"
base_url = "http://{name}.example"
{head}

[auth]
scheme = "none"

[retry]
times = 1
first = 0.5

[calls.now]
protocol = "sync-json"
path = "/now"
require = ["/data"]

[calls.later]
protocol = "submit-and-poll"
path = "/later"
handle = "/id"

[calls.later.poll]
path = "/later/{{handle}}"
every = 1.0
slower_by = 1.5
at_most_every = 8.0
status = "/status"
pending = ["running"]
succeeded = ["done"]
failed = ["failed"]
cancelled = ["cancelled"]
patience = {patience}

[calls.later.cancel]
path = "/later/{{handle}}/cancel"

[[signs]]
means = "refused"
status = [451]
"""


def simulated_provider(name: str) -> Provider:
    """The provider file of a simulated partner: keyed or not, native or an alternate, by its name."""
    heads = ['idempotency_header = "Idempotency-Key"'] if name in KEYED else []
    heads += ["alternate = true"] if name in ALTERNATES else []
    return load_provider(_FILE.format(name=name, head="\n".join(heads), patience=PATIENCE), f"{name}.toml")


PROVIDERS: Final[Mapping[str, Provider]] = {
    name: simulated_provider(name) for name in ("plain", "careful", "spare", "third")
}


@dataclass(slots=True)
class Generation:
    """Work a partner has begun: for which run, when it ends and how, and what comes of it.

    `orders` counts how often it was asked for, `polls` how often it was asked about, `told` how often its good end was
    put on a line to a server.
    """

    provider: str
    run_id: str
    handle: str
    ends_at: float
    end: str
    used: int
    content: bytes
    orders: int = 1
    polls: int = 0
    told: int = 0


@dataclass(slots=True)
class Partners:
    """Every partner, and the books they keep. `has_ended` says of a run whether the router is done with it."""

    scenario: Scenario
    has_ended: Callable[[str], bool]
    generations: list[Generation] = field(default_factory=list)
    _refused: dict[tuple[str, str], bool] = field(default_factory=dict)
    _by_key: dict[tuple[str, str], Generation] = field(default_factory=dict)
    _by_handle: dict[tuple[str, str], Generation] = field(default_factory=dict)

    def of(self, run_id: str) -> list[Generation]:
        """What was begun for a run."""
        return [generation for generation in self.generations if generation.run_id == run_id]

    def runs_of(self, handle: str) -> list[str]:
        """The run that a partner named so."""
        return [generation.run_id for generation in self.generations if generation.handle == handle]

    def order(self, provider: str, key: str | None, body: bytes) -> Generation | Reply:
        """Take an order: work is begun, or found again under its key, or refused."""
        run_id = json.loads(body)["tag"]
        plan = self.scenario.plan
        if self.scenario.happens(plan.busy):
            self.scenario.turned_away.add(run_id)
            return Reply(self.scenario.chance.choice((429, 500, 503)), _JSON, b'{"error":"busy"}')
        known = self._by_key.get((provider, key)) if key is not None and provider in KEYED else None
        if known is not None:
            known.orders += 1
            self.scenario.tell(f"{provider}: {run_id} is asked for again under its key")
            return known
        if self._refused.setdefault((provider, run_id), self.scenario.happens(plan.refused)):
            return Reply(self.scenario.chance.choice((400, 422, 451)), _JSON, b'{"error":"refused"}')
        return self._begin(provider, key, run_id)

    def task(self, provider: str, handle: str) -> Reply:
        """How work stands."""
        found = self._by_handle.get((provider, handle))
        if found is None:
            return Reply(404, _JSON, b'{"error":"unknown"}')
        found.polls += 1
        if asyncio.get_running_loop().time() < found.ends_at:
            return Reply(200, _JSON, b'{"status":"running"}')
        if found.end == "done":
            found.told += 1
            return Reply(200, _JSON, found.content)
        return Reply(200, _JSON, json.dumps({"status": found.end}).encode())

    def cancel(self, provider: str, handle: str) -> Reply:
        """Stop work, where it has not ended; some partners agree and go on all the same."""
        found = self._by_handle.get((provider, handle))
        now = asyncio.get_running_loop().time()
        if found is None or now >= found.ends_at:
            return Reply(409, _JSON, b"{}")
        if self.scenario.happens(0.7):
            found.end, found.ends_at = "cancelled", now
        self.scenario.tell(f"{provider}: {found.run_id} is to stop, and is {found.end}")
        return Reply(200, _JSON, b"{}")

    def _begin(self, provider: str, key: str | None, run_id: str) -> Generation:
        chance = self.scenario.chance
        end = chance.choice(("failed", "cancelled")) if self.scenario.happens(self.scenario.plan.failed) else "done"
        used = chance.randint(1, USED_MAX)
        handle = f"task-{len(self.generations)}"
        padding = "x" * (_LARGE if self.scenario.happens(0.03) else 3)
        content = json.dumps({"data": handle, "status": "done", "used": used, "padding": padding}).encode()
        seconds = chance.choice((0.1, 1.0, 4.0, 12.0, 45.0))
        ends_at = asyncio.get_running_loop().time() + seconds
        begun = Generation(provider, run_id, handle, ends_at, end, used, content)
        self.scenario.tell(f"{provider}: begins {handle} for {run_id}, to be {end} after {seconds} s")
        self.generations.append(begun)
        if self.has_ended(run_id):  # the order of a server that had lost the run, and could not know
            self.scenario.excuse(run_id, "it was over before it was begun")
        self._by_handle[provider, handle] = begun
        if key is not None:
            self._by_key[provider, key] = begun
        return begun


class SimulatedTransport:
    """A server's lines to the partners: where the product's HTTP client would stand."""

    def __init__(self, partners: Partners, process: Process, scenario: Scenario) -> None:
        self._partners = partners
        self._process = process
        self._scenario = scenario
        self._missed: Counter[str] = Counter()

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        *,
        seconds: float,
        limit: int,
        guarded: bool = False,
    ) -> Reply:
        """Ask a partner; on the way there and back everything happens that happens to connections."""
        assert (limit > 0, guarded) == (True, False)
        address = urlsplit(url)
        provider = str(address.hostname).partition(".")[0]
        about = json.loads(content)["tag"] if content else address.path
        await self._process.wait(self._latency())
        await self._set_out(about)
        reply = await self._reply_to(method, provider, address.path, headers, content)
        await self._process.may_die(self._scenario.plan.crash_at_partner, "with an answer on its way")
        await self._come_back(about, seconds)
        await self._process.wait(self._latency())
        self._missed.pop(about, None)
        return reply

    async def _set_out(self, about: str) -> None:
        plan = self._scenario.plan
        await self._process.may_die(plan.crash_at_partner, "before it asked a partner")
        if self._scenario.happens(plan.unreachable):
            self._scenario.turned_away.add(about)
            self._misses(about, "no connection", may_have_arrived=False)
            raise UnreachableError("no connection")
        if self._scenario.happens(plan.broken_before):
            self._misses(about, "a connection broke off")
            raise BrokenOffError("broken off on the way there")

    def _misses(self, about: str, what: str, *, may_have_arrived: bool = True) -> None:
        """Note what an order, or too many polls of one task in a row, have met: from there on a result may be lost."""
        self._missed[about] += 1
        if not about.startswith("/"):
            if may_have_arrived:
                self._scenario.excuse(about, what)
        elif self._missed[about] > PATIENCE:
            for run_id in self._partners.runs_of(about.split("/")[2]):
                self._scenario.excuse(run_id, f"{PATIENCE} polls in a row: {what}")

    async def _reply_to(
        self, method: str, provider: str, path: str, headers: Mapping[str, str], content: bytes | None
    ) -> Reply:
        if method == "GET":
            return self._partners.task(provider, path.rpartition("/")[2])
        if path.endswith("/cancel"):
            return self._partners.cancel(provider, path.split("/")[2])
        taken = self._partners.order(provider, headers.get("Idempotency-Key"), content or b"")
        if isinstance(taken, Reply):
            return taken
        if path == "/later":
            return Reply(200, _JSON, json.dumps({"id": taken.handle}).encode())
        await self._process.wait(max(0.0, taken.ends_at - asyncio.get_running_loop().time()))
        if taken.end != "done":
            return Reply(400, _JSON, b'{"error":"no result"}')
        taken.told += 1
        return Reply(200, _JSON, taken.content)

    async def _come_back(self, about: str, seconds: float) -> None:
        plan = self._scenario.plan
        if self._scenario.happens(plan.broken_after):
            self._misses(about, "a connection broke off")
            raise BrokenOffError("broken off on the way back")
        if self._scenario.happens(plan.too_slow):
            self._misses(about, "an answer was too slow")
            await self._process.wait(seconds)
            raise TooSlowError("too slow")

    def _latency(self) -> float:
        return self._scenario.chance.choice((0.001, 0.02, 0.02, 0.3))
