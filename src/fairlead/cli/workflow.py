"""`fairlead workflow`: workflows of the engine's nodes, executed on this machine without a server."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from fairlead.cli.output import json_option


@click.group()
def workflow() -> None:
    """Check and run workflows in the engine's API format, without a server."""


def _input_option(command: Any) -> Any:
    return click.option(
        "--input", "inputs", metavar="DIR", help="Where the files are that it loads. [default: beside FILE]"
    )(command)


def _target_option(command: Any) -> Any:
    return click.option(
        "--target", "targets", metavar="NODE", multiple=True, help="An output to make, instead of all; may be repeated."
    )(command)


_FILE = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))


@workflow.command()
@_FILE
@_input_option
@click.option("--output", metavar="DIR", default="output", show_default=True, help="Where the files go that it saves.")
@_target_option
@json_option
def run(file: Path, inputs: str | None, output: str, targets: Sequence[str], as_json: bool) -> None:
    """Run a workflow, and show its progress and the files it has written.

    Outputs that cannot be made are reported, and the others are made. Exits with status 1 when any is missing.
    """
    _runs().run(file, inputs, Path(output), targets, as_json=as_json)


@workflow.command()
@_FILE
@_input_option
@_target_option
@json_option
def check(file: Path, inputs: str | None, targets: Sequence[str], as_json: bool) -> None:
    """Say whether a workflow can be run, and what is wrong with it; exits with status 1 when something is."""
    _runs().check(file, inputs, targets, as_json=as_json)


@workflow.command()
@click.argument("name", required=False)
@json_option
def nodes(name: str | None, as_json: bool) -> None:
    """List the nodes, or describe one."""
    _runs().nodes(name, as_json=as_json)


def _runs() -> ModuleType:
    from fairlead.cli import workflow_runs  # noqa: PLC0415 -- other commands, and servers, must not pay for the engine

    return workflow_runs
