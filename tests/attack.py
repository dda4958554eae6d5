"""Tries every attack of docs/security.md against a server of its own, and prints what another workspace noticed.

Each attack is tried while a witness of another workspace goes on calling; what it noticed is held against what it
noticed before the attacks. Where that is more than twice as much, the same attack is tried against a second server on
this machine, while the witness goes on calling the first: what it notices then, the machine does and no server can
help. One that seems to disturb it still is tried up to three times. The status is 1 when an attack succeeds, or the
witness was disturbed by more than docs/security.md allows. `--help` shows the options.
"""

import argparse
import functools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Final

import click

from attacks.observation import Noticed, Observation, observe
from attacks.table import ATTACKS
from attacks.world import Attack, Size, Verdict, World, run_world
from databases import running_postgres
from fairlead.cli.output import print_table
from reaper import watch_this_run

_QUIET_SECONDS: Final = 10.0
_WATCHED_SECONDS: Final = 20.0
"""How long the witness is watched: of some 400 runs, the 99th percentile is not the slowest one."""
_SHORT_SECONDS: Final = 5.0
"""The same for both where attacks are tried in their short form."""
_TRIES: Final = 3
_MORE_MAX: Final = 2.0
"""How many times its undisturbed value a latency may come to: the quiet one, or that next to an attacked server."""
_MILLISECONDS_MAX: Final = 200.0
_NICENESS: Final = 15
_KINDS: Final = ("sqlite", "postgresql")
_HEADING: Final = ("call", "answers", "other", "p50 ms", "p99 ms", "quiet p50", "quiet p99", "next door p99", "bound")


def main() -> int:
    """Read the options, try the attacks, print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="only attacks whose name has this in it")
    parser.add_argument("--database", choices=_KINDS, action="append", help="over which databases (default: both)")
    parser.add_argument("--short", action="store_true", help="try less of each, as the test suite does")
    options = parser.parse_args()
    watch_this_run()
    kinds = options.database or _KINDS
    size: Size = "short" if options.short else "full"
    wanted = [attack for attack in ATTACKS if options.only in attack.name]
    verdicts = []
    for kind in kinds:
        tried = [attack for attack in wanted if attack.on_both or kind == kinds[0]]
        verdicts += _try(tried, kind, size) if tried else []
    failed = verdicts.count(False)
    click.echo(f"\n{len(verdicts) - failed} of {len(verdicts)} attacks were held off and disturbed nobody.")
    return 1 if failed else 0


def _try(attacks: Sequence[Attack], kind: str, size: Size) -> list[bool]:
    """Try some attacks against one server; whether each was held off and nobody was disturbed."""
    click.echo(f"\n=== over {kind} ===")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-attack-")))
        postgres = stack.enter_context(running_postgres()) if kind == "postgresql" else None

        def begin(name: str) -> World:
            database = None if postgres is None else postgres.url(postgres.create())
            (folder / name).mkdir()
            world = stack.enter_context(run_world(folder / name, size, database))
            with observe(world.server.url, world.bystander.key):
                time.sleep(_QUIET_SECONDS)  # what starts with the first call is there before anything is measured
            return world

        trial = _Trial(begin("attacked"), functools.cache(lambda: begin("neighbour")))
        return [trial.try_attack(attack) for attack in attacks]


class _Trial:
    """Attacks against one server, and against the `neighbour`, which is started when it is first needed."""

    def __init__(self, world: World, neighbour: Callable[[], World]) -> None:
        self._world = world
        self._neighbour = neighbour
        self._quiet = Observation()
        """What was noticed before each attack."""

    def try_attack(self, attack: Attack) -> bool:
        """Try one attack while another workspace is watched; whether it was held off and nobody was disturbed.

        Whatever else the machine does may disturb the witness once: what an attack does to it shows each time.
        """
        click.echo(f"\n--- {attack.name}: {attack.what}")
        if attack.is_elsewhere:
            verdict = _verdict(self._world, attack)
            click.echo(f"{_word(verdict)}: {verdict.found}")
            return verdict.held
        for left in reversed(range(_TRIES)):
            with self._observe() as quiet_now:
                time.sleep(_QUIET_SECONDS if self._world.is_full else _SHORT_SECONDS)
            self._quiet.add(quiet_now)
            noticed, verdict, seconds = self._attack_and_watch(self._world, attack)
            rows, is_undisturbed = _rows(self._quiet, None, noticed)
            if not is_undisturbed:
                next_door, *_ = self._attack_and_watch(self._neighbour(), attack)
                rows, is_undisturbed = _rows(self._quiet, next_door, noticed)
            print_table(rows, _HEADING)
            disturbed = "" if is_undisturbed else "; WITNESS DISTURBED" + (", so it is tried again" if left else "")
            click.echo(f"{_word(verdict)} in {seconds:.1f} s: {verdict.found}{disturbed}")
            if not verdict.held or is_undisturbed:
                break
        return verdict.held and is_undisturbed

    def _attack_and_watch(self, attacked: World, attack: Attack) -> tuple[Observation, Verdict, float]:
        """Attack a server for a while: what the witness of ours noticed, what came of it, and the seconds it took."""
        with self._observe() as noticed, ThreadPoolExecutor(1, initializer=_give_way) as attacker:
            verdict, seconds = attacker.submit(_repeated_verdict, attacked, attack).result()
        return noticed, verdict, seconds

    def _observe(self) -> AbstractContextManager[Observation]:
        return observe(self._world.server.url, self._world.bystander.key)


def _give_way() -> None:
    """Take no processor from the server and the witness: who attacks from elsewhere would not.

    Niceness is of this thread; where Linux shares processors among sessions first, the session is told too (sched(7)).
    """
    os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_NICENESS))


def _word(verdict: Verdict) -> str:
    return "held" if verdict.held else "SUCCEEDED"


def _repeated_verdict(world: World, attack: Attack) -> tuple[Verdict, float]:
    """Try an attack again and again while the witness is watched; what came of the first that succeeded, or the last.

    The seconds are those of all tries.
    """
    watched = _WATCHED_SECONDS if world.is_full else _SHORT_SECONDS
    started = time.monotonic()
    while True:
        verdict = _verdict(world, attack)
        seconds = time.monotonic() - started
        if not verdict.held or seconds >= watched:
            return verdict, seconds


def _verdict(world: World, attack: Attack) -> Verdict:
    """What came of the attack; whatever it raises is a way in which the server did not behave."""
    try:
        return attack.attempt(world)
    except Exception as error:  # noqa: BLE001 -- the report goes on with the next attack
        return Verdict(held=False, found=f"{type(error).__name__}: {error}")


def _rows(
    quiet: Observation, next_door: Observation | None, noticed: Observation
) -> tuple[Sequence[Sequence[str]], bool]:
    rows, is_undisturbed = [], True
    for name, during in noticed.calls.items():
        before = quiet.calls[name]
        elsewhere = None if next_door is None else next_door.calls[name].p99
        bound = min(_MILLISECONDS_MAX, _MORE_MAX * max(before.p99, elsewhere or 0.0))
        is_fine = during.p99 <= bound and not during.failed
        is_undisturbed = is_undisturbed and is_fine
        shown = "" if elsewhere is None else f"{elsewhere:.1f}"
        rows.append([name, *_cells(during, before), shown, f"{bound:.1f} {'kept' if is_fine else 'PASSED'}"])
    return rows, is_undisturbed


def _cells(during: Noticed, before: Noticed) -> Iterator[str]:
    yield str(len(during.milliseconds))
    yield str(during.failed)
    for figure in (during.p50, during.p99, before.p50, before.p99):
        yield f"{figure:.1f}"


if __name__ == "__main__":
    sys.exit(main())
