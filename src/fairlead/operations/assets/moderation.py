"""Refuses uploaded bytes that are on a list, or that the operator's callable blocks.

They are judged before they are stored, so that nothing of them is left; where they cannot be judged, nothing is stored
(J-14).
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias

from fairlead.domain.assets.faults import AssetFaultError, ContentBlocked
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.moderation.pool import NoVerdictError
from fairlead.moderation.protocol import Question, Verdict
from fairlead.observing.observations import ContentRefused, ModerationFailed, Observer

Judge: TypeAlias = Callable[[str, Question], Awaitable[Verdict]]
"""Judges bytes of a workspace, given its id; NoVerdictError."""

_LISTED: Final = "the hash is on the list"


class Moderation:
    """Decides about bytes. `blocked` are BLAKE3 hashes, `judge` asks the operator's callable, where there is one."""

    def __init__(self, observe: Observer, *, blocked: Collection[str] = (), judge: Judge | None = None) -> None:
        self._observe = observe
        self._blocked = frozenset(blocked)
        self._judge = judge

    @property
    def looks_inside(self) -> bool:
        """Whether bytes are judged, and not their hash alone."""
        return self._judge is not None

    def check_hash(self, workspace_id: str, digest: str) -> None:
        """Look a hash up in the list; AssetFaultError(ContentBlocked)."""
        if digest in self._blocked:
            self._refuse(workspace_id, digest, _LISTED)

    async def check(self, workspace_id: str, question: Question) -> None:
        """Have bytes judged that a workspace has sent.

        AssetFaultError(ContentBlocked); FaultError(ServiceUnavailable) while they cannot be judged.
        """
        self.check_hash(workspace_id, question.hash)
        if self._judge is None:
            return
        try:
            verdict = await self._judge(workspace_id, question)
        except NoVerdictError as error:
            self._observe(ModerationFailed(workspace_id, question.hash, str(error)))
            raise FaultError(ServiceUnavailable("Files cannot be taken in right now.")) from error
        if verdict.is_blocked:
            self._refuse(workspace_id, question.hash, verdict.reason)

    def _refuse(self, workspace_id: str, digest: str, reason: str | None) -> None:
        self._observe(ContentRefused(workspace_id, digest, reason))
        raise AssetFaultError(ContentBlocked())
