"""A hundred calls with idempotency keys, and a server that is killed among them (R-18, R-29).

Each call has a body of its own, by which what was asked of a partner can be told apart. Afterwards every call is made
again: it is told what was recorded, or told that nobody knows, or runs because it never began. Nothing is asked for
twice.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx
import pytest

from fake_partner import SECRET, CatalogFolder, FakePartner, echo
from servers import Server, serving, wait_until_async

_CALLS: Final = 100
_AT_ONCE: Final = 20
_MODELS: Final = ("fake/json-1", "once/json-1")
_ENV: Final = {
    **{f"FAIRLEAD_PROVIDER_{name}_KEY": SECRET for name in ("FAKE", "ONCE")},
    "FAIRLEAD_SILENT_SERVER_SECONDS": "5",
}
_PLAIN: Final = ("--no-local-partner",)
_PATHS: Final = ("/json", "/once/json")
_REPLAYED: Final = "idempotent-replayed"


def _catalog(folder: Path, partner: FakePartner) -> CatalogFolder:
    """A partner that honours keys of ours and one that does not; each answers some calls at once and holds the rest."""
    catalog = CatalogFolder(folder)
    catalog.add_provider(partner.url)
    catalog.add_provider(f"{partner.url}/once", "once", repeats_safely=False)
    for model_id in _MODELS:
        catalog.add_model(model_id, provider=model_id.partition("/")[0])
    for path in _PATHS:
        partner.script(path, *[echo()] * (_AT_ONCE // 2), partner.hold(echo()))
    return catalog


def _model(number: int) -> str:
    return _MODELS[number % 2]


class _Caller:
    """Makes every call once, so many at a time, and keeps what was answered."""

    def __init__(self, server: Server) -> None:
        self.answers: dict[int, httpx.Response] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE * 2)
        self._client = httpx.AsyncClient(
            base_url=server.url,
            headers={"X-API-Key": server.key},
            timeout=60,
            limits=httpx.Limits(max_connections=None),
        )

    async def call_all(self) -> None:
        """Make the calls; one whose connection breaks is left out of the answers."""
        async with self._client:
            await asyncio.gather(*(self._call(number) for number in range(_CALLS)))

    async def _call(self, number: int) -> None:
        async with self._turns:
            with suppress(httpx.TransportError):  # the server was killed
                self.answers[number] = await self._client.post(
                    f"/v2/models/{_model(number)}", json={"n": number}, headers={"Idempotency-Key": f"key-{number}"}
                )


async def _crash(server: Server, partner: FakePartner) -> Mapping[int, httpx.Response]:
    """Kill the server when some calls were answered, some are at the partners, and some were never made."""
    caller = _Caller(server)
    calls = asyncio.create_task(caller.call_all())
    await wait_until_async(
        lambda: len(caller.answers) == _AT_ONCE and len(partner.requests()) >= _AT_ONCE * 2, "the moment has come"
    )
    server.kill()
    await calls
    return caller.answers


async def _again(server: Server) -> Mapping[int, httpx.Response]:
    caller = _Caller(server)
    await caller.call_all()
    return caller.answers


def _orders(partner: FakePartner) -> Mapping[int, list[str]]:
    """What the partners were asked for, by the number of the call: the keys of ours, or a mark for each without."""
    orders: dict[int, list[str]] = defaultdict(list)
    for request in partner.requests():
        orders[json.loads(request.body)["n"]].append(request.headers.get("idempotency-key", "without"))
    return orders


@pytest.mark.req("R-18", "R-29")
def test_call_with_a_key_is_never_made_twice_by_a_crash(
    either_database: str, tmp_path: Path, partner: FakePartner
) -> None:
    """After the crash each key tells what was recorded, or is free; no work is ordered twice; the books are right."""
    catalog = _catalog(tmp_path / "catalog", partner)
    first = Server(tmp_path / "data", either_database, catalog.path, _ENV, _PLAIN)
    first.cli("workspaces", "change", "default", "--in-flight-limit", "-1")
    before = asyncio.run(_crash(first, partner))
    begun = set(_orders(partner))
    partner.release()
    with serving(
        tmp_path / "data", database=either_database, catalog=catalog.path, env=_ENV, arguments=_PLAIN
    ) as second:
        second.wait_until_drained()
        after = asyncio.run(_again(second))
        report = second.audit()
    assert len(after) == _CALLS
    assert report["clean"]
    lost = {number for number, answer in after.items() if answer.status_code == 502}
    for number, answer in after.items():
        assert answer.status_code == 200 or number in lost, answer.text
        if number in before:
            assert (answer.content, answer.headers[_REPLAYED]) == (before[number].content, "true")
        if number in begun:
            assert answer.headers[_REPLAYED] == "true"
        if number not in lost:
            assert answer.json() == {"n": number}
    _ordered_once(_orders(partner), lost)
    assert report["totals"]["runs_lost"] >= len(lost) > 0
    assert begun - set(before) - lost
    assert set(range(_CALLS)) - begun


def _ordered_once(orders: Mapping[int, list[str]], lost: set[int]) -> None:
    """Assert that no work was ordered twice: a partner that honours keys may be asked again under the same one.

    A run that is lost need not have reached the partner: the server may die between its intent and the request.
    """
    assert set(orders) | lost == set(range(_CALLS))
    for number, keys in orders.items():
        assert len(set(keys)) == 1, number
        if _model(number).startswith("once"):
            assert len(keys) == 1, number
    assert {_model(number) for number in lost} == {"once/json-1"}
