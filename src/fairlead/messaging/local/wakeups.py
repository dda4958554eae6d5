"""Wake-ups within one process."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from fairlead.messaging.wakeups import Listener, Topic, Wakeup

_WAITING_MAX: Final = 10_000


class LocalWakeups:
    """Wakes the listeners of this process; at most `most` wake-ups wait for each, and the others are found later."""

    def __init__(self, most: int = _WAITING_MAX) -> None:
        self._most = most
        self._mailboxes = defaultdict[Topic, list[_Mailbox]](list)

    def publish(self, wakeup: Wakeup) -> None:
        """Wake the listeners of the topic, each in the next turn of the event loop."""
        for mailbox in self._mailboxes.get(wakeup.topic, ()):
            mailbox.put(wakeup)

    def listen(self, topic: Topic, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the wake-ups of a topic from now on; the returned function ends that."""
        mailbox = _Mailbox(listener, self._most)
        self._mailboxes[topic].append(mailbox)

        def leave() -> None:
            if mailbox in self._mailboxes[topic]:
                self._mailboxes[topic].remove(mailbox)
                mailbox.close()

        return leave


class _Mailbox:
    """What waits for one listener."""

    def __init__(self, listener: Listener, most: int) -> None:
        self._listener = listener
        self._most = most
        self._waiting: dict[Wakeup, None] = {}
        self._delivery: asyncio.Handle | None = None

    def put(self, wakeup: Wakeup) -> None:
        """Let a wake-up wait for the next turn; an exception of the listener then goes to the event loop's handler."""
        if len(self._waiting) < self._most:
            self._waiting[wakeup] = None
        if self._delivery is None:
            self._delivery = asyncio.get_running_loop().call_soon(self._deliver)

    def close(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        if self._delivery is not None:
            self._delivery.cancel()

    def _deliver(self) -> None:
        waiting, self._waiting, self._delivery = self._waiting, {}, None
        self._listener(tuple(waiting))
