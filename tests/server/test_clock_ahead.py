"""A server whose machine's clock is wrong, on a shared database: it decides and records by the clock of that."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop

from databases import opened_database
from fairlead.clock import Clock
from fairlead.operations.ledger.books import audit
from fairlead.server.lifecycle import running_server
from fairlead.server.settings import read_settings
from fake_partner import SECRET, CatalogFolder, FakePartner, reply_json
from server.connections import serving

pytestmark = [pytest.mark.req("T-07"), pytest.mark.single_server("it makes servers of its own")]

_FORTY_DAYS_NS = 40 * 86_400 * 10**9


async def _statuses(folder: Path, url: str, clock: Clock, key: str | None, runs: int) -> tuple[str, list[str]]:
    """Start a server with a clock and make some runs: the key, and their statuses."""
    settings = read_settings(data=folder / "data", catalog=folder / "catalog", database=url)
    async with running_server(settings, clock) as server:
        if key is None:
            assert server.first_keys.api is not None
            key = server.first_keys.api.text
            await _give_budget(url)
        statuses = []
        async with serving(server.application) as web, web.caller() as caller:
            for _ in range(runs):
                body = json.dumps({"prompt": "A lighthouse"}).encode()
                caller.send(
                    b"POST /v2/models/fake/image-1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"X-API-Key: %b\r\nContent-Length: %d\r\n\r\n%b" % (key.encode(), len(body), body)
                )
                head, _ = await caller.answer()
                statuses.append(head["status"])
    return key, statuses


async def _give_budget(url: str) -> None:
    async with opened_database(url) as database:
        await database.write(lambda c: c.exec_driver_sql(_BUDGET).close())
        await database.write(lambda c: c.exec_driver_sql("UPDATE workspaces SET budgets = 1").close())


_BUDGET = """
    INSERT INTO budgets (id, workspace_id, scope, subject, target, period, amount, held, spent, since, thresholds,
                         is_enforced, told_refusal, created_at)
    SELECT 'budget-1', id, 'workspace', '', id, 'month', 2000000, 0, 0, '2026-01-01', '[]', true, false, 1
    FROM workspaces
"""
"""Two cents a month, for the one workspace there is."""


def test_clock_that_is_ahead_switches_no_budget_off(
    tmp_path: Path, partner: FakePartner, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run of a server that believes it is next month counts in this one, for itself and for all others."""
    catalog = CatalogFolder(tmp_path / "catalog")
    catalog.add_provider(partner.url)
    catalog.add_model("fake/image-1", price="0.01")
    partner.script("/json", *(reply_json({"made": True}) for _ in range(6)))
    for name in ("ENGINE", "LOCAL_PARTNER"):
        monkeypatch.setenv(f"FAIRLEAD_{name}", "false")
    monkeypatch.setenv("FAIRLEAD_PROVIDER_FAKE_KEY", SECRET)

    async def work() -> tuple[list[str], list[str], Any]:
        ahead = Clock(lambda: time.time_ns() + _FORTY_DAYS_NS)
        key, first = await _statuses(tmp_path, postgresql_url, ahead, None, 1)
        _, second = await _statuses(tmp_path, postgresql_url, Clock(), key, 3)
        async with opened_database(postgresql_url) as database:
            return first, second, await audit(database)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        first, second, report = runner.run(work())
    assert first == ["HTTP/1.1 200 OK"]
    assert second == ["HTTP/1.1 200 OK", *["HTTP/1.1 402 Payment Required"] * 2]
    assert report.disagreements == []
