"""`fairlead simulate`: run the partner simulator by itself."""

import os
import sys

import click

_MODULE = "fairlead_partners.simulator"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", default=8190, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--task-seconds", type=float, metavar="SECONDS", help="How long submitted work takes. [default: 0.3]")
def simulate(host: str, port: int, task_seconds: float | None) -> None:
    """Run the partner simulator: every vendor's API at one address, without keys or costs.

    `fairlead serve --simulate` runs one of its own. How faults are scripted is in docs/simulator.md.
    """
    further = [] if task_seconds is None else ["--task-seconds", str(task_seconds)]
    # The simulator is a program of its own and imports nothing of ours; this process becomes it.
    os.execv(sys.executable, [sys.executable, "-m", _MODULE, "--host", host, "--port", str(port), *further])  # noqa: S606 -- our own module
