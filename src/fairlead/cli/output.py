"""How commands print: tables for people, one JSON document with --json. Money is shown in dollars."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from fairlead.domain.ledger.money import as_dollars

F = TypeVar("F", bound=Callable[..., object])


def json_option(command: F) -> F:
    """Add --json to a command that prints data."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")(command)


def data_option(command: F) -> F:
    """Add --data, the data directory, and --database to a command that reads or writes the database."""
    command = click.option("--database", metavar="URL", help="The database, when it is not in the data directory.")(
        command
    )
    return click.option("--data", metavar="DIR", help="The data directory. [default: fairlead-data]")(command)


def print_json(document: object) -> None:
    """Print one JSON document."""
    click.echo(msgspec.json.format(msgspec.json.encode(document, enc_hook=str)))


def print_result(document: object, sentence: str, *, as_json: bool) -> None:
    """Print what a command has done: as one JSON document, or as a sentence."""
    if as_json:
        print_json(document)
    else:
        click.echo(sentence)


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str) -> None:
    """Print rows as a table of some of their columns, or all of them as JSON."""
    if as_json:
        print_json(list(rows))
    elif not rows:
        click.echo(empty)
    else:
        print_table([[show_value(row.get(column)) for column in columns] for row in rows], columns)


def print_table(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> None:
    """Print aligned columns under their names."""
    table = [[column.replace("_", " ") for column in columns], *rows]
    widths = [max(len(row[index]) for row in table) for index in range(len(columns))]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show_value(value: object) -> str:
    """A value for a table: lists with commas, `-` for None."""
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "-"
    return str(value)


def with_dollars(row: Mapping[str, Any], *columns: str) -> dict[str, object]:
    """A copy of a row with some amounts written in dollars."""
    return {**row, **{column: as_dollars(row[column]) for column in columns if row.get(column) is not None}}


def with_times(row: Mapping[str, Any], *columns: str) -> dict[str, object]:
    """A copy of a row with some times written as ISO 8601 in UTC."""
    return {**row, **{column: _iso(row[column]) for column in columns if row.get(column) is not None}}


def _iso(milliseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
