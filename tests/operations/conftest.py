"""Servers, partners, callers and catalogs for the tests of operations."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP

from conftest import Run
from fairlead.domain.accounts.callers import Billing, Caller
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.operations.accounts.authenticate import ApiKey
from fairlead.operations.accounts.keys import issue_key
from fairlead.operations.accounts.workspaces import NewCredit, NewWorkspace, create_workspace, credit
from fairlead.storage.db.database import Database
from operations.letters import Letters
from operations.servers import DOLLAR, SCHEMA, Guarded, Partner, Server, model_text
from storage.bookings import Books


@pytest.fixture(autouse=True)
def _books_are_proven(proven_books: None) -> None:
    """Prove the books after each test of this folder."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a model for each way of calling."""
    models = tmp_path / "models"
    models.mkdir()
    (models / "input.json").write_text(json.dumps(SCHEMA))
    for provider in ("plain", "careful"):
        for call in ("now", "later"):
            text = model_text(f"{provider}-{call}", provider, call)
            (models / f"{provider}-{call}.toml").write_text(text)
    return models


@pytest.fixture
def guarded(database: Database) -> Guarded:
    """Return the test's database, guarded."""
    return Guarded(database)


@pytest.fixture
def partner(run: Run) -> Iterator[Partner]:
    """Return a listening partner."""
    started = Partner()
    run(started.start())
    yield started
    run(started.stop())


@pytest.fixture
def start_server(guarded: Guarded, partner: Partner, folder: Path, run: Run) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server of a given id, perhaps with other credentials of ours.

    A request to a partner in a transaction fails the test.
    """
    servers: list[Server] = []

    async def start(*how: Any) -> Server:
        servers.append(Server(guarded, partner, folder, *how))
        return servers[-1]

    yield lambda *how: run(start(*how))
    for server in servers:
        run(server.close())
    assert not any(server.transport.in_transaction for server in servers), "a partner was called in a transaction"


@pytest.fixture
def server(start_server: Callable[[str], Server]) -> Server:
    """Return a server."""
    return start_server("server-1")


@pytest.fixture
def books(database: Database, run: Run) -> Books:
    """Return the books of the test's database."""
    return Books(database, run)


@pytest.fixture
def new_caller(server: Server, run: Run) -> Callable[..., Caller]:
    """Return a function that makes a workspace with a key and authenticates with it."""

    async def make(balance: int = DOLLAR, **options: Any) -> Caller:
        command = NewWorkspace(**{"name": "lab", "billing": Billing.PREPAID, "in_flight_limit": UNLIMITED, **options})
        await create_workspace(server.database, command, server.clock)
        if balance:
            await credit(server.database, command.name, NewCredit(balance, "paid in"), server.clock)
        key = await issue_key(server.database, command.name, "", None, "flk_", server.clock)
        return await server.authenticator.authenticate(ApiKey(key.text))

    return lambda **options: run(make(**options))


@pytest.fixture
def caller(new_caller: Callable[..., Caller]) -> Caller:
    """Return a caller whose prepaid workspace has one dollar."""
    return new_caller()


@pytest.fixture
def letters(run: Run) -> Iterator[Letters]:
    """Return the letters of a mail server that listens."""
    taken = Letters()

    async def listen() -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(lambda: SMTP(taken), "127.0.0.1", 0)

    server = run(listen())
    taken.port = server.sockets[0].getsockname()[1]
    yield taken
    server.close()
