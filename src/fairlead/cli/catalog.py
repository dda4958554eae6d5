"""`fairlead catalog`: the models on offer and their prices, read from their files without a server."""

import datetime
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from fairlead.cli.output import json_option, print_json, print_rows, show_value
from fairlead.clock import Clock
from fairlead.domain.catalog.models import Catalog, Model
from fairlead.domain.ledger.estimates import Caution
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.ledger.price_maps import ComparedFigure, Verdict
from fairlead.operations.catalog import PriceRow, check_models, price_rows, read_catalog, write_snapshots
from fairlead.operations.price_comparison import ComparedPrice, PriceMapError, compare_catalog, read_price_map
from fairlead.server.installation import SNAPSHOTS, authored_flag, catalog_folders, provider_files
from fairlead.server.settings import Settings, read_settings
from fairlead.storage.db.database import Database

_COMPARISON_COLUMNS = ("result", "model", "provider", "entry", "detail")
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_PRICE_COLUMNS = ("model", "provider", "price", "effective", "markup", "source", "checked", "cautions")
_COLUMNS = ("id", "legs", "operations", "schema", "rates", "retires")
OLD_DAYS: Final = 180
_PAGE: Final = """\
# Prices of the catalog

The list prices that ship with Fairlead, in US dollars, with their source and the day they were last compared with it.
`fairlead catalog prices --markdown` prints this page from the model files.
A price in several amounts depends on the body or on the answer: `fairlead catalog show` has every case.
An operator's markup (`FAIRLEAD_MARKUP`) comes on top.

| Model | Provider | Price in dollars | From | Source | Checked |
|---|---|---|---|---|---|
"""


@click.group()
def catalog() -> None:
    """Check, list and show the catalog's files."""


def _folder_option(command: Any) -> Any:
    return click.option("--catalog", "folder", metavar="DIR", help="A folder with more providers and models.")(command)


def _load(folder: str | None) -> Catalog:
    return loaded_catalog(read_settings(catalog=None if folder is None else Path(folder)))


async def check_named_models(
    settings: Settings, database: Database, workspace_id: str, field: str, names: Collection[str]
) -> None:
    """Check that the models that a command names exist; UnknownModelError. The catalog is read only for some."""
    if names:
        await check_models(database, loaded_catalog(settings), workspace_id, field, names, Clock().today())


def loaded_catalog(settings: Settings) -> Catalog:
    """The catalog of an installation, read from its files."""
    return read_catalog(catalog_folders(settings), provider_files(settings), authored_flag(settings))


@catalog.command()
@_folder_option
@json_option
def check(folder: str | None, as_json: bool) -> None:
    """Check every file; the first mistake is shown with its file, line and reason, and ends with status 1."""
    loaded = _load(folder)
    if as_json:
        print_json({"build": loaded.build, "models": len(loaded.models)})
    else:
        click.echo(f"{len(loaded.models)} models are in order (build {loaded.build}).")


@catalog.command("list")
@_folder_option
@json_option
def list_command(folder: str | None, as_json: bool) -> None:
    """List every model."""
    rows = [_row(model) for model in _load(folder).models.values()]
    print_rows(sorted(rows, key=lambda row: row["id"]), _COLUMNS, as_json=as_json, empty="The catalog is empty.")


@catalog.command()
@click.argument("model_id")
@_folder_option
@json_option
def show(model_id: str, folder: str | None, as_json: bool) -> None:
    """Show one model: its facts, its prices and its input fields."""
    model = _load(folder).models.get(model_id)
    if model is None:
        raise click.ClickException(f"there is no model {model_id}; `fairlead catalog list` shows them")
    details = {**_row(model), "prices": _prices(model), "input": model.input_schema and model.input_schema.document}
    if as_json:
        print_json(details)
        return
    for name, value in _row(model).items():
        click.echo(f"{name:10} {show_value(value)}")
    for price in _prices(model):
        said = f"{price['dollars']} dollars per {price['unit']} (from {price['effective']})"
        click.echo(f"price      {price['leg']}: {said}")
    required = set(model.input_schema.document.get("required", [])) if model.input_schema else set()
    for name, field in (model.input_schema.document.get("properties", {}) if model.input_schema else {}).items():
        click.echo(f"input      {name}{'*' if name in required else ''}  {field.get('description', '')}")


@catalog.command()
@click.option("--output", metavar="DIR", help="Where to write them. [default: inside the package]")
@_folder_option
def snapshots(output: str | None, folder: str | None) -> None:
    """Write the public schema snapshots (one file a model with an authored schema)."""
    written = write_snapshots(_load(folder), SNAPSHOTS if output is None else Path(output))
    click.echo(f"Wrote {written} snapshots.")


@catalog.command()
@click.option("--markdown", "as_page", is_flag=True, help="Print a page of Markdown instead of a table.")
@click.option("--against", metavar="FILE", type=_FILE, help="Compare them with a price map in the form of LiteLLM's.")
@_folder_option
@json_option
def prices(folder: str | None, against: Path | None, as_page: bool, as_json: bool) -> None:
    """List the prices of every model at each provider, with their source and the day of their check.

    Old prices are named on standard error. With `--against`, list how they compare with a price map instead; the exit
    status is 1 where one differs.
    """
    if against is not None and as_page:
        raise click.UsageError("--markdown prints the list of prices, which --against does not show.")
    settings = read_settings(catalog=None if folder is None else Path(folder))
    today = Clock().today()
    if against is not None:
        try:
            price_map = read_price_map(against)
        except PriceMapError as error:
            raise click.BadParameter(str(error), param_hint="--against") from error
        _print_comparison(compare_catalog(_load(folder), price_map, today), as_json=as_json)
        return
    rows = price_rows(_load(folder).with_markups(settings.markup), today)
    if as_page:
        click.echo(page_of(rows), nl=False)
        return
    print_rows([shown_row(row) for row in rows], _PRICE_COLUMNS, as_json=as_json, empty="The catalog is empty.")
    for warning in warnings_of(rows, today):
        click.echo(warning, err=True)


def _print_comparison(rows: Sequence[ComparedPrice], *, as_json: bool) -> None:
    """Print the rows, those that differ first, and how many there are of each kind; exit with 1 where one differs."""
    ordered = sorted(rows, key=lambda row: list(Verdict).index(row.comparison.verdict))
    print_rows(
        [_comparison_row(row) for row in ordered], _COMPARISON_COLUMNS, as_json=as_json, empty="Nothing to compare."
    )
    counts = Counter(row.comparison.verdict for row in rows)
    click.echo(", ".join(f"{verdict}: {counts[verdict]}" for verdict in Verdict), err=True)
    if counts[Verdict.DIFFERS]:
        raise click.exceptions.Exit(1)


def _comparison_row(row: ComparedPrice) -> dict[str, object]:
    found = row.comparison
    differing = [one for one in found.figures if not one.is_equal]
    told = "; ".join(f"{one.figure}: {_plain(one.theirs)} there, {_range(one)} per {one.unit}" for one in differing)
    return {
        "model": row.model,
        "provider": row.provider,
        "result": found.verdict,
        "entry": row.key,
        "detail": told or found.reason,
        "figures": [
            {
                "figure": one.figure,
                "unit": one.unit,
                "theirs": _plain(one.theirs),
                "ours": [_plain(amount) for amount in one.ours],
                "equal": one.is_equal,
            }
            for one in found.figures
        ],
        "left_out": list(found.left_out),
    }


def _range(figure: ComparedFigure) -> str:
    least, most = _plain(figure.ours[0]), _plain(figure.ours[-1])
    return f"{least} here" if least == most else f"{least} to {most} here"


def _plain(dollars: Decimal) -> str:
    return f"{dollars.normalize():f}"


def _row(model: Model) -> dict[str, object]:
    return {
        "id": model.id,
        "legs": ", ".join(leg.provider for leg in model.legs),
        "operations": ", ".join(operation.name for operation in model.operations),
        "schema": "authored" if model.input_schema is not None else "open",
        "rates": model.native.rate_cards[-1].version,
        "retires": model.retirement.date.isoformat() if model.retirement else None,
    }


def _prices(model: Model) -> list[dict[str, str | None]]:
    """Every price of every leg: a line for each case of a component, for its default, and for each of its parts."""
    return [
        {
            "leg": leg.provider,
            "unit": unit,
            "dollars": as_dollars(price),
            "effective": str(card.effective),
            "source": card.source,
        }
        for leg in model.legs
        for card in leg.rate_cards
        for component in card.components
        for unit, price in (
            *((component.unit, case.price) for case in component.cases),
            (component.unit, component.price),
            *((f"{component.unit}, {part.unit}", part.price) for part in component.parts),
        )
    ]


def warnings_of(rows: Iterable[PriceRow], today: datetime.date) -> Iterator[str]:
    """A warning for each price that is old, was never checked, or is past a day that its card names."""
    for row in rows:
        age = row.age(today)
        if age is None:
            yield f"{row.model} at {row.provider}: nobody has said when this price was checked"
        elif age > OLD_DAYS:
            yield f"{row.model} at {row.provider}: this price was last checked {age} days ago"
        if Caution.OVERDUE in row.cautions:
            yield f"{row.model} at {row.provider}: this price was to be checked by {row.check_by}"
        if Caution.STALE in row.cautions:
            yield f"{row.model} at {row.provider}: nothing is estimated by this price since {row.stale_after}"


def page_of(rows: Sequence[PriceRow]) -> str:
    """The prices as a page of Markdown."""
    return _PAGE + "".join(
        f"| `{row.model}` | {row.provider} | {'; '.join(row.price)} | {row.effective} |"
        f" {row.source or '-'} | {row.checked or '-'} |\n"
        for row in rows
    )


def shown_row(row: PriceRow) -> dict[str, object]:
    """A row for the table, or for JSON."""
    return {**msgspec.to_builtins(row), "price": list(row.price), "cautions": list(row.cautions)}
