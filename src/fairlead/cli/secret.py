"""`fairlead secret`: shows and rotates the server's master secret. No command prints a secret."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import click

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_rows, with_times
from fairlead.clock import Clock
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.accounts.secret_rotation import Rotated, RotationError, SecretRotation, SecretState
from fairlead.server.installation import master_secret, secret_rotation
from fairlead.server.settings import Settings

T = TypeVar("T")

_COLUMNS: Final = ("name", "state", "since", "sealed")


@click.group()
def secret() -> None:
    """Show and rotate the server's master secret. It seals provider keys, and signs links and webhooks."""


@secret.command("list")
@settings_option
@json_option
def list_command(settings: Settings, as_json: bool) -> None:
    """List the secrets that are known by their names, and how many sealed texts need each."""
    found = _run(settings, lambda rotation: rotation.states())
    print_rows([_row(one) for one in found], _COLUMNS, as_json=as_json, empty="There is no secret.")


@secret.command()
@click.option(
    "--prepare", is_flag=True, help="Only make the next secret known; copy the file to all hosts, then rotate."
)
@settings_option
@json_option
def rotate(*, prepare: bool, settings: Settings, as_json: bool) -> None:
    """Make a new secret the current one, and seal again what the old one has sealed.

    The old one still opens and verifies until `fairlead secret finish`. Servers follow within a second.
    """
    if not prepare:
        _print_rotated(_run(settings, lambda rotation: rotation.rotate(shell_actor(), _teller(as_json))), as_json)
        return
    name = _run(settings, lambda rotation: rotation.prepare(shell_actor()))
    told = f"Prepared the secret {name}; copy {settings.data / 'secret-key'} to every host, then rotate."
    print_result({"prepared": name}, told, as_json=as_json)


@secret.command()
@settings_option
@json_option
def reseal(settings: Settings, as_json: bool) -> None:
    """Seal with the current secret what others have sealed: after an interrupted rotation, or one in a setting."""
    _print_rotated(_run(settings, lambda rotation: rotation.reseal(shell_actor(), _teller(as_json))), as_json)


@secret.command()
@click.option("--now", "at_once", is_flag=True, help="Also while links may be good that a former secret has signed.")
@settings_option
@json_option
def finish(*, at_once: bool, settings: Settings, as_json: bool) -> None:
    """Forget the old secrets, once nothing needs them. Links that they signed are then invalid."""
    done = _run(settings, lambda rotation: rotation.finish(shell_actor(), at_once=at_once))
    is_setting = settings.secret_key is not None
    words = (
        "Take the secrets of before out of FAIRLEAD_SECRET_KEY now."
        if is_setting
        else f"Forgot {done.forgotten} secrets."
    )
    words += f" {done.unreadable} sealed texts opened with none of them." if done.unreadable else ""
    document = {
        "forgotten": done.forgotten,
        "webhook_secrets_kept": done.webhook_secrets_kept,
        "unreadable": done.unreadable,
    }
    print_result(document, words, as_json=as_json)


def _run(settings: Settings, work: Callable[[SecretRotation], Awaitable[T]]) -> T:
    """Do something with the secrets of an installation; what fails is printed as one line."""
    try:
        return in_database(
            settings,
            lambda database: work(secret_rotation(settings, master_secret(settings, make=False), database, Clock())),
        )
    except RotationError as error:
        raise click.ClickException(str(error)) from None


def _teller(as_json: bool) -> Callable[[int], None]:
    """A function that shows how many texts were sealed again; programs read one document instead."""

    def tell(done: int) -> None:
        if not as_json:
            click.echo(f"{done} sealed again", err=True)

    return tell


def _print_rotated(done: Rotated, as_json: bool) -> None:
    unreadable = done.resealed.unreadable
    words = f"Sealed {done.resealed.done} texts with the secret {done.current}"
    words += f"; {unreadable} open with none that is known." if unreadable else "."
    document = {"current": done.current, "resealed": done.resealed.done, "unreadable": unreadable}
    print_result(document, words, as_json=as_json)


def _row(one: SecretState) -> dict[str, object]:
    state = "sealed before secrets had names" if one.state == "unnamed" else one.state
    return with_times({"name": one.name, "state": state, "since": one.since, "sealed": one.sealed}, "since")
