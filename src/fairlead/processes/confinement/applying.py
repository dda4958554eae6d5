"""A process confines itself: it applies a policy in an order in which each step is still possible."""

import os
import sys
from collections.abc import Callable
from typing import Final

from fairlead.processes.confinement import filters, landlock, limits, privileges
from fairlead.processes.confinement.kernel import own_status, thread_count
from fairlead.processes.confinement.paths import rules_of
from fairlead.processes.confinement.policy import (
    CAPABILITIES,
    LANDLOCK,
    LIMITS,
    NETWORK,
    SECCOMP,
    ConfinementError,
    Mechanism,
    Policy,
    Report,
)

_OTHER_SYSTEM: Final = "only Linux has it"
_NO_LANDLOCK: Final = "the kernel has no Landlock (Linux 5.13, with landlock among the `lsm=` of its command line)"
_NO_FILTER: Final = "no filter could be compiled"
_FILTERED: Final = "2"


def apply(policy: Policy) -> Report:
    """Confine this process for good, before it loads anything untrusted, while it has one thread.

    ConfinementError where the policy cannot be enforced, or a protected file can still be read.
    """
    limits.die_with_parent()
    limits.keep_orphans()
    limits.bound(policy.memory, policy.files)
    limited = limits.bound_further(policy)
    if sys.platform != "linux":
        return _require(policy, Report([Mechanism(name, _OTHER_SYSTEM, is_held=False) for name in _SET_HERE]))
    _refuse_threads()
    network = _network(policy)
    limits.die_with_parent()  # a new namespace of users has cleared it
    privileges.hide_memory()
    found = [
        _try(CAPABILITIES, _capabilities),
        _try(LANDLOCK, lambda: _landlock(policy)),
        _try(SECCOMP, lambda: _filter(policy)),
        Mechanism(LIMITS, limited),
    ]
    is_closed = policy.allows_network or next(one for one in found if one.name == SECCOMP).is_held
    return _require(policy, Report([*found, Mechanism(NETWORK, network, is_held=is_closed)]))


def narrow(policy: Policy) -> Report:
    """Restrict this process further than the template it was forked from, for good: to its own folder and limits.

    To be called before third-party code runs. Filters are installed beside those of the template. ConfinementError as
    for `apply`.
    """
    limits.die_with_parent()
    limits.keep_orphans()
    if sys.platform != "linux":
        return _require(policy, Report([Mechanism(LANDLOCK, _OTHER_SYSTEM, is_held=False)]))
    _refuse_threads()
    found = [_try(LANDLOCK, lambda: _landlock(policy))]
    if policy.filters:
        found.append(_try(SECCOMP, lambda: _filter(policy)))
    return _require(policy, Report(found))


_SET_HERE: Final = (LANDLOCK, SECCOMP, CAPABILITIES, NETWORK)


def _require(policy: Policy, report: Report) -> Report:
    if policy.is_required and report.missing:
        words = "; ".join(f"{mechanism.name}: {mechanism.detail}" for mechanism in report.missing)
        raise ConfinementError(f"this process cannot be confined: {words}")
    return report


def _try(name: str, step: Callable[[], str]) -> Mechanism:
    try:
        return Mechanism(name, step())
    except OSError as error:
        return Mechanism(name, error.strerror or str(error), is_held=False)


def _refuse_threads() -> None:
    """Landlock, filters and namespaces apply to the calling thread: another one would stay unconfined."""
    count = thread_count()
    if count > 1:
        raise ConfinementError(f"a process with {count} threads cannot be confined")


def _network(policy: Policy) -> str:
    if policy.allows_network:
        return "granted by the settings"
    obstacle = privileges.leave_network()
    return "no sockets, a network of its own" if obstacle is None else f"no sockets; no namespace: {obstacle}"


def _capabilities() -> str:
    privileges.drop_capabilities()
    user = os.getuid()
    return f"none, as the user {user}" if user else "none, as root, who still owns the files of root"


def _landlock(policy: Policy) -> str:
    version = min(landlock.landlock_version(), policy.landlock_version_max)
    if version < 1:
        raise OSError(_NO_LANDLOCK)
    return landlock.restrict(rules_of(policy), version, network=policy.allows_network)


def _filter(policy: Policy) -> str:
    if not policy.filters:
        raise OSError(_NO_FILTER)
    for program in policy.filters:
        filters.install(program)
    if own_status().get("Seccomp") != _FILTERED:
        raise OSError("a filter was set and does not hold")
    return "system calls are filtered"
