"""`fairlead blobs`: which store the files are in, and whether it is the one that the installation has recorded."""

from typing import Final

import click

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result
from fairlead.clock import Clock
from fairlead.operations.assets.shared_store import (
    REASONS,
    ForeignStoreError,
    MarkedBlobs,
    adopt_store,
    look_at_store,
)
from fairlead.server.blob_stores import ready_blobs, shown_place, stored_blobs
from fairlead.server.settings import Settings
from fairlead.storage.blobs.errors import BlobsUnavailableError
from fairlead.storage.blobs.gate import StoreState, open_gate
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import file_of

_FREE: Final = "free"
_WORDS: Final = {
    None: "No store is recorded yet; the first server that starts records this one.",
    StoreState.OURS: "It is the one that this installation has recorded.",
    StoreState.UNMARKED: f"WRONG: {REASONS[StoreState.UNMARKED]}.",
    StoreState.FOREIGN: f"WRONG: {REASONS[StoreState.FOREIGN]}.",
}


@click.group()
def blobs() -> None:
    """Show where files are kept, and say that another store is the installation's."""


@blobs.command()
@settings_option
@json_option
def show(settings: Settings, as_json: bool) -> None:
    """Show where files are kept, and whether that is where this installation keeps them.

    Exits with status 1 where it is not.
    """
    place, state = shown_place(settings), store_state(settings)
    document = {"place": place, "state": _FREE if state is None else state.value}
    print_result(document, f"Files are kept in {place}. {_WORDS[state]}", as_json=as_json)
    if state not in (None, StoreState.OURS):
        raise click.exceptions.Exit(1)


@blobs.command()
@click.option(
    "--from-another", is_flag=True, help="Take it from another installation, whose files a server then removes."
)
@settings_option
@json_option
def adopt(*, from_another: bool, settings: Settings, as_json: bool) -> None:
    """Record the store of the settings as this installation's, replacing the recorded one.

    For a store that was lost, or copied without its marker. Servers that look at another store stop writing to it
    within half a minute.
    """
    place = shown_place(settings)
    store = ready_blobs(settings, lambda _: None, open_gate())
    try:
        in_database(settings, lambda database: adopt_store(database, store, Clock(), from_another=from_another))
    except ForeignStoreError as error:
        raise click.ClickException(
            f"{place} has the marker of another installation. Choose another bucket, prefix or folder; or take it with "
            "--from-another, and its files that this database does not name are removed a day later"
        ) from error
    except BlobsUnavailableError as error:
        raise click.ClickException(f"{place} cannot be reached: {error}") from error
    print_result({"place": place, "state": StoreState.OURS.value}, f"{place} is recorded.", as_json=as_json)


async def wrong_store(settings: Settings, database: Database, blobs: MarkedBlobs) -> str | None:
    """Why a store is not the installation's; None where it is, or where no other is possible. BlobsUnavailableError.

    A server that has its database and its files in the data directory marks them again where the marker is lost.
    """
    if settings.blobs is None and file_of(settings.database_url()) is not None:
        return None
    state = await look_at_store(database, blobs)
    return None if state in (None, StoreState.OURS) else f"{shown_place(settings)}: {REASONS[state]}"


def store_state(settings: Settings) -> StoreState | None:
    """The identity of the settings' store; None where no store is recorded and it is free. click.ClickException."""
    store = stored_blobs(settings)
    if store is None:
        return None
    try:
        return in_database(settings, lambda database: look_at_store(database, store))
    except BlobsUnavailableError as error:
        raise click.ClickException(f"{shown_place(settings)} cannot be reached: {error}") from error
