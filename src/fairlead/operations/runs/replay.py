"""Repeats the result of a run to a caller with its idempotency key (R-18)."""

import contextlib
from typing import Final

from msgspec.structs import replace

from fairlead.clock import Clock
from fairlead.domain.faults import FaultError, KeyConflict, ProviderError, ServiceUnavailable, StillRunning
from fairlead.domain.runs.entries import EarlierWork, IdempotencyKey, KeptResult
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome
from fairlead.domain.runs.replays import is_recorded, names_links
from fairlead.domain.runs.states import RunState
from fairlead.operations.runs.results import Answer, ResultGoneError, Results, read_dropped
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.runs.idempotency import EndedRun, ended_run, forget_expired, key_in_use, note_replay

_FORGOTTEN_AT_ONCE: Final = 500
_RESULT: Final = "The result of this idempotency key"
_LOST: Final = "The outcome of this run could not be determined; it was not charged."


class Replayer:
    """Keeps results for keys and replays them. Sizes are in bytes, times in seconds.

    A result larger than `most` is not kept; one with links of a partner can be replayed for `with_links`.
    """

    def __init__(self, database: Database, results: Results, clock: Clock, *, most: int, with_links: int) -> None:
        self._database = database
        self._results = results
        self._clock = clock
        self._most = most
        self._with_links = with_links

    async def is_known(self, key: IdempotencyKey) -> bool:
        """Whether a key was used before; FaultError if that cannot be read."""
        now = self._clock.now_ms()
        try:
            return await self._database.read(lambda c: key_in_use(c, key.id, now))
        except DatabaseUnavailableError as error:
            raise FaultError(_away()) from error

    async def tell(self, run_id: str) -> Answer | EarlierWork:
        """The result of a run, or its work if that is undecided; FaultError while it is running, or has no result."""
        ended = await self._read_end(run_id)
        if ended is not None and ended.left is not None:
            return ended.left
        # A run that ended without a result has just freed its key: the same call again is a new run.
        if ended is None or (ended.result is None and ended.state is not RunState.LOST):
            raise FaultError(StillRunning())
        if ended.result is None:
            return Answer(Failed(ProviderError(f"{_LOST} Use a new key.")), None, is_replay=True)
        answer = replace(await self._answer(ended, ended.result), is_replay=True)
        await self._note(run_id)
        return answer

    async def _note(self, run_id: str) -> None:
        """Record the replay for the run's timeline. The replay takes place even if that is impossible."""
        now = self._clock.now_ms()
        with contextlib.suppress(DatabaseUnavailableError):
            await self._database.write(lambda c: note_replay(c, run_id, now), durable=False)

    async def answer_of(self, run_id: str) -> Answer | None:
        """The result of a run that another server may have ended; None while it is running. FaultError, as `tell`."""
        ended = await self._read_end(run_id)
        if ended is None:
            return None
        if ended.result is None:
            return Answer(Failed(ProviderError(_LOST)), None)
        return await self._answer(ended, ended.result)

    async def _read_end(self, run_id: str) -> EndedRun | None:
        try:
            return await self._database.read(lambda c: ended_run(c, run_id))
        except DatabaseUnavailableError as error:
            raise FaultError(_away()) from error

    async def _answer(self, ended: EndedRun, kept: KeptResult) -> Answer:
        return Answer(
            outcome=await self._outcome(kept),
            charge=None if ended.byok else ended.charge,
            fallback_provider=kept.fallback_provider,
            dropped=read_dropped(kept),
        )

    async def keep(self, answer: Answer, key: IdempotencyKey, base_url: str) -> KeptResult | None:
        """What is kept of an answer for its key; None if the key is to be free again.

        Links that begin with `base_url` are ours, if there is one.
        """
        outcome = answer.outcome
        if not is_recorded(outcome):
            return None
        kept = await self._results.keep(answer, key.expires_at, most=self._most)
        if kept is None:
            # The key stays used, and 0 tells a repeated call that its result was too large to be kept.
            return KeptResult(key.expires_at, replayable_until=0)
        ours = f"{base_url}/assets/" if base_url else None
        if not (isinstance(outcome, Completed) and names_links(outcome.answer, ours)):
            return kept
        # A partner's links end before the key does, and a result whose links lead nowhere is of no use.
        return replace(kept, replayable_until=self._clock.now_ms() + self._with_links * 1000)

    async def forget(self) -> int:
        """Delete a batch of expired keys and results; returns how many, 0 when none are left."""
        now = self._clock.now_ms()
        try:
            return await self._database.write(lambda c: forget_expired(c, now, _FORGOTTEN_AT_ONCE))
        except DatabaseUnavailableError:
            return 0

    async def _outcome(self, kept: KeptResult) -> Outcome:
        if kept.replayable_until is not None and kept.replayable_until <= self._clock.now_ms():
            reason = "is too large to be kept" if kept.replayable_until == 0 else "named links that have expired"
            raise FaultError(KeyConflict(f"{_RESULT} {reason}; use a new key."))
        try:
            return await self._results.read(kept)
        except ResultGoneError as error:
            raise FaultError(KeyConflict(f"{_RESULT} is no longer there; use a new key.")) from error


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("What this idempotency key was used for cannot be read right now.")
