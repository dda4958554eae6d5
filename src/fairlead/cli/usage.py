"""`fairlead usage`: what a workspace has used."""

from typing import Final

import click

from fairlead.api.router.documents import UsageFigures
from fairlead.api.router.usage import usage_response
from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_json, print_table, show_value
from fairlead.clock import Clock
from fairlead.domain.ledger.usage import Grouping, Usage, usage_query
from fairlead.operations.ledger.usage import report_usage
from fairlead.server.settings import Settings

_FIGURES: Final = ("runs", "succeeded", "failed", "amount", "credits")


@click.command()
@click.argument("workspace", default="default")
@click.option("--from", "first", metavar="DATE", help="The first day (UTC). [default: 29 days before the last]")
@click.option("--to", "last", metavar="DATE", help="The last day (UTC), such as 2026-01-31. [default: today]")
@click.option(
    "--by",
    metavar="LIST",
    help="The groups, separated by commas; label:NAME goes with day. [default: day,model,key]",
)
@click.option("--label", metavar="NAME=VALUE", help="Only runs with this label, by day.")
@settings_option
@json_option
def usage(
    workspace: str,
    first: str | None,
    last: str | None,
    by: str | None,
    label: str | None,
    settings: Settings,
    as_json: bool,
) -> None:
    """Show what WORKSPACE has used: runs that ended and what was charged, in dollars and in credits."""
    query = usage_query(first, last, by, Clock().today(), label)

    report = in_database(settings, lambda opened: report_usage(opened, workspace, query))
    told = usage_response(report)
    if as_json:
        print_json(told)
        return
    if not told["data"]:
        click.echo(f"No run of this workspace ended from {told['from']} to {told['to']}.")
        return
    names = query.groups
    of_label = [] if query.label_name is None else [query.label_name]
    rows = [
        [*(_name_of(row, one) for one in query.by), *(_value_of(row) for _ in of_label), *_figures(figures)]
        for row, figures in zip(report.rows, told["data"], strict=True)
    ]
    print_table([*rows, ["total", *[""] * (len(names) - 1), *_figures(told["total"])]], (*names, *_FIGURES))


def _name_of(row: Usage, one: Grouping) -> str:
    match one:
        case Grouping.DAY:
            return show_value(row.day)
        case Grouping.MODEL:
            return show_value(row.model_id)
        case Grouping.KEY:
            return "token" if row.key is None else f"{row.key.label} {row.key.hint}".strip()


def _value_of(row: Usage) -> str:
    if row.label is None:
        return "(without)"
    return "(others)" if row.label.value is None else row.label.value


def _figures(row: UsageFigures) -> list[str]:
    return [show_value(row[name]) for name in _FIGURES]
