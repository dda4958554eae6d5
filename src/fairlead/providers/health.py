"""Cooldowns of credentials: after failing runs in a row a credential is not used for a while; then one run is a probe.

A workspace's own runs decide for how long a credential is kept from it, so that nobody closes a partner for others
(T-02). What others meet is only a presumption: a workspace that was answered within the last minute ignores it, and any
other may try with one run at a time.
"""

import enum
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

import msgspec

from fairlead.providers.spec import Cooldown

_RECENT_SECONDS: Final = 60.0
"""For how long an answer, or a cooldown, says something about now."""
WORKSPACES_MAX: Final = 10_000
"""How many workspaces a credential remembers."""


class Health(enum.Enum):
    """The health of a credential, for workspaces that have no results of their own."""

    READY = "ready"
    COOLING_DOWN = "cooling_down"
    PROBING = "probing"
    """A run, the probe, is under way; others of its workspace wait for its result."""


class Failures(msgspec.Struct):
    """The runs of a workspace that failed in a row, and until when a cooldown lasts or a probe is under way (seconds).

    Times of 0 are in no cooldown.
    """

    number: int = 0
    reason: str = ""
    failed_at: float = 0.0
    cooldown_until: float = 0.0
    probing_until: float = 0.0


class Failing(msgspec.Struct):
    """A credential with failures: those of each workspace, and until when it cools down for all (0: it does not)."""

    workspaces: dict[str, Failures] = msgspec.field(default_factory=dict)
    cooldown_until: float = 0.0


class CoolingWorkspace(msgspec.Struct, frozen=True):
    """A workspace whose runs found a credential failing: for how many more seconds it is not used for it, and why."""

    workspace_id: str
    seconds_left: float
    reason: str


CredentialRef = tuple[str, str]
"""A partner and the label of a credential."""
HealthListener = Callable[[CredentialRef, Health, int, str], None]
"""Told of a change: the credential, its health for all, for how many workspaces it cools down, and the last reason."""


class Healths:
    """The health of every credential that runs use. `tell` is called with each change; `now` is monotonic, in seconds.

    Failures that count are about the partner: no connection, no answer, a 5xx, no room. A run counts once, however
    often it was tried. A credential cools down for all where it does so for two workspaces within a minute, or for the
    only one that calls. A probe that never reports back (its run was cancelled) is given up after the length of a
    cooldown, so that no credential stays unused.
    """

    def __init__(self, tell: HealthListener, now: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self.now: Final = now
        self._told: dict[CredentialRef, tuple[Health, int]] = {}
        self.answered: Final[defaultdict[CredentialRef, dict[str, float]]] = defaultdict(dict)
        """When workspaces were last answered, by `now`; with WORKSPACES_MAX of them `note_success` makes room."""
        self.failing: Final[dict[CredentialRef, Failing]] = {}
        """Credentials with runs that failed last: while it is empty, any credential may be used."""

    def of(self, ref: CredentialRef) -> Health:
        """The health of a credential for all."""
        found = self.failing.get(ref)
        if found is None or not found.cooldown_until:
            return Health.READY
        now = self.now()
        is_probing = any(one.probing_until > now for one in found.workspaces.values())
        return Health.PROBING if is_probing else Health.COOLING_DOWN

    def cooling(self, ref: CredentialRef) -> Sequence[CoolingWorkspace]:
        """The workspaces for which a credential cools down."""
        found, now = self.failing.get(ref, Failing()), self.now()
        return [
            CoolingWorkspace(id_, max(0.0, one.cooldown_until - now), one.reason)
            for id_, one in found.workspaces.items()
            if one.cooldown_until
        ]

    def may_call(self, ref: CredentialRef, workspace_id: str) -> bool:
        """Whether a run may use it now: where a cooldown is over, one of the workspace may (see `begins`)."""
        found = self.failing.get(ref)
        if found is None:
            return True
        own, now = found.workspaces.get(workspace_id), self.now()
        if own is None:
            return True  # the first probe of this workspace, if it is one
        if own.cooldown_until > now:
            return False
        return own.probing_until <= now or not self._is_probe(ref, found, workspace_id, now)

    def begins(self, ref: CredentialRef, workspace_id: str, cooldown: Cooldown) -> None:
        """A run begins: where a cooldown has just ended, or others met failures, it is the probe of its workspace."""
        found, now = self.failing.get(ref), self.now()
        if found is not None and self._is_probe(ref, found, workspace_id, now):
            self._own(found, workspace_id).probing_until = now + cooldown.seconds
            self._tell_change(ref, found)

    def note_success(self, ref: CredentialRef, workspace_id: str) -> None:
        """A run was answered in a way that shows that the partner works."""
        now, answered = self.now(), self.answered[ref]
        answered[workspace_id] = now
        if len(answered) > WORKSPACES_MAX:
            recent = {id_: at for id_, at in answered.items() if at > now - _RECENT_SECONDS}
            self.answered[ref] = dict(sorted(recent.items(), key=itemgetter(1))[-WORKSPACES_MAX // 2 :])
        if (found := self.failing.get(ref)) is not None:
            found.workspaces.pop(workspace_id, None)
            found.cooldown_until = 0.0
            if not found.workspaces:
                del self.failing[ref]
            self._tell_change(ref, found)

    def note_failure(self, ref: CredentialRef, workspace_id: str, cooldown: Cooldown, reason: str) -> None:
        """A run failed because of the partner; `reason` says how its last try did."""
        found, now = self.failing.setdefault(ref, Failing()), self.now()
        own = self._own(found, workspace_id)
        own.number, own.reason, own.failed_at = own.number + 1, reason, now
        if own.cooldown_until or own.probing_until or own.number >= cooldown.after:
            own.cooldown_until, own.probing_until = now + cooldown.seconds, 0.0
            if found.cooldown_until or self._tells_of_all(ref, found, workspace_id, now):
                found.cooldown_until = own.cooldown_until
            self._tell_change(ref, found)

    def is_cooling(self, ref: CredentialRef) -> bool:
        """Whether a credential cools down for anybody."""
        found = self.failing.get(ref, Failing())
        return found.cooldown_until > 0.0 or any(one.cooldown_until for one in found.workspaces.values())

    def end_cooldown(self, ref: CredentialRef) -> bool:
        """End the cooldowns of a credential on an operator's request; False where there is none."""
        if not self.is_cooling(ref):
            return False
        del self.failing[ref]
        self._tell_change(ref, Failing())
        return True

    def seconds_left(self, ref: CredentialRef, workspace_id: str | None = None) -> float:
        """Seconds until the cooldown ends for a workspace, or for all; 0 when there is none."""
        found = self.failing.get(ref, Failing())
        lasting = found if workspace_id is None else found.workspaces.get(workspace_id, Failures())
        return max(0.0, lasting.cooldown_until - self.now())

    def _is_probe(self, ref: CredentialRef, found: Failing, workspace_id: str, now: float) -> bool:
        """Whether a run of a workspace would be tried for the others' sake: after its own cooldown, or in that of all.

        What a workspace was answered itself, within the last minute, says more than what others met.
        """
        own = found.workspaces.get(workspace_id)
        if own is not None and own.cooldown_until:
            return True
        return bool(found.cooldown_until) and self.answered[ref].get(workspace_id, -math.inf) <= now - _RECENT_SECONDS

    def _tells_of_all(self, ref: CredentialRef, found: Failing, workspace_id: str, now: float) -> bool:
        """Whether the cooldown of a workspace that begins now is presumed to be one for all."""
        since = now - _RECENT_SECONDS
        others = [one for id_, one in found.workspaces.items() if id_ != workspace_id and one.failed_at > since]
        if any(one.cooldown_until for one in others):
            return True
        is_alone = all(id_ == workspace_id or at <= since for id_, at in self.answered[ref].items())
        return is_alone and not others

    def _own(self, found: Failing, workspace_id: str) -> Failures:
        if workspace_id not in found.workspaces and len(found.workspaces) >= WORKSPACES_MAX:
            del found.workspaces[next(iter(found.workspaces))]
        return found.workspaces.setdefault(workspace_id, Failures())

    def _tell_change(self, ref: CredentialRef, found: Failing) -> None:
        """Tell how a credential is, where that is not what was told last."""
        cooling = [one for one in found.workspaces.values() if one.cooldown_until]
        state = self.of(ref), len(cooling)
        if state != self._told.get(ref, (Health.READY, 0)):
            self._told[ref] = state
            self._tell(ref, *state, max(cooling, key=lambda one: one.failed_at).reason if cooling else "")
