"""A server whose PostgreSQL is replaced by its standby: calls of every kind wait for that, and are answered."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from sqlalchemy import func, select

from end_to_end.test_workflows import ENV
from end_to_end.workflow_clients import graph_showing, picture
from fairlead.storage.db.tables import ledger_entries
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from machine import limit
from pgbouncer import running_pgbouncer
from postgres_pair import PostgresPair, running_pair
from servers import Server, serving, wait_until

_WAIT_SECONDS: Final = limit(60.0)
_ENV: Final = {
    **ENV,
    "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
    "FAIRLEAD_DATABASE_WAIT_SECONDS": f"{_WAIT_SECONDS:g}",
    "FAIRLEAD_LOCAL_PARTNER": "false",
}
_MODEL: Final = "/v2/models/fake/json-1"
_CALLS: Final[dict[str, Callable[[httpx.Client], httpx.Response]]] = {
    "run": lambda caller: caller.post(_MODEL, json={}),
    "queued run": lambda caller: caller.post(f"{_MODEL}/requests", json={}),
    "job": lambda caller: caller.post("/api/v2/jobs", json={"workflow": _graph()}),
    "prompt": lambda caller: caller.post("/api/prompt", json={"prompt": _graph()}),
    "upload": lambda caller: caller.post("/api/upload/image", files={"image": ("photo.png", picture())}),
}
_PAUSE_SECONDS: Final = 0.05
"""Between two calls of a caller; some are under way at each moment of the failover."""

pytestmark = pytest.mark.single_server("it makes a database of its own")


def _graph() -> Any:
    return graph_showing("PrimitiveInt", value=time.monotonic_ns() % 1_000_000)


def _call(server: Server, name: str, seen: list[str], is_over: threading.Event) -> None:
    """Call again and again, and note each answer."""
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=_WAIT_SECONDS) as caller:
        while not is_over.wait(_PAUSE_SECONDS):
            answer = _CALLS[name](caller)
            seen.append(f"{name}: {'taken' if answer.is_success else answer.text}")


def _fail_over(pair: PostgresPair, server: Server, switch: Callable[[], None]) -> list[str]:
    """Fail over under calls of every kind; returns what they were answered."""
    seen: list[str] = []
    is_over = threading.Event()
    callers = [threading.Thread(target=_call, args=(server, name, seen, is_over)) for name in _CALLS]
    for caller in callers:
        caller.start()
    try:
        wait_until(lambda: len(seen) >= 5 * len(_CALLS), "calls before the failover")
        pair.primary.refuse_writes()
        wait_until(lambda: server.client.get("/readyz").json().get("problems"), "the failover is noticed")
        assert server.client.get(_MODEL).status_code == 200  # what only reads goes on
        pair.wait_until_followed(
            lambda connection: connection.execute(select(func.count()).select_from(ledger_entries)).scalar_one()
        )
        switch()
        answered = len(seen)
        wait_until(lambda: len(seen) >= answered + 5 * len(_CALLS), "calls after the failover", _WAIT_SECONDS)
    finally:
        is_over.set()
        for caller in callers:
            caller.join(_WAIT_SECONDS)
    return seen


@pytest.mark.req("T-07")
@pytest.mark.parametrize("way", ["two hosts", "pgbouncer"])
def test_no_call_fails_while_the_database_fails_over(
    way: str, tmp_path: Path, catalog: CatalogFolder, partner: FakePartner
) -> None:
    """Whatever writes waits while the primary lets nobody write, and goes on at the standby that was promoted."""
    partner.script("/json", reply(200, b'{"made":1}'))
    with ExitStack() as stack:
        pair = stack.enter_context(running_pair())
        url, switch = pair.url, pair.promote
        if way == "pgbouncer":
            bouncer = stack.enter_context(running_pgbouncer(pair.primary))
            url = bouncer.url(pair.name)

            def switch() -> None:
                pair.promote()
                bouncer.lead_to(pair.standby)

        server = stack.enter_context(serving(tmp_path / "data", database=url, catalog=catalog.path, env=_ENV))
        seen = _fail_over(pair, server, switch)
        assert set(seen) == {f"{name}: taken" for name in _CALLS}
