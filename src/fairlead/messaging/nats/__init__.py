"""Messaging between the servers of one installation over NATS, in addition to messaging within each of them.

A message is published here at once, as in `local`, and sent to a NATS server, which passes it on to the other servers
of the installation: wake-ups to all of them, events to those at which the workspace is watched. Subjects begin with a
name that the installation's servers have from their database, so that two installations may share a NATS.

`link` is the connection and what waits for it; `wire` is the form of messages, and the bounds of those from outside.
While NATS is unavailable nothing is sent or received: that costs time, and nothing else.
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
        """The local hub: what was read from the database is sent at this server alone."""
        return self.events.local

    def counts(self) -> Mapping[str, int]:
        """How many messages had which outcome (`LinkCounts`)."""
        return msgspec.structs.asdict(self.link.counts)

    def start(self) -> None:
        """Connect, and connect again whenever the connection is lost."""
        self.link.start()

    async def close(self) -> None:
        """Send what waits, for a moment, and close the connection."""
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

    `report` is called when the connection is made or lost. The name of an `installation` is known to its servers only.
    """
    link = NatsLink(servers, credentials, report)
    return NatsMessaging(NatsEventHub(link, installation, limits), NatsWakeups(link, installation), link)
