"""The implementations of messaging that the tests of this folder are about."""

import itertools
from collections.abc import Iterator
from typing import Final, Protocol

import pytest

from conftest import Run
from fairlead.messaging import Messaging
from fairlead.messaging.event_hub import HubLimits
from fairlead.messaging.local import local_messaging
from fairlead.messaging.nats import NatsMessaging, nats_messaging
from nats_servers import NatsServer
from waiting import until

_IMPLEMENTATIONS: Final = ("local", "nats")
"""Each passes every test that takes `messaging`: another one is one line here, and what makes it below."""
_names: Final = itertools.count()


class NewMessaging(Protocol):
    """Makes messaging of the implementation under test."""

    def __call__(self, limits: HubLimits | None = None) -> Messaging:
        """Make it, with limits of the event hub."""
        ...


class NewServers(Protocol):
    """Makes messaging of servers over NATS, connected."""

    async def __call__(self, installation: str, count: int = 1) -> list[NatsMessaging]:
        """Make it for so many servers of an installation."""
        ...


@pytest.fixture
def installation() -> str:
    """Return the name of an installation that no other test has."""
    return f"installation-{next(_names)}"


@pytest.fixture(params=_IMPLEMENTATIONS)
def messaging(request: pytest.FixtureRequest, run: Run, installation: str) -> Iterator[NewMessaging]:
    """Return what makes messaging, which belongs to the loop in which it is made."""
    if request.param == "local":
        yield lambda limits=None: local_messaging(limits)
        return
    server: NatsServer = request.getfixturevalue("nats")
    made: list[NatsMessaging] = []

    def make(limits: HubLimits | None = None) -> Messaging:
        made.append(nats_messaging([server.url], installation, limits=limits))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        run(one.close())


@pytest.fixture
def new_servers(nats: NatsServer, run: Run) -> Iterator[NewServers]:
    """Return what makes messaging of several servers."""
    made: list[NatsMessaging] = []

    async def make(installation: str, count: int = 1) -> list[NatsMessaging]:
        servers = [nats_messaging([nats.url], installation) for _ in range(count)]
        made.extend(servers)
        for one in servers:
            one.start()
        await until(lambda: all(one.link.is_connected for one in servers))
        return servers

    yield make
    for one in made:
        run(one.close())
