"""The `fairlead` command. Each noun has its module; what they print goes through `output`."""

import asyncio
import sys

import click

import fairlead
from fairlead.cli.books import audit, ledger
from fairlead.cli.catalog import catalog
from fairlead.cli.database import migrate_command
from fairlead.cli.demo import demo
from fairlead.cli.deployments import deployments
from fairlead.cli.doctor import doctor
from fairlead.cli.keys import keys
from fairlead.cli.openapi import openapi
from fairlead.cli.provider_keys import provider_keys_group
from fairlead.cli.registry import registry
from fairlead.cli.runs import runs
from fairlead.cli.serve import serve
from fairlead.cli.simulate import simulate
from fairlead.cli.usage import usage
from fairlead.cli.webhooks import webhooks
from fairlead.cli.workflow import workflow
from fairlead.cli.workspaces import workspaces
from fairlead.domain.billing.budgets import NoBudgetError
from fairlead.domain.billing.usage import BadUsageQueryError
from fairlead.domain.days import NotADateError
from fairlead.domain.declarations import BadFileError
from fairlead.domain.money import NotAnAmountError
from fairlead.installation import DataDirectoryError, OldDatabaseError
from fairlead.observing.traces import TracesUnavailableError
from fairlead.operations.keys import UnknownKeyError
from fairlead.operations.statements import UnknownRunError
from fairlead.operations.workspaces import BadNameError, NameTakenError, UnknownWorkspaceError
from fairlead.settings import BadSettingError
from fairlead.storage.database import DatabaseUnavailableError

_EXPLAINED: dict[type[Exception], str] = {
    BadFileError: "{}",
    BadNameError: "{!r} is no name for a workspace: use up to 64 of a-z, 0-9, dots, dashes and underscores",
    BadSettingError: "{}",
    BadUsageQueryError: "{}",
    DataDirectoryError: "{}",
    DatabaseUnavailableError: "the database cannot be used: {}",
    NameTakenError: "a workspace named {} exists already",
    NoBudgetError: "this key has no budget yet; give --budget as well",
    NotADateError: "{}",
    NotAnAmountError: "{}",
    OldDatabaseError: "{}",
    TracesUnavailableError: "{}",
    UnknownKeyError: "there is no living key with the id {}; `fairlead keys list` shows them",
    UnknownRunError: "there is no run with the id {}; `fairlead runs list` shows them",
    UnknownWorkspaceError: "there is no workspace {}; `fairlead workspaces list` shows them",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(fairlead.__version__, prog_name="fairlead")
def commands() -> None:
    """Fairlead: one router, one workflow platform and one account book for generative media.

    Start with `fairlead demo`, or with `fairlead serve` and the key it prints. Settings are read from the environment
    (FAIRLEAD_…); docs/settings.md lists them.
    """


for command in (
    serve,
    simulate,
    demo,
    workspaces,
    keys,
    provider_keys_group,
    catalog,
    runs,
    usage,
    audit,
    ledger,
    migrate_command,
    doctor,
    webhooks,
    workflow,
    registry,
    deployments,
    openapi,
):
    commands.add_command(command)


def main() -> None:
    """Run the command line; what an operator can mend is said in one line, with exit status 1.

    Outside its standalone mode click hands the status of `Exit` back instead of raising it.
    """
    try:
        sys.exit(commands(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)
    except tuple(_EXPLAINED) as error:
        click.echo(f"fairlead: {_EXPLAINED[type(error)].format(str(error))}", err=True)
        sys.exit(1)
