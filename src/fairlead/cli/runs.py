"""`fairlead runs`: the outcome of runs, and what they cost."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from fairlead.cli.corrections import refund, rerate
from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import (
    json_option,
    print_json,
    print_rows,
    print_table,
    show_value,
    with_dollars,
    with_times,
)
from fairlead.domain.runs.states import RunState
from fairlead.operations.ledger import statements as operations
from fairlead.server.settings import Settings

_MONEY: Final = ("least", "most", "hold", "charge", "balance_change", "held_change")
_TIMES: Final = (
    "at", "created_at", "claimed_at", "cancel_requested_at", "finished_at", "result_kept_until",
    "next_at", "delivered_at", "gave_up_at",
)  # fmt: skip
_COLUMNS: Final = ("id", "created_at", "model_id", "came", "state", "provider", "hold", "charge", "reason", "key_hint")
_LABELS: Final = {
    "id": "run",
    "model_id": "model",
    "workspace": "workspace",
    "key": "key",
    "came": "came",
    "place": "number in the queue",
    "state": "state",
    "reason": "why",
    "upstream_status": "the partner's status",
    "provider": "provider",
    "handle": "the partner's name for it",
    "attempt": "attempts",
    "operation": "operation",
    "strict": "in the provider's own form",
    "byok": "with the workspace's own key",
    "caller_left": "the caller had left",
    "created_at": "admitted",
    "claimed_at": "claimed by a worker",
    "cancel_requested_at": "cancel requested",
    "finished_at": "ended",
    "result_kept_until": "result kept until",
    "estimate": "estimate, in dollars",
    "hold": "held",
    "charge": "charged",
    "rate_version": "prices",
    "dropped": "left out",
    "labels": "labels",
}
"""The fields of a run that are shown, in order, with their labels."""
_LEGS: Final = ("at", "provider", "hold", "rate_version")
_ENTRIES: Final = ("created_at", "kind", "balance_change", "held_change", "reason", "rate_version")
_EVENTS: Final = ("at", "kind", "attempt", "detail")
_WEBHOOK: Final = ("url", "tries", "next_at", "delivered_at", "gave_up_at")
_TRIES: Final = ("at", "number", "status", "milliseconds", "error")


@click.group()
def runs() -> None:
    """List runs, state the account of one, and correct what they were charged."""


runs.add_command(refund)
runs.add_command(rerate)


@runs.command("list")
@click.argument("workspace", default="default")
@click.option("--state", type=click.Choice([state.value for state in RunState]), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many of the newest.")
@settings_option
@json_option
def list_command(
    workspace: str,
    state: str | None,
    limit: int,
    settings: Settings,
    as_json: bool,
) -> None:
    """List the newest runs of WORKSPACE, oldest first, in dollars."""
    print_rows(
        _readable(
            in_database(
                settings,
                lambda opened: operations.newest_runs(
                    opened, workspace, None if state is None else RunState(state), limit
                ),
            )
        ),
        _COLUMNS,
        as_json=as_json,
        empty="There are no such runs.",
    )


@runs.command()
@click.argument("run_id")
@settings_option
@json_option
def show(run_id: str, settings: Settings, as_json: bool) -> None:
    """State the account of the run RUN_ID: its history, and what was booked for it, in dollars."""
    found = in_database(settings, lambda opened: operations.statement(opened, run_id))
    (run,) = _readable([found.run])
    webhooks = [] if found.webhook is None else _readable([found.webhook])
    parts = {
        "legs": _readable(found.legs),
        "entries": _readable(found.entries),
        "events": _readable(found.events),
        "tries": _readable(found.tries),
    }
    if as_json:
        print_json({**run, **parts, "webhook": webhooks[0] if webhooks else None})
        return
    _print_run(run)
    _print_part("Provider it was held for" if _was_never_sent(run) else "Providers it went to", parts["legs"], _LEGS)
    _print_part("What was booked", parts["entries"], _ENTRIES)
    _print_part("What happened to it", parts["events"], _EVENTS)
    _print_part("Its webhook", webhooks, _WEBHOOK)
    _print_part("Tries to tell them", parts["tries"], _TRIES)


def _print_run(run: dict[str, object]) -> None:
    """The facts of the run, line by line, without those that do not apply to it."""
    facts = {**run, "key": _key(run), "estimate": _estimate(run)}
    told = [(label, facts[name]) for name, label in _LABELS.items() if not _is_nothing(facts[name])]
    width = max(len(label) for label, _ in told)
    for label, value in told:
        click.echo(f"{label.ljust(width)}  {'yes' if value is True else show_value(value)}")


def _was_never_sent(run: Mapping[str, object]) -> bool:
    """Whether a run never left the queue."""
    return run["place"] is not None and run["claimed_at"] is None


def _is_nothing(value: object) -> bool:
    """Whether a fact is empty; zero attempts are not."""
    return value is None or value is False or value in ([], {})


def _print_part(title: str, rows: Sequence[dict[str, object]], columns: Sequence[str]) -> None:
    if rows:
        click.echo(f"\n{title}:")
        print_table([[show_value(row[column]) for column in columns] for row in rows], columns)


def _key(run: dict[str, Any]) -> str:
    if run["key_id"] is None:
        return "none, but a token"
    return " ".join(part for part in (run["key_label"], run["key_hint"], f"({run['key_id']})") if part)


def _estimate(run: dict[str, object]) -> str | None:
    if run["least"] is None or run["least"] == run["most"]:
        return None if run["most"] is None else f"at most {run['most']}" if run["least"] is None else str(run["most"])
    return f"{run['least']} to {run['most']}"


def _readable(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    return [with_times(with_dollars(row, *_MONEY), *_TIMES) for row in rows]
