"""The implementations of messaging that the tests of this folder are about."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import pytest

from fairlead.messaging.event_hub import HubLimits
from fairlead.messaging.local import local_messaging
from fairlead.messaging.messaging import Messaging

_IMPLEMENTATIONS: Final[Mapping[str, Callable[[HubLimits], Messaging]]] = {
    "local": local_messaging,
}
"""Each passes every test that takes `messaging`: another one is one line here."""


class NewMessaging(Protocol):
    """Makes messaging of the implementation under test."""

    def __call__(self, limits: HubLimits | None = None) -> Messaging:
        """Make it, with limits of the event hub."""
        ...


@pytest.fixture(params=_IMPLEMENTATIONS)
def messaging(request: pytest.FixtureRequest) -> NewMessaging:
    """Return what makes messaging, which belongs to the loop in which it is made."""

    def make(limits: HubLimits | None = None) -> Messaging:
        return _IMPLEMENTATIONS[request.param](limits or HubLimits())

    return make
