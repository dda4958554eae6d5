"""Messages between the parts of all servers. They may be lost: the database is the authority.

`wakeups` is the port for hints to look now, `event_hub` the one for what callers watch: events of jobs and changes of
runs. `event_relay` is the port for events of other servers that were read from the database. `Messaging` is all three.
`local` implements them within one process, `nats` between servers; `server/messaging.py` alone names them, and
`tests/messaging` has what any implementation must pass.

It imports the domain only. Nothing in it may wait for a subscriber or a listener, and no message may be the only record
of anything.
"""

from collections.abc import Mapping
from typing import Protocol

from fairlead.messaging.event_hub import EventHub
from fairlead.messaging.event_relay import EventRelay
from fairlead.messaging.wakeups import Wakeups


class Messaging(Protocol):
    """An implementation of messaging: its three ports."""

    @property
    def events(self) -> EventHub:
        """Events for watchers."""
        ...

    @property
    def relay(self) -> EventRelay:
        """Events of other servers, read from the database, for watchers here."""
        ...

    @property
    def wakeups(self) -> Wakeups:
        """Hints for those who would otherwise look a little later."""
        ...

    def counts(self) -> Mapping[str, int]:
        """How many messages to and from other servers had which outcome; empty without a messenger."""
        ...
