"""An event loop in which nothing is waited for: when all is quiet, the clock jumps to the next timer."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

_END_SECONDS = 86_400.0


class StalledError(Exception):
    """Nothing will ever happen again, or nothing has come of a whole day."""


class _Clock(selectors.SelectSelector):
    """What the loop waits on: there are no files, and waiting is moving the time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let the time pass that the loop would have waited."""
        if timeout is None or self.seconds > _END_SECONDS:
            raise StalledError(f"nothing more happens after {self.seconds:.1f} simulated seconds")
        self.seconds += max(timeout, 0.0)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop with a time of its own. What would go to a thread is done at once, in its turn.

    `unhandled` is what the loop was told of that nobody looked at: each is a bug.
    """

    def __init__(self) -> None:
        self._simulated = _Clock()
        super().__init__(self._simulated)
        self.unhandled: list[str] = []
        self.set_exception_handler(self._note)

    def time(self) -> float:
        """The simulated seconds since the loop was made."""
        return self._simulated.seconds

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call the function now; a thread would make every history end differently."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 -- it belongs to anyone who awaits the future
            future.set_exception(error)
        return future

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.unhandled.append(f"{context.get('message')}: {context.get('exception')!r}")
