"""The figures of ended runs for /metrics: plain numbers that become samples when the page is read.

Every run is counted in two counters and two histograms. prometheus_client takes a lock and a call for each figure of
each of them, which together cost as much as checking the body of the run.
"""

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.observing.observations import RunEnded

PARTNER_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_OWN_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
TimesSample: TypeAlias = tuple[list[tuple[str, float]], float]
"""For each bound (seconds, as text) how many times were at most that long, and the sum of all times (seconds)."""


class _Ended:
    """The runs of one model on one provider that ended in the same way; `charge` in 10^-8 dollars."""

    __slots__ = ("charge", "created", "runs")

    def __init__(self) -> None:
        self.runs = self.charge = 0
        self.created = time.time()


class Times:
    """A histogram of times: how many fell between two bounds (seconds), and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count a time."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def sample(self) -> TimesSample:
        """What a histogram of Prometheus is made of."""
        names = [*map(str, self._bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True)), self._sum


class RunMeters(Collector):
    """Counts and times runs."""

    def __init__(self) -> None:
        self._ended: defaultdict[tuple[str, str, str], _Ended] = defaultdict(_Ended)
        self._callers_left = 0
        self._created = time.time()
        self._own = Times(_OWN_SECONDS)
        self._partners: defaultdict[str, Times] = defaultdict(lambda: Times(PARTNER_SECONDS))

    def observe(self, run: RunEnded) -> None:
        """Count a run that has ended."""
        ended = self._ended[run.model_id, run.provider, run.result]
        ended.runs += 1
        ended.charge += run.charge
        self._callers_left += run.caller_left
        own = run.seconds - run.partner_seconds
        self._own.add(own if own > 0 else 0.0)
        self._partners[run.provider].add(run.partner_seconds)

    def collect(self) -> Iterator[Metric]:
        """Make the samples, as a registry asks for them."""
        runs = CounterMetricFamily(
            "fairlead_runs",
            "Runs that ended, by how they ended: success, or the bucket of the failure.",
            labels=("model", "provider", "bucket"),
        )
        charges: dict[tuple[str, str], tuple[int, float]] = {}
        for (model, provider, result), ended in self._ended.items():
            runs.add_metric((model, provider, result), ended.runs, ended.created)
            if ended.charge:
                charge, created = charges.get((model, provider), (0, ended.created))
                charges[model, provider] = (charge + ended.charge, created)
        charged = CounterMetricFamily(
            "fairlead_charged_dollars", "Money charged for runs.", labels=("model", "provider")
        )
        for names, (charge, created) in charges.items():
            charged.add_metric(names, charge / 1e8, created)
        yield from (runs, charged, *self._exceptions(), *self._times())

    def _exceptions(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "fairlead_callers_left",
            "Callers that left before their answer.",
            self._callers_left,
            created=self._created,
        )
        yield CounterMetricFamily(
            "fairlead_runs_outcome_unknown",
            "Runs voided because a restart could not know what became of them.",
            sum(ended.runs for (_, _, result), ended in self._ended.items() if result == "lost"),
            created=self._created,
        )

    def _times(self) -> Iterator[Metric]:
        buckets, total = self._own.sample()
        yield HistogramMetricFamily(
            "fairlead_run_own_seconds",
            "Time of a run that was ours: all of it but the partner's.",
            buckets=buckets,
            sum_value=total,
        )
        partners = HistogramMetricFamily(
            "fairlead_run_partner_seconds", "Time of a run that was the partner's.", labels=("provider",)
        )
        for provider, times in self._partners.items():
            partners.add_metric((provider,), *times.sample())
        yield partners
