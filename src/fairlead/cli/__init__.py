"""The `fairlead` command. Each noun has its module, which is loaded when it is called; all print through `output`."""

import asyncio
import gc
import importlib
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

import fairlead

_PLACES: Final[Mapping[str, str]] = {
    "alert-channels": "workspace.alert_channels:alert_channels_group",
    "archive": "books:archive",
    "audit": "audit:audit",
    "backup": "store.backup:backup",
    "blobs": "store.blobs:blobs",
    "budgets": "workspace.budgets:budgets",
    "catalog": "catalog:catalog",
    "demo": "demo:demo",
    "deployments": "deployments:deployments",
    "doctor": "doctor:doctor",
    "keys": "keys:keys",
    "ledger": "books:ledger",
    "members": "members:members",
    "migrate": "database:migrate_command",
    "migrate-data": "database:migrate_data_command",
    "openapi": "serve:openapi",
    "provider-keys": "workspace.provider_keys:provider_keys_group",
    "providers": "providers:providers",
    "rate-limits": "workspace.rate_limits:rate_limits",
    "registry": "registry:registry",
    "restore": "store.backup:restore",
    "runs": "runs:runs",
    "secret": "secret:secret",
    "serve": "serve:serve",
    "simulate": "serve:simulate",
    "usage": "usage:usage",
    "webhooks": "webhooks:webhooks",
    "work": "serve:work",
    "workflow": "workflow:workflow",
    "workspaces": "workspaces:workspaces",
}
"""The module of each command, and its name there."""


class Commands(click.Group):
    """The commands by name. Each is loaded when it is called, or listed by `--help`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """The names, as the help lists them."""
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        """The command of a name; None where there is none."""
        if cmd_name not in _PLACES:
            return None
        command: click.Command = _load(_PLACES[cmd_name])
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(fairlead.__version__, prog_name="fairlead")
def commands() -> None:
    """Fairlead: one router, one workflow platform and one account book for generative media.

    Start with `fairlead demo`, or with `fairlead serve` and the key it prints. Settings are read from the environment
    (FAIRLEAD_…); docs/settings.md lists them.
    """


def main() -> None:
    """Run the command line. An error that an operator can fix is printed as one line, with exit status 1.

    Outside its standalone mode, click returns the status of `Exit` instead of raising it.
    """
    try:
        sys.exit(commands(standalone_mode=False))
    except click.UsageError as error:
        _load("mistakes:hide_arguments")(error).show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)
    except Exception as error:
        line = _load("mistakes:explanation")(error)
        if line is None:
            raise
        click.echo(f"fairlead: {line}", err=True)
        sys.exit(1)


def _load(place: str) -> Any:
    """Load an object of this package by its place, such as `serve:serve`.

    Garbage collection is off while modules are loaded, and never visits them afterwards: they live as long as the
    process, and collections took a seventh of the loading time.
    """
    module, _, name = place.partition(":")
    module = f"{__name__}.{module}"
    if module not in sys.modules:
        gc.disable()
        try:
            importlib.import_module(module)
        finally:
            gc.freeze()
            gc.enable()
    return getattr(sys.modules[module], name)
