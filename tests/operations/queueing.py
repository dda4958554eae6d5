"""Queued runs on a server without its HTTP face: taken in, claimed, and seen to their ends."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.runs.entries import QueueTicket
from fairlead.domain.runs.selection import RouteOptions
from fairlead.operations.runs.admit import Queued, RunCommand
from operations.servers import BASE_URL, Hook, Partner, Server
from storage.queued_runs import BACKLOG, run_id

HOUR_MS = 3_600_000
_WITHOUT_FALLBACK = RouteOptions(may_fall_back=False)


def gate_of(partner: Partner) -> asyncio.Event:
    """Let the partner answer nothing until the gate is open."""
    gate = asyncio.Event()
    partner.before = cast("Hook", gate.wait)
    return gate


async def enqueue(
    server: Server,
    caller: Caller,
    model: str = "plain-now",
    body: Mapping[str, Any] | None = None,
    number: int = 1,
    options: RouteOptions = _WITHOUT_FALLBACK,
) -> Queued:
    """Put a run into its workspace's queue, as the submit route does."""
    checked = server.admitter.checks.check_headers(caller, f"acme/{model}", lambda: options)
    command = RunCommand(run_id(number), json.dumps(body or {}).encode(), None, BASE_URL)
    return await server.admitter.enqueue(checked, command, QueueTicket(BACKLOG, BASE_URL))


async def claim(server: Server, caller: Caller, number: int = 1) -> bool:
    """Claim a run and see it to its end; whether there was anything to claim."""
    execution = await server.queue.claim(run_id(number), caller.workspace_id)
    if execution is not None:
        await execution.task
    return execution is not None


async def make_run(server: Server, caller: Caller, model: str = "plain-now", number: int = 1) -> str:
    """Queue a run and see it to its end; its id."""
    await enqueue(server, caller, model, number=number)
    assert await claim(server, caller, number)
    return run_id(number)
