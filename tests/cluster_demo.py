"""Runs an installation of many processes under load, disturbs it, and proves that nothing was lost or charged twice.

Three servers, two workers, PostgreSQL, a NATS server and an S3 store run on this machine, behind the HAProxy of
deploy/compose.
Callers submit synchronous runs, queued runs and jobs, and repeat what failed under its idempotency key. Meanwhile a
server and a worker are killed, a server is frozen, PostgreSQL and NATS are restarted, and every process is replaced.
Then what callers gave up is asked for once more under its key: on a slow machine that says nothing of the installation.
The status is 0 only when nothing was lost, doubled or charged wrongly, and nobody was answered with 500; while the
database is away for longer than servers wait for it, that is how the jobs API says so.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from cluster.installation import PRICE, Installation, api_key, install
from cluster.load import PATIENCE_SECONDS, Tally, ask_again, calling
from cluster.scenario import ROLL, Scenario, Takeover
from fairlead.cli.output import print_table
from haproxy import haproxy_program
from nats_servers import running_nats
from reaper import watch_this_run
from s3_store import running_store

_UNITS: Final = 10**8


class Report(msgspec.Struct, frozen=True):
    """What came of a demonstration."""

    submitted: dict[str, int]
    completed: dict[str, int]
    given_up: Sequence[str]
    lost: Sequence[str]
    doubled: int
    mischarged: int
    failures: Sequence[tuple[str, str, str, int]]
    takeovers: Sequence[Takeover]
    long_outages: Collection[str]
    audit: dict[str, Any]
    bugs: Sequence[str]

    @property
    def is_well(self) -> bool:
        """Whether the installation kept what it promises."""
        answered_500 = [
            cause for phase, _, cause, _ in self.failures if cause.startswith("500") and phase not in self.long_outages
        ]
        broken = [self.lost, self.doubled, self.mischarged, answered_500, self.bugs]
        return not any(broken) and bool(self.audit["clean"])


def main() -> int:
    """Read the options, play it, print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--callers", type=int, default=4, help="callers of each kind (default 4)")
    parser.add_argument("--calm", type=float, default=5.0, help="seconds between disturbances (default 5)")
    patience = f"seconds after which a caller gives up (default {PATIENCE_SECONDS:.0f})"
    parser.add_argument("--patience", type=float, default=PATIENCE_SECONDS, help=patience)
    options = parser.parse_args()
    if haproxy_program() is None:
        parser.error("HAProxy is not installed: it is in Debian's package haproxy")
    watch_this_run()
    report = demonstrate(options.callers, options.calm, options.patience)
    print_report(report)
    return 0 if report.is_well else 1


def demonstrate(callers: int, calm: float, patience: float) -> Report:
    """Play the whole scenario under load."""
    tally = Tally()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-cluster-")))
        nats = stack.enter_context(running_nats())
        store = stack.enter_context(running_store())
        settings = {"FAIRLEAD_MESSAGING": nats.url, **store.settings("cluster")}
        installation = stack.enter_context(install(folder, settings))
        first = installation.start_server("server-1")
        key = api_key(installation, first)
        for number in (2, 3):
            installation.start_server(f"server-{number}")
        for number in (1, 2):
            installation.start_worker(f"worker-{number}")
        click.echo(f"Three servers and two workers run behind {installation.balancer.url}.")

        def restart_nats() -> None:
            nats.stop()
            nats.start()

        scenario = Scenario(installation, tally, restart_nats, calm)
        with calling(installation.balancer.url, key, tally, callers, patience):
            scenario.play()
            tally.phase = "afterwards"
        given_up = ask_again(installation.balancer.url, key, tally)
        return _report(installation, tally, scenario, given_up)


def _report(installation: Installation, tally: Tally, scenario: Scenario, given_up: Sequence[str]) -> Report:
    completed = Counter(one.kind for one in tally.submitted if one.ending == "completed")
    charges = installation.charges()
    price = int(Decimal(PRICE) * _UNITS)
    paid = sum(charge.posts for charge in charges)
    results = completed["synchronous run"] + completed["queued run"]
    wrong = [one for one in charges if (one.posts, one.amount) != ((1, price) if one.state == "succeeded" else (0, 0))]
    return Report(
        submitted=dict(Counter(one.kind for one in tally.submitted)),
        completed=dict(completed),
        given_up=given_up,
        lost=[f"{one.key}: {one.ending or 'no end'}" for one in tally.submitted if one.ending != "completed"],
        doubled=max(0, paid - results),
        mischarged=len(wrong) + max(0, results - paid),
        failures=tally.failures(),
        takeovers=scenario.takeovers,
        long_outages=scenario.long_outages,
        audit=installation.cli("audit", "--json"),
        bugs=[
            line
            for member in (*installation.members.values(), *installation.ended)
            for line in member.unexpected_errors()
        ],
    )


def print_report(report: Report) -> None:
    """Print what was submitted, what came of it, and what failed meanwhile."""
    click.echo("")
    rows = [[kind, str(count), str(report.completed.get(kind, 0))] for kind, count in sorted(report.submitted.items())]
    print_table(rows, ("kind", "submitted", "completed"))
    click.echo("\nRequests that failed, and were repeated:")
    print_table(
        [[*failure[:3], str(failure[3])] for failure in sorted(report.failures)], ("while", "kind", "cause", "requests")
    )
    click.echo("\nWork that others took over:")
    print_table(
        [[one.member, str(one.owned), f"{one.seconds:.1f}"] for one in report.takeovers], ("of", "live", "seconds")
    )
    rolled = sum(count for phase, _, _, count in report.failures if phase == ROLL)
    click.echo(f"\ncallers that gave up, whose calls were asked for again: {len(report.given_up)}")
    click.echo(f"lost {len(report.lost)}, doubled {report.doubled}, mischarged {report.mischarged}")
    click.echo(f"failed requests during the rolling restart: {rolled}")
    click.echo(f"audit: {'the books are right' if report.audit['clean'] else report.audit}")
    for line in [*report.lost[:20], *report.bugs[:20]]:
        click.echo(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
