"""Pools: names for the servers and workers that execute some of the queued work, and the rules that choose one (M-05).

A queued run or a job gets its pool when it is admitted, and keeps it. Only servers that work for the pool claim it.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

DEFAULT_POOL: Final = "default"
"""The pool of all work that no rule puts into another, for which a server works unless its settings say otherwise."""
POOL_MAX: Final = 32
POOL_PATTERN: Final = "^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$"
_POOL: Final = re.compile(POOL_PATTERN)
_KINDS: Final = ("class", "model", "provider", "subscription")
_POOLS_MAX: Final = 100
_SELECTORS_MAX: Final = 1_000
_SHAPE: Final = "must be pools as name=kind:value,kind:value with semicolons between, such as gpu=class:KSampler*"


def is_pool_name(text: str) -> bool:
    """Whether a text may name a pool: 1 to 32 of a-z, 0-9 and -, neither beginning nor ending with a dash."""
    return len(text) <= POOL_MAX and _POOL.fullmatch(text) is not None


def read_pool(text: str) -> str:
    """Read the name of a pool; ValueError."""
    if not is_pool_name(text):
        raise ValueError(f"must be 1 to {POOL_MAX} of a-z, 0-9 and -, neither first nor last a dash, not {text[:40]!r}")
    return text


def read_pools(text: str) -> tuple[str, ...]:
    """Read names of pools with commas between them; ValueError."""
    return tuple(dict.fromkeys(read_pool(part.strip()) for part in text.split(",")))


class WorkedPools(msgspec.Struct, frozen=True):
    """The pools whose work a server executes, by the kind of the work; none where it has no places for that kind."""

    runs: tuple[str, ...] = (DEFAULT_POOL,)
    jobs: tuple[str, ...] = (DEFAULT_POOL,)


class PoolRule(msgspec.Struct, frozen=True):
    """The work that is executed in a pool, by node classes, models, providers and subscriptions.

    Each is a name, or ends in `*` to mean a prefix.
    """

    pool: str
    classes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()


class PoolRules(msgspec.Struct, frozen=True):
    """The rules of an installation, in the order in which they were written: the first that applies counts.

    A deployment's own pool comes before them. Rules by classes, models and providers come before those by the
    subscription of the workspace.
    """

    rules: tuple[PoolRule, ...] = ()
    names_classes: bool = False
    """Whether the classes of a workflow have to be known."""

    def of_job(self, classes: Collection[str], subscription: str) -> str:
        """The pool of a job whose deployment has none of its own, or that was sent to none."""
        for rule in self.rules:
            if any(_matches(rule.classes, name) for name in classes):
                return rule.pool
        return self._of_subscription(subscription)

    def of_run(self, model_id: str, provider: str, subscription: str) -> str:
        """The pool of a queued run of a model at a provider."""
        for rule in self.rules:
            if _matches(rule.models, model_id) or _matches(rule.providers, provider):
                return rule.pool
        return self._of_subscription(subscription)

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of the pools there are rules for."""
        return tuple(rule.pool for rule in self.rules)

    def unknown_providers(self, known: Collection[str]) -> Sequence[str]:
        """The providers in rules that do not exist."""
        return [name for rule in self.rules for name in rule.providers if not _is_known(name, known)]

    def unknown_subscriptions(self, known: Collection[str]) -> Sequence[str]:
        """The subscriptions in rules that do not exist."""
        return [name for rule in self.rules for name in rule.subscriptions if not _is_known(name, known)]

    def _of_subscription(self, subscription: str) -> str:
        for rule in self.rules:
            if _matches(rule.subscriptions, subscription):
                return rule.pool
        return DEFAULT_POOL


def _matches(patterns: Sequence[str], name: str) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


def _is_known(name: str, known: Collection[str]) -> bool:
    return name.endswith("*") or name in known


def read_pool_rules(text: str) -> PoolRules:
    """Read `gpu=class:KSampler,class:Flux*;slow=provider:kling`; ValueError.

    A value is a name, or ends in `*` to mean a prefix.
    """
    rules: dict[str, PoolRule] = {}
    count = 0
    for part in filter(None, map(str.strip, text.split(";"))):
        name, equals, written = part.partition("=")
        if not equals:
            raise ValueError(f"{_SHAPE}, not {part[:60]!r}")
        pool = read_pool(name.strip())
        if pool in rules:
            raise ValueError(f"the pool {pool} is written twice; put everything of it behind one =")
        values: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        for selector in written.split(","):
            kind, _, value = (piece.strip() for piece in selector.partition(":"))
            if kind not in values or not value:
                raise ValueError(f"{_SHAPE}; a kind is one of {', '.join(_KINDS)}, not {selector.strip()[:60]!r}")
            values[kind].append(value)
            count += 1
        rules[pool] = PoolRule(pool, *(tuple(values[kind]) for kind in _KINDS))
    if len(rules) > _POOLS_MAX or count > _SELECTORS_MAX:
        raise ValueError(f"must be at most {_POOLS_MAX} pools and {_SELECTORS_MAX} of their values")
    found = tuple(rules.values())
    return PoolRules(found, names_classes=any(rule.classes for rule in found))
