"""`fairlead audit` and `fairlead ledger`: the books."""

import asyncio
from typing import Any

import click

from fairlead.cli.output import (
    data_option,
    json_option,
    print_json,
    print_rows,
    print_table,
    shown,
    with_dollars,
    with_times,
)
from fairlead.cli.workspaces import settings_of
from fairlead.installation import opened_database
from fairlead.operations import books as operations

_COLUMNS = ("created_at", "kind", "balance_change", "held_change", "model_id", "reason", "rate_version", "run_id")
_MONEY = ("balance_change", "held_change")


@click.command()
@data_option
@json_option
def audit(data: str | None, database: str | None, as_json: bool) -> None:  # noqa: FBT001 -- click passes flags by name
    """Prove the books: every balance is the sum of its entries, every hold is settled or belongs to a live run.

    Exits with status 1 when they do not add up. Runs whose outcome could not be known are listed: they were voided.
    """

    async def work() -> operations.AuditReport:
        async with opened_database(settings_of(data, database)) as opened:
            return await operations.audit(opened)

    report = asyncio.run(work())
    lost = [with_times(with_dollars(row, "hold"), "finished_at") for row in report.lost]
    if as_json:
        print_json(
            {"clean": report.clean, "totals": report.totals, "disagreements": report.disagreements, "lost": lost}
        )
    else:
        _print(report, lost)
    if not report.clean:
        raise click.exceptions.Exit(1)


@click.group()
def ledger() -> None:
    """Read the ledger."""


@ledger.command()
@click.argument("workspace", default="default")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many of the newest.")
@data_option
@json_option
def show(workspace: str, limit: int, data: str | None, database: str | None, as_json: bool) -> None:  # noqa: FBT001 -- click passes flags by name
    """Show the newest entries of WORKSPACE, oldest first, in dollars."""

    async def work() -> list[dict[str, Any]]:
        async with opened_database(settings_of(data, database)) as opened:
            return await operations.entries(opened, workspace, limit)

    rows = [with_times(with_dollars(row, *_MONEY), "created_at") for row in asyncio.run(work())]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="The ledger of this workspace is empty.")


def _print(report: operations.AuditReport, lost: list[dict[str, Any]]) -> None:
    print_table([[name.replace("_", " "), str(count)] for name, count in report.totals.items()], ("proven", "number"))
    for row in report.disagreements:
        click.echo(f"WRONG: {row['check']}: " + shown({key: value for key, value in row.items() if key != "check"}))
    for row in lost:
        click.echo(f"lost (voided): {shown(row)}")
    click.echo("The books are right." if report.clean else "The books are WRONG.")
