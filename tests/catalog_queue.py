"""Models of the catalog over their legs, synchronously and through the queue: the same bytes both times (R-34).

The vendors are those of the partner simulator and the built-in partner, behind a partner that tells their answers again
(replaying_partner.py). Links to our own copies are signed again for every run, so each is compared by what it leads to.
"""

import asyncio
import hashlib
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from catalog_samples import AT_ONCE, BUDGET, Call, shipped_providers
from fairlead.providers.spec import Protocol
from fairlead.providers.spec_files import SPECS
from fairlead.server.installation import LOCAL, partners
from fairlead.server.settings import Settings
from fake_partner import CatalogFolder
from replaying_partner import ReplayingPartner, replaying_partner
from servers import Server, kill_at_last, serving

_SIMULATOR: Final = ("fairlead_partners.simulator", "--task-seconds", "0.05")
_BUILT_IN: Final = ("fairlead_partners.procedural",)
_TOKEN: Final = "a token of the built-in partner's"
_AUTH: Final = re.compile(r"(?ms)^\[auth\]\n.*?(?=^\[)")
_FROM_RSA: Final = '[auth]\nscheme = "header"\nprefix = "Bearer "\n\n'
"""A token that only a real account could sign is replaced by a plain one, as the simulated server does it."""
_OF_THE_RESULT: Final = (
    "content-type",
    "x-content-type-options",
    "x-service-credits-used",
    "x-service-router-dropped-params",
)
_CANNOT_BE_QUEUED: Final = "answers with bytes"


@dataclass(frozen=True, slots=True)
class Compared:
    """One call both ways: how the synchronous run was answered, and wherein the queued one differs, "" for nothing."""

    call: Call
    status: int
    difference: str

    @property
    def is_queueable(self) -> bool:
        """Whether the call can be queued at all: a partner that sends bytes cannot be waited for."""
        return self.call.protocol != Protocol.SYNC_BYTES.value

    def row(self) -> list[str]:
        """Its line of a table."""
        leg = "-" if self.call.leg is None else self.call.leg.provider
        sample = "-" if self.call.sample is None else self.call.sample.name or "plain"
        return [self.call.model.id, leg, sample, self.call.protocol, str(self.status), self.difference]


def compare_queued(folder: Path, wanted: Sequence[Call]) -> list[Compared]:
    """Make some runs both ways on a server of its own below a folder, and prove its books."""
    with ExitStack() as stack:
        built_in = stack.enter_context(_program(*_BUILT_IN))
        simulator = stack.enter_context(_program(*_SIMULATOR))
        # The built-in partner's own links are below /v1.
        partner = stack.enter_context(replaying_partner({"v1": built_in}, simulator))
        catalog = CatalogFolder(folder / "catalog")
        env = _at(partner.url, catalog)
        server = stack.enter_context(
            serving(folder / "data", catalog=catalog.path, env=env, arguments=("--no-local-partner",))
        )
        server.cli("workspaces", "change", "default", "--cap", BUDGET, "--in-flight-limit", "-1")
        compared = asyncio.run(_compare(server, partner, wanted))
        server.idle()
    assert partner.strangers == []
    return compared


@contextmanager
def _program(module: str, *arguments: str) -> Iterator[str]:
    """Run one of the partner programs; its address."""
    command = [sys.executable, "-m", module, "--port", "0", *arguments]
    with subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, env={**os.environ, "PROCEDURAL_TOKEN": _TOKEN}
    ) as process:
        assert process.stdout is not None
        with kill_at_last(process):
            yield process.stdout.readline().removeprefix("listening on ").strip()


def _at(url: str, catalog: CatalogFolder) -> dict[str, str]:
    """Write every provider file again, for a partner at another address that is polled without pauses; the settings."""
    env: dict[str, str] = {}
    simulated = partners(Settings(), None, url)
    for name, provider in shipped_providers().items():
        option = f"FAIRLEAD_PROVIDER_{name.upper().replace('-', '_')}"
        env |= {f"{option}_{variable.upper()}": "simulated" for variable in provider.variables}
        env[f"{option}_KEY"] = _TOKEN if name == LOCAL else simulated.secrets[name][0].text
        text = (SPECS / f"{name}.toml").read_text("utf-8")
        path = "" if name == LOCAL else f"/{name}{urlsplit(provider.base_url).path}"
        text = re.sub(r'(?m)^base_url = ".*"$', f'base_url = "{url}{path}"', text)
        text = re.sub(r"(?m)^(every|at_most_every) = [0-9.]+$", r"\1 = 0.05", text)
        if provider.auth.algorithm == "RS256":
            text = _AUTH.sub(_FROM_RSA, text)
        catalog.write(f"providers/{name}.toml", text)
    (catalog.path / "models").mkdir()
    return env


async def _compare(server: Server, partner: ReplayingPartner, wanted: Sequence[Call]) -> list[Compared]:
    """Make all runs synchronously, and then, with a partner that repeats itself, through the queue."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as client:

        async def run(call: Call) -> httpx.Response:
            async with gate:
                return await client.post(f"/v2/models/{call.model.id}", params=_query(call), json=_body(call))

        synchronous = await asyncio.gather(*map(run, wanted))
        partner.replay()

        async def compare(call: Call, expected: httpx.Response) -> Compared:
            async with gate:
                return Compared(call, expected.status_code, await _difference(client, call, expected))

        return await asyncio.gather(*map(compare, wanted, synchronous))


def _query(call: Call, **more: str) -> dict[str, str]:
    """The query that names a leg."""
    named = call.leg is not None and call.leg is not call.model.native
    return {"model_provider": call.leg.provider, **more} if named and call.leg is not None else more


def _body(call: Call) -> object:
    assert call.sample is not None
    return call.sample.body


async def _difference(client: httpx.AsyncClient, call: Call, expected: httpx.Response) -> str:
    """Queue a run, collect it, and say wherein it differs from the synchronous answer; "" for nothing."""
    path = f"/v2/models/{call.model.id}/requests"
    submitted = await client.post(path, params=_query(call), json=_body(call))
    if call.protocol == Protocol.SYNC_BYTES.value:
        is_refused = submitted.headers.get("x-service-error-type") == "not_enabled"
        return "" if is_refused and _CANNOT_BE_QUEUED in submitted.text else f"queued: {submitted.text}"
    if submitted.status_code != httpx.codes.CREATED:
        return f"not queued: {submitted.text}"
    address = submitted.json()["response_url"]
    while (collected := await client.get(address)).status_code == httpx.codes.ACCEPTED:  # noqa: ASYNC110 -- as callers do
        await asyncio.sleep(0.05)
    for name in _OF_THE_RESULT:
        if collected.headers.get(name) != expected.headers.get(name):
            return f"{name}: {collected.headers.get(name)}, not {expected.headers.get(name)}"
    if collected.status_code != expected.status_code:
        return f"{collected.status_code}: {collected.text[:200]}"
    runs = submitted.json()["request_id"], expected.headers["x-service-request-id"]
    contents = [_without_runs(runs, await _with_contents(client, one.content)) for one in (collected, expected)]
    return "" if contents[0] == contents[1] else f"other bytes: {contents[0][:200]!r}, not {contents[1][:200]!r}"


def _without_runs(runs: Sequence[str], content: bytes) -> bytes:
    """A result without the ids of the runs and without the moments they began, which translated answers may have."""
    for run_id in runs:
        began = uuid.UUID(run_id).int >> 80
        for of_run in (run_id, str(began), str(began // 1000)):
            content = content.replace(of_run.encode(), b"")
    return content


async def _with_contents(client: httpx.AsyncClient, content: bytes) -> bytes:
    """A result in which every link to a copy of ours is replaced by the digest of what it leads to."""
    ours = re.compile(re.escape(str(client.base_url).rstrip("/").encode()) + rb'/assets/[^"\\\s]+')
    for link in sorted(set(ours.findall(content))):
        answer = await client.get(link.decode("ascii"))
        assert answer.status_code == httpx.codes.OK, (link, answer.text)
        content = content.replace(link, hashlib.sha256(answer.content).hexdigest().encode())
    return content
