"""`fairlead secret`: the server's master secret, and another in its place. No command prints a secret."""

import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import click

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_rows, with_times
from fairlead.identity.master_secret import BadSecretError, Secrets
from fairlead.identity.secret_ring import RingEntry, announce, read_ring, rotate_ring, without_former, write_ring
from fairlead.operations.accounts import secrets as operations
from fairlead.operations.clock import Clock
from fairlead.server.installation import master_secret, secret_file
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

T = TypeVar("T")

_COLUMNS: Final = ("name", "state", "since", "sealed")
_HOUR_MS: Final = 3_600_000
_ROUNDS: Final = 10
_A_SETTING: Final = (
    "the secret is the setting FAIRLEAD_SECRET_KEY, which this command cannot change: give every server the new secret "
    "behind the old one, with a comma between; then the new one first; then run `fairlead secret reseal`"
)


@click.group()
def secret() -> None:
    """Show and rotate the server's master secret. It seals provider keys, and signs links and webhooks."""


@secret.command("list")
@settings_option
@json_option
def list_command(settings: Settings, as_json: bool) -> None:
    """List the secrets that are known by their names, and how many sealed texts need each."""
    used = _with_database(settings, operations.uses)
    names = [one.id.hex() for one in master_secret(settings, make=False).known()]
    path = secret_file(settings)
    entries = [RingEntry("")] * len(names) if path is None else list(read_ring(path))
    rows = [_row(name, entry, used, is_first=name == names[0]) for name, entry in zip(names, entries, strict=True)]
    for name, count in used.items():
        if name not in names and count:
            state = "unknown" if name else "sealed before secrets had names"
            rows.append({"name": name or None, "state": state, "since": None, "sealed": count})
    print_rows([with_times(row, "since") for row in rows], _COLUMNS, as_json=as_json, empty="There is no secret.")


@secret.command()
@click.option(
    "--prepare", is_flag=True, help="Only make the next secret known; copy the file to all hosts, then rotate."
)
@settings_option
@json_option
def rotate(*, prepare: bool, settings: Settings, as_json: bool) -> None:
    """Make another secret the current one, and seal again what the one before has sealed.

    The one before goes on opening and verifying until `fairlead secret finish`. Servers follow within a second.
    """
    path = _file(settings)
    _with_database(settings, operations.note_first_secret)
    with _lock_file(path):
        entries = read_ring(path)
        changed = announce(entries) if prepare else rotate_ring(entries, Clock().now_ms())
        write_ring(path, changed)
    if prepare:
        name = next(entry.secret.id.hex() for entry in changed if entry.is_next)
        print_result(
            {"prepared": name}, f"Prepared the secret {name}; copy {path} to every host, then rotate.", as_json=as_json
        )
        return
    _reseal(settings, {"current": changed[0].secret.id.hex()}, as_json=as_json)


@secret.command()
@settings_option
@json_option
def reseal(settings: Settings, as_json: bool) -> None:
    """Seal with the current secret what others have sealed: after a rotation that was interrupted, or of a setting."""
    _with_database(settings, operations.note_first_secret)
    _reseal(settings, {"current": master_secret(settings, make=False).known()[0].id.hex()}, as_json=as_json)


@secret.command()
@click.option("--now", "at_once", is_flag=True, help="Also while links may be good that a former secret has signed.")
@settings_option
@json_option
def finish(*, at_once: bool, settings: Settings, as_json: bool) -> None:
    """Forget the secrets of before, once nothing needs them: links that they signed are good no more."""
    master_secret(settings, make=False)
    path = secret_file(settings)
    entries = () if path is None else read_ring(path)
    if not at_once:
        _refuse_young(settings, entries)
    unreadable = _settle(settings)
    kept = _with_database(settings, operations.keep_derived)
    if path is not None:
        with _lock_file(path):
            write_ring(path, without_former(read_ring(path)))
    forgotten = sum(entry.former_since is not None for entry in entries)
    words = f"Forgot {forgotten} secrets." if path else "Take the secrets of before out of FAIRLEAD_SECRET_KEY now."
    words += f" {unreadable} sealed texts opened with none of them." if unreadable else ""
    document = {"forgotten": forgotten, "webhook_secrets_kept": kept, "unreadable": unreadable}
    print_result(document, words, as_json=as_json)


def _settle(settings: Settings) -> int:
    """Seal again until nothing is left that needs a secret of before; how many texts open with none."""
    for _ in range(_ROUNDS):
        found = _with_database(settings, operations.reseal)
        if not found.done:
            return found.unreadable
    raise click.ClickException(
        "a server still seals with a secret of before: has every one of them learnt the new one?"
    )


def _reseal(settings: Settings, told: dict[str, object], *, as_json: bool) -> None:
    def tell(done: int) -> None:
        if not as_json:
            click.echo(f"{done} sealed again", err=True)

    found = _with_database(settings, lambda database, secrets: operations.reseal(database, secrets, tell))
    words = f"Sealed {found.done} texts with the secret {told['current']}"
    words += f"; {found.unreadable} open with none that is known." if found.unreadable else "."
    print_result({**told, "resealed": found.done, "unreadable": found.unreadable}, words, as_json=as_json)


def _refuse_young(settings: Settings, entries: Sequence[RingEntry]) -> None:
    """Refuse to forget a secret whose links may still be good."""
    youngest = max((entry.former_since or 0 for entry in entries), default=0)
    lasts = max(settings.asset_lifetime_hours * _HOUR_MS, settings.file_link_seconds * 1000)
    left = youngest + lasts - Clock().now_ms()
    if youngest and left > 0:
        hours = -(-left // _HOUR_MS)
        raise click.ClickException(
            f"links that the secret of before has signed may be good for {hours} hours; --now forgets it all the same"
        )


def _row(name: str, entry: RingEntry, used: dict[str, int], *, is_first: bool) -> dict[str, object]:
    state = "current" if is_first else "next" if entry.is_next else "former"
    return {"name": name, "state": state, "since": entry.former_since, "sealed": used.get(name, 0)}


def _file(settings: Settings) -> Path:
    path = secret_file(settings)
    if path is None:
        raise click.ClickException(_A_SETTING)
    return path


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile. What is wrong with it is a line."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    except (BadSecretError, OSError) as error:
        raise click.ClickException(f"the server's secret cannot be changed: {error}") from None
    finally:
        os.close(descriptor)


def _with_database(settings: Settings, work: Callable[[Database, Secrets], Awaitable[T]]) -> T:
    return in_database(settings, lambda database: work(database, master_secret(settings, make=False)))
