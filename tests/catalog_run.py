"""Run every model of the catalog over every leg against the partner simulator, and print what came of it.

A real `fairlead serve --simulate` in a temporary directory is called as any caller would, and then every run is made
once more through the queue (catalog_queue.py). The status is 1 when a run fails, costs less or more than its estimate
said, or ends in other bytes through the queue, when a retired model still runs, or when the books do not add up
afterwards.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

import httpx

from catalog_queue import compare_queued
from catalog_samples import AT_ONCE, BUDGET, Call, asked_for, calls, samples, shipped_catalog
from fairlead.cli.output import print_table
from fairlead.clock import Clock
from fairlead.domain.ledger.estimates import Source, estimate
from fairlead.domain.ledger.money import as_credits
from fairlead.domain.ledger.rates import card_in_force
from reaper import watch_this_run
from servers import Server, serving

_COLUMNS: Final = ("model", "leg", "sample", "operation", "protocol", "status", "credits", "dropped", "seconds", "what")
_QUEUE_COLUMNS: Final = ("model", "leg", "sample", "protocol", "status", "difference")
_SHOWN: Final = 160


@dataclass(frozen=True, slots=True)
class Made:
    """What came of one run."""

    call: Call
    status: int
    credits: str
    dropped: int
    seconds: float
    answer: httpx.Response

    @property
    def said(self) -> str:
        """Why it failed, in our words; nothing where it did not."""
        return "" if self.answer.is_success else self.answer.text

    @property
    def is_well(self) -> bool:
        """Whether it ended as it should: completed and priced, or refused as retired."""
        if self.call.leg is None:
            return self.status == httpx.codes.NOT_FOUND and "retired" in self.said
        return self.status == httpx.codes.OK and self.credits != "-"

    @property
    def is_as_told(self) -> bool:
        """Whether the charge is within the estimate of the same body (X-02), as exactly as credits are written."""
        leg, sample = self.call.leg, self.call.sample
        card = None if leg is None else card_in_force(leg.rate_cards, Clock().today())
        if card is None or sample is None:
            return True
        told = estimate(card, asked_for(sample))
        if told.source is Source.UNKNOWN:
            return True
        return Decimal(as_credits(told.least)) <= Decimal(self.credits) <= Decimal(as_credits(told.most))

    def row(self) -> list[str]:
        """Its line of the table."""
        call, sample = self.call, self.call.sample
        said = "" if self.is_well and call.leg is not None else ("retired" if self.is_well else self.said[:_SHOWN])
        return [
            call.model.id,
            call.model.native.provider if call.leg is None else call.leg.provider,
            "-" if sample is None else sample.name or "plain",
            "-" if sample is None else sample.operation.name,
            call.protocol,
            str(self.status),
            self.credits,
            str(self.dropped),
            f"{self.seconds:.2f}",
            said,
        ]


def run_catalog(data: Path) -> list[Made]:
    """Start a server over a new data directory, make every run, and prove its books."""
    return run_calls(data, list(calls()))


def run_calls(data: Path, wanted: Sequence[Call]) -> list[Made]:
    """Start a server over a new data directory, make some runs, and prove its books."""
    with serving(data, arguments=("--simulate",)) as server:
        server.cli("workspaces", "change", "default", "--cap", BUDGET)
        made = asyncio.run(_run_all(server, wanted))
        server.idle()
    return made


async def _run_all(server: Server, wanted: Sequence[Call]) -> list[Made]:
    """Make the runs, so many at once; results in the order of the calls."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as client:

        async def one(call: Call) -> Made:
            async with gate:
                return await _run(client, call)

        return await asyncio.gather(*map(one, wanted))


async def _run(client: httpx.AsyncClient, call: Call) -> Made:
    """One run, without fallback: a leg must not be served by another."""
    query = {"fallback_provider": "false"}
    if call.leg is not None and call.leg is not call.model.native:
        query["model_provider"] = call.leg.provider
    started = time.monotonic()
    answer = await client.post(
        f"/v2/models/{call.model.id}", params=query, json={} if call.sample is None else call.sample.body
    )
    dropped = answer.headers.get("x-service-router-dropped-params")
    return Made(
        call=call,
        status=answer.status_code,
        credits=answer.headers.get("x-service-credits-used", "-"),
        dropped=0 if dropped is None else len(json.loads(dropped)),
        seconds=time.monotonic() - started,
        answer=answer,
    )


def models_without_samples() -> list[str]:
    """The models nobody could run for want of a body."""
    today = Clock().today()
    return [
        model.id
        for model in shipped_catalog().models.values()
        if not model.is_retired(today) and not any(True for _ in samples(model))
    ]


def main() -> int:
    """Run the catalog and print the tables; the exit status."""
    watch_this_run()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fairlead-catalog-") as folder:
        made = run_catalog(Path(folder) / "data")
        compared = compare_queued(Path(folder) / "queue", [call for call in calls() if call.leg is not None])
    print_table([one.row() for one in made], _COLUMNS)
    bad, lacking = [one for one in made if not one.is_well], models_without_samples()
    for model_id in lacking:
        sys.stdout.write(f"There is no sample for {model_id}.\n")
    outside = [one for one in made if one.is_well and not one.is_as_told]
    if outside:
        sys.stdout.write("These cost less or more than their estimates said:\n")
        print_table([one.row() for one in outside], _COLUMNS)
    different = [one for one in compared if one.difference]
    if different:
        print_table([one.row() for one in different], _QUEUE_COLUMNS)
    models, queued = {one.call.model.id for one in made}, [one for one in compared if one.is_queueable]
    seconds = time.monotonic() - started
    sys.stdout.write(f"{len(models)} models, {len(made)} runs, {len(bad)} failed.\n")
    sys.stdout.write(f"{len(queued)} of them through the queue as well, {len(different)} with another result.\n")
    sys.stdout.write(f"The books add up. {seconds:.0f} s.\n")
    return 1 if bad or lacking or outside or different else 0


if __name__ == "__main__":
    sys.exit(main())
