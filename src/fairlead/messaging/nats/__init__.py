"""Messaging between the servers of one installation over NATS, in addition to messaging within each of them.

A message is published at this server at once, as in `local`, and sent to a NATS server, which passes it on to the other
servers of the installation: wake-ups to all of them, events to those where somebody watches the workspace. Subjects
begin with a name that servers read from their database, so that several installations can share one NATS.

`link` is the connection and its queue; `wire` is the format of messages, and the checks of those that arrive. While
NATS is unavailable nothing is sent or received: that costs time, and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from fairlead.messaging.event_hub import HubLimits
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.messaging.nats.link import LinkState, NatsLink
from fairlead.messaging.nats.ports import NatsEventHub, NatsWakeups


class NatsMessaging(msgspec.Struct, frozen=True):
    """All ports, between servers. `start` connects in the background; `close` ends that."""

    events: NatsEventHub
    wakeups: NatsWakeups
    link: NatsLink

    @property
    def relay(self) -> LocalEventHub:
        """The local hub: what a server reads from the database it sends to its own subscribers alone."""
        return self.events.local

    def counts(self) -> Mapping[str, int]:
        """How many messages had which outcome (`LinkCounts`)."""
        return msgspec.structs.asdict(self.link.counts)

    def start(self) -> None:
        """Connect, and reconnect whenever the connection is lost."""
        self.link.start()

    async def close(self) -> None:
        """Send queued messages for up to a second, and close the connection."""
        await self.link.close()


def nats_messaging(
    servers: Sequence[str],
    installation: str,
    *,
    credentials: Path | None = None,
    limits: HubLimits | None = None,
    report: Callable[[LinkState], None] = lambda _: None,
) -> NatsMessaging:
    """Make messaging over NATS servers, given by their URLs.

    `report` is called when the connection is made or lost. Only the servers of an `installation` know its name.
    """
    link = NatsLink(servers, credentials, report)
    return NatsMessaging(NatsEventHub(link, installation, limits), NatsWakeups(link, installation), link)
