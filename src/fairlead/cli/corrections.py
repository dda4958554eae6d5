"""`fairlead runs refund` and `rerate`: what runs were charged is given back, or charged by another rate card."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import click
import msgspec

from fairlead.cli.catalog import loaded_catalog
from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_table, show_value, with_dollars, with_times
from fairlead.clock import Clock
from fairlead.domain.days import DAY_MS, read_date, start_of
from fairlead.domain.ledger.money import as_dollars, from_dollars
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.operations.ledger.corrections import Refund, RefundOrder, Refunds, RefundSums, RunSelection
from fairlead.operations.ledger.rerates import Rerate, RerateOrder, Rerates
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

_PAGE: Final = 100
"""How many runs are corrected in one transaction: a server waits some milliseconds for it."""
_SHOWN: Final = 20
_REFUND_COLUMNS: Final = ("run", "workspace", "amount", "charge", "at")
_RERATE_COLUMNS: Final = ("run", "workspace", "before", "charge", "rate_version")


_OPTIONS: Final = (
    click.option("--model", metavar="ID", help="Instead of RUN_ID: the runs of this model."),
    click.option("--from", "first", metavar="DATE", help="With --model: those admitted on this day (UTC) or later."),
    click.option("--to", "last", metavar="DATE", help="With --model: those admitted on this day (UTC) or before."),
    click.option("--workspace", help="With --model: those of one workspace. [default: all]"),
    click.option("--rate-version", help="With --model: those charged by this version of a rate card."),
    click.option("--outcome", help="With --model: those that ended so, such as `completed`."),
    click.option("--yes", "is_meant", is_flag=True, help="Book it; without it nothing is changed."),
)


def _options_of_both(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which runs are corrected, and that it is meant."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _selection(
    model: str | None, first: str | None, last: str | None, rate_version: str | None, outcome: str | None
) -> RunSelection:
    """The runs of a model by the options of a command."""
    if model is None or first is None:
        raise click.UsageError("give a run, or --model and --from")
    return RunSelection(
        model_id=model,
        since=start_of(read_date("--from", first)),
        until=None if last is None else start_of(read_date("--to", last)) + DAY_MS,
        rate_version=rate_version,
        outcome=outcome,
    )


def _print_first(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> None:
    print_table([[show_value(row[name]) for name in columns] for row in rows], columns)


@click.command()
@click.argument("run_id", required=False)
@click.option("--reason", required=True, help="Why, for the ledger.")
@click.option("--amount", metavar="DOLLARS", help="Of one run: how much of its charge. [default: all of it]")
@_options_of_both
@settings_option
@json_option
def refund(
    run_id: str | None,
    reason: str,
    amount: str | None,
    model: str | None,
    first: str | None,
    last: str | None,
    workspace: str | None,
    rate_version: str | None,
    outcome: str | None,
    is_meant: bool,
    settings: Settings,
    as_json: bool,
) -> None:
    """Give back what the run RUN_ID was charged, or the runs of a model. Each run is refunded once.

    If it is killed, run it again: it goes on with the runs that are left.
    """
    order = RefundOrder(reason[:200], None if amount is None else from_dollars(amount))
    if (amount is not None and run_id is None) or (order.amount is not None and order.amount <= 0):
        raise click.UsageError("--amount is of one run, and more than 0")
    if run_id is not None and model is None:
        _refund_run(settings, run_id, order, is_meant=is_meant, as_json=as_json)
        return
    wanted = _selection(None if run_id else model, first, last, rate_version, outcome)
    _refund_model(settings, wanted, workspace, order, is_meant=is_meant, as_json=as_json)


def _refund_run(settings: Settings, run_id: str, order: RefundOrder, *, is_meant: bool, as_json: bool) -> None:
    told = in_database(
        settings, lambda opened: Refunds(opened, Clock()).refund(run_id, order, shell_actor(), is_dry=not is_meant)
    )
    amount, left = as_dollars(told.amount), as_dollars(told.charge)
    if not told.is_new:
        sentence = f"The run was refunded before: {amount} dollars; {left} are left of its charge."
    elif is_meant:
        sentence = f"Gave {amount} dollars back; {left} are left of the charge."
    else:
        sentence = f"Would give {amount} dollars back; add --yes to book it."
    document = {**_refund_row(told), "is_new": told.is_new, "is_dry_run": not is_meant}
    print_result(document, sentence, as_json=as_json)


def _refund_model(
    settings: Settings,
    wanted: RunSelection,
    workspace: str | None,
    order: RefundOrder,
    *,
    is_meant: bool,
    as_json: bool,
) -> None:
    async def work(opened: Database) -> tuple[RefundSums, list[Refund], int]:
        refunds, selected = Refunds(opened, Clock()), wanted
        if workspace is not None:
            selected = msgspec.structs.replace(wanted, workspace_id=await find_workspace(opened, workspace))
        sums = await refunds.sums(selected)
        if is_meant:
            return sums, *await _refund_pages(refunds, selected, order)
        return sums, (await refunds.look(selected, order, None, _SHOWN)).refunds, 0

    sums, refunds, refused = in_database(settings, work)
    runs = len(refunds) if is_meant else sums.runs
    amount = as_dollars(sum(one.amount for one in refunds) if is_meant else sums.amount)
    before = sums.refunded_runs, as_dollars(sums.refunded)
    document = {
        "is_dry_run": not is_meant,
        "runs": runs,
        "amount": amount,
        "refunded_runs": before[0],
        "refunded_amount": before[1],
        "archiving_runs": refused,
        "refunds": [_refund_row(one) for one in refunds],
    }
    if refunds and not as_json:
        _print_first([_refund_row(one) for one in refunds[:_SHOWN]], _REFUND_COLUMNS)
    words = f"Gave {amount} dollars back" if is_meant else f"Would give {amount} dollars back"
    words += f", of {runs} runs; {before[1]} dollars of {before[0]} runs were given back before."
    if refused:
        words += f" {refused} runs are being archived, and were left out."
    print_result(document, words if is_meant else f"{words} Add --yes to book it.", as_json=as_json)


async def _refund_pages(refunds: Refunds, wanted: RunSelection, order: RefundOrder) -> tuple[list[Refund], int]:
    """Refund a selection page by page; the refunds, and how many runs could have none."""
    done: list[Refund] = []
    refused, after = 0, ""
    while True:
        page = await refunds.refund_selected(wanted, order, after or None, _PAGE, shell_actor())
        done += [one for one in page.refunds if one.is_new]
        refused += len(page.obstacles)
        if page.after is None:
            return done, refused
        after = page.after


def _refund_row(one: Refund) -> dict[str, object]:
    row = {
        "run": one.run_id,
        "workspace": one.workspace,
        "amount": one.amount,
        "charge": one.charge,
        "at": one.at,
    }
    return with_times(with_dollars(row, "amount", "charge"), "at")


@click.command()
@click.argument("run_id", required=False)
@click.option("--reason", required=True, help="Why, for the ledger.")
@click.option("--to-version", metavar="VERSION", help="The rate card to charge by. [default: the one in force]")
@click.option("--raise", "may_raise", is_flag=True, help="Also runs that then cost more.")
@_options_of_both
@settings_option
@json_option
def rerate(
    run_id: str | None,
    reason: str,
    to_version: str | None,
    may_raise: bool,
    model: str | None,
    first: str | None,
    last: str | None,
    workspace: str | None,
    rate_version: str | None,
    outcome: str | None,
    is_meant: bool,
    settings: Settings,
    as_json: bool,
) -> None:
    """Charge the run RUN_ID, or the runs of a model, by another rate card, with the markup they had.

    If it is killed, run it again: what was re-rated stays as it is.
    """
    order = RerateOrder(reason[:200], to_version, may_raise)
    if run_id is not None and model is None:
        _rerate_run(settings, run_id, order, is_meant=is_meant, as_json=as_json)
        return
    wanted = _selection(None if run_id else model, first, last, rate_version, outcome)
    _rerate_model(settings, wanted, workspace, order, is_meant=is_meant, as_json=as_json)


def _rerates(settings: Settings, opened: Database) -> Rerates:
    catalog = loaded_catalog(settings)
    return Rerates(opened, Clock(), lambda: catalog)


def _rerate_run(settings: Settings, run_id: str, order: RerateOrder, *, is_meant: bool, as_json: bool) -> None:
    told = in_database(
        settings, lambda opened: _rerates(settings, opened).rerate(run_id, order, shell_actor(), is_dry=not is_meant)
    )
    before, charge = as_dollars(told.before), as_dollars(told.charge)
    if not told.is_new:
        sentence = f"The run is charged by {told.rate_version} already: {charge} dollars."
    elif is_meant:
        sentence = f"Charged {charge} dollars by {told.rate_version}, instead of {before}."
    else:
        sentence = f"Would charge {charge} dollars by {told.rate_version}, instead of {before}; add --yes to book it."
    document = {**_rerate_row(told), "is_new": told.is_new, "is_dry_run": not is_meant}
    print_result(document, sentence, as_json=as_json)


def _rerate_model(
    settings: Settings,
    wanted: RunSelection,
    workspace: str | None,
    order: RerateOrder,
    *,
    is_meant: bool,
    as_json: bool,
) -> None:
    async def work(opened: Database) -> tuple[list[Rerate], Counter[str]]:
        selected = wanted
        if workspace is not None:
            selected = msgspec.structs.replace(wanted, workspace_id=await find_workspace(opened, workspace))
        return await _rerate_pages(_rerates(settings, opened), selected, order, is_meant=is_meant)

    booked, obstacles = in_database(settings, work)
    before, charge = (as_dollars(sum(amounts)) for amounts in _amounts(booked))
    document = {
        "is_dry_run": not is_meant,
        "runs": len(booked),
        "before": before,
        "charge": charge,
        "obstacles": dict(obstacles),
        "rerates": [_rerate_row(one) for one in booked],
    }
    if booked and not as_json:
        _print_first([_rerate_row(one) for one in booked[:_SHOWN]], _RERATE_COLUMNS)
    words = "Charged" if is_meant else "Would charge"
    words += f" {charge} dollars for {len(booked)} runs, instead of {before}."
    if obstacles:
        words += f" Left out: {', '.join(f'{count} {name}' for name, count in sorted(obstacles.items()))}."
    print_result(document, words if is_meant else f"{words} Add --yes to book it.", as_json=as_json)


def _amounts(booked: list[Rerate]) -> tuple[list[int], list[int]]:
    return [one.before for one in booked], [one.charge for one in booked]


async def _rerate_pages(
    rerates: Rerates, wanted: RunSelection, order: RerateOrder, *, is_meant: bool
) -> tuple[list[Rerate], Counter[str]]:
    """Re-rate a selection page by page, or look at it; the re-rates, and how many runs had which obstacle."""
    done: list[Rerate] = []
    obstacles: Counter[str] = Counter()
    after: str | None = None
    while True:
        if is_meant:
            page = await rerates.rerate_selected(wanted, order, after, _PAGE, shell_actor())
        else:
            page = await rerates.look(wanted, order, after, _PAGE)
        done += [one for one in page.rerates if one.is_new]
        obstacles.update(obstacle.value for obstacle in page.obstacles.values())
        if page.after is None:
            return done, obstacles
        after = page.after


def _rerate_row(one: Rerate) -> dict[str, object]:
    row = {
        "run": one.run_id,
        "workspace": one.workspace,
        "before": one.before,
        "charge": one.charge,
        "rate_version": one.rate_version,
        "at": one.at,
    }
    return with_times(with_dollars(row, "before", "charge"), "at")
