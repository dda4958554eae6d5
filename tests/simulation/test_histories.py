"""Randomised histories of servers, partners and callers, each from one seed (docs/survival.md).

`HISTORY_SEED=n` plays one history and prints it; `HISTORIES=n` says how many are played, from `HISTORIES_FROM` on.
"""

import os
from collections.abc import Iterator
from typing import Final

import pytest

from machine import limit
from simulation.histories import Theatre

_ONE: Final = os.environ.get("HISTORY_SEED")
_MANY: Final = int(os.environ.get("HISTORIES", "64"))
_FROM: Final = int(os.environ.get("HISTORIES_FROM", "0"))
_AT_ONCE: Final = 8 if _MANY < 1000 else 100
_CHUNKS: Final = [range(first, min(first + _AT_ONCE, _FROM + _MANY)) for first in range(_FROM, _FROM + _MANY, _AT_ONCE)]


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """Return what histories are played in."""
    opened = Theatre(tmp_path_factory.mktemp("theatre"))
    yield opened
    opened.close()


@pytest.mark.req("R-18", "R-29", "R-34", "R-35")
@pytest.mark.timeout(limit(900))
@pytest.mark.skipif(_ONE is not None, reason="one history is asked for")
@pytest.mark.parametrize("seeds", _CHUNKS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_every_history_keeps_the_invariants(theatre: Theatre, seeds: range) -> None:
    """Whatever befalls servers, lines and partners: nothing is lost that can be known, nothing done or charged twice.

    What is held against what is in `simulation/proof.py`.
    """
    facts = [theatre.play(seed) for seed in seeds]
    assert sum(fact.charged for fact in facts) > len(seeds), "these histories prove nothing"


@pytest.mark.skipif(_ONE is None, reason="no history is asked for")
def test_history_of_one_seed_keeps_the_invariants(theatre: Theatre) -> None:
    """The history of `HISTORY_SEED`, printed whole."""
    print(theatre.play(int(_ONE or "0")).text)  # noqa: T201 -- it was asked for


def test_seed_tells_the_same_history_every_time(theatre: Theatre) -> None:
    """A history is its seed and nothing else: it can be told again, word for word."""
    assert theatre.play(_FROM).text == theatre.play(_FROM).text


def test_histories_contain_takeovers_lost_runs_and_withdrawals(theatre: Theatre) -> None:
    """Among two dozen histories there are takeovers, lost runs and runs that were withdrawn before they began."""
    facts = [theatre.play(seed) for seed in range(24)]
    assert (
        min(
            sum(fact.taken_over for fact in facts),
            sum(fact.lost for fact in facts),
            sum(fact.withdrawn for fact in facts),
        )
        > len(facts) // 4
    )
