"""`fairlead providers`: tries the models of a provider at their vendor, and lists when that was last done."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import msgspec

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_rows, with_dollars, with_times
from fairlead.domain.faults import FaultError
from fairlead.domain.ledger.money import NotAnAmountError, from_dollars
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.model_trials import ProviderNotReadyError, Trial, TrialResult, list_verifications
from fairlead.server.settings import Settings

_COLUMNS: Final = ("model_id", "result", "least", "most", "charge", "detail")
_VERIFIED_COLUMNS: Final = ("model_id", "provider", "verified_at", "version", "address", "charge")
_MONEY: Final = ("least", "most", "charge")


@click.group()
def providers() -> None:
    """Try models at their vendors, and list when that was last done."""


@providers.command()
@click.argument("provider")
@click.option("--spend", required=True, metavar="DOLLARS", help="What all trials together may cost at most.")
@click.option("--workspace", default="verification", show_default=True, help="Whose runs they are; made if absent.")
@click.option(
    "--bodies",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Bodies of your own: <provider>/<model>.json of a model's id.",
)
@click.option("--catalog", metavar="DIR", help="A folder with more providers and models.")
@settings_option
@json_option
def verify(
    provider: str,
    spend: str,
    workspace: str,
    bodies: Path | None,
    catalog: str | None,
    settings: Settings,
    as_json: bool,
) -> None:
    """Make the cheapest call of each model of a provider, and compare answer and charge with the model's files.

    It runs with the settings and provider keys of a server, and is one: on SQLite stop the other server first. Exits
    with status 1 when a trial failed or differs.
    """
    given = {} if bodies is None else _read_bodies(bodies)
    if catalog is not None:
        settings = replace(settings, catalog=Path(catalog))
    trials, is_simulated = asyncio.run(_try_all(settings, provider, _amount(spend), workspace, given))
    rows = [with_dollars(msgspec.structs.asdict(trial), *_MONEY) for trial in trials]
    print_rows(rows, _COLUMNS, as_json=as_json, empty=f"{provider} serves no model.")
    counts = Counter(trial.result for trial in trials)
    told = ", ".join(f"{result}: {counts[result]}" for result in TrialResult)
    click.echo(f"{told}{'; simulated, so nothing was recorded' if is_simulated else ''}", err=True)
    if counts[TrialResult.FAILED] or counts[TrialResult.DIFFERS]:
        raise click.exceptions.Exit(1)


@providers.command()
@settings_option
@json_option
def verified(settings: Settings, as_json: bool) -> None:
    """List when each model was last verified at its vendor, and by which version."""
    found = in_database(settings, list_verifications)
    rows = [with_dollars(with_times(msgspec.structs.asdict(one), "verified_at"), "charge") for one in found]
    print_rows(rows, _VERIFIED_COLUMNS, as_json=as_json, empty="No model was verified yet.")


async def _try_all(
    settings: Settings, provider: str, spend: int, workspace: str, bodies: dict[str, object]
) -> tuple[list[Trial], bool]:
    from fairlead.server.lifecycle import running_trials  # noqa: PLC0415 -- takes long, for this alone

    async with running_trials(settings) as trials:
        try:
            caller = await trials.open_workspace(workspace, shell_actor())
            made = [trial async for trial in trials.try_models(caller, provider, spend, bodies)]
        except ProviderNotReadyError as error:
            raise click.ClickException(str(error)) from error
        except FaultError as error:
            raise click.ClickException(getattr(error.fault, "detail", "") or type(error.fault).__name__) from error
        return made, trials.is_simulated


def _amount(spend: str) -> int:
    try:
        amount = from_dollars(spend)
    except NotAnAmountError as error:
        raise click.BadParameter("must be an amount in dollars, such as 5", param_hint="--spend") from error
    if amount <= 0:
        raise click.BadParameter("must be more than 0", param_hint="--spend")
    return amount


def _read_bodies(folder: Path) -> dict[str, object]:
    """The bodies of a folder by the id of their model."""
    found: dict[str, object] = {}
    for path in sorted(folder.glob("*/*.json")):
        try:
            body = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise click.BadParameter(f"{path} is not JSON: {error}", param_hint="--bodies") from error
        found[f"{path.parent.name}/{path.stem}"] = body
    return found
