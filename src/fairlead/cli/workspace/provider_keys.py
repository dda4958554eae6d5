"""`fairlead provider-keys`: workspaces' own keys at providers."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import click
import msgspec

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_rows, with_times
from fairlead.clock import Clock
from fairlead.domain.accounts.provider_keys import DOCUMENT_BYTES_MAX, StoredKey
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.server.installation import master_secret, provider_files, provider_keys
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

T = TypeVar("T")

_COLUMNS: Final = ("provider", "hint", "created_at")
_READ_MAX: Final = 4 * DOCUMENT_BYTES_MAX
_workspace = click.option("--workspace", required=True, metavar="NAME", help="Whose keys: a workspace's name or id.")


@click.group("provider-keys")
def provider_keys_group() -> None:
    """Store, list and delete workspaces' own keys at providers. They are sealed, and never shown."""


@provider_keys_group.command("list")
@_workspace
@settings_option
@json_option
def list_command(workspace: str, settings: Settings, as_json: bool) -> None:
    """List a workspace's own keys by their last characters."""
    stored = _run(settings, workspace, lambda keys, workspace_id: keys.list_all(workspace_id))
    print_rows([_row(key) for key in stored], _COLUMNS, as_json=as_json, empty="There are no keys.")


@provider_keys_group.command("set")
@click.argument("provider")
@_workspace
@click.option("--file", type=click.File("rb"), default="-", help="Where the key is; standard input when absent.")
@settings_option
@json_option
def set_command(  # the key is not an argument, because every user of the machine can read those
    provider: str, workspace: str, file: object, settings: Settings, *, as_json: bool
) -> None:
    """Store a workspace's own key at PROVIDER, replacing the one before."""
    text = read_secret(file, "key", _READ_MAX)
    told, is_new = _run(
        settings, workspace, lambda keys, workspace_id: keys.put(workspace_id, provider, text, shell_actor())
    )
    print_result(
        {**_row(told), "new": is_new},
        f"{'Stored' if is_new else 'Replaced'} the key of {workspace} for {provider} ({told.hint or '-'}).",
        as_json=as_json,
    )


@provider_keys_group.command("delete")
@click.argument("provider")
@_workspace
@settings_option
@json_option
def delete_command(provider: str, workspace: str, settings: Settings, as_json: bool) -> None:
    """Delete a workspace's own key at PROVIDER. Its further runs there use the server's key, and are billed."""
    _run(settings, workspace, lambda keys, workspace_id: keys.delete(workspace_id, provider, shell_actor()))
    print_result(
        {"provider": provider, "deleted": True}, f"Deleted the key of {workspace} for {provider}.", as_json=as_json
    )


def read_secret(file: Any, name: str, most: int) -> str:
    """A secret of up to `most` bytes from a file or standard input; hidden while it is typed.

    The line break at its end is not part of it.
    """
    if file.isatty():
        return str(click.prompt(name.capitalize(), hide_input=True))
    content: bytes = file.read(most + 1)
    try:
        return content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise click.ClickException(f"the {name} is not text") from None


def _run(settings: Settings, workspace: str, work: Callable[[ProviderKeys, str], Awaitable[T]]) -> T:
    """Do something with the keys of a workspace."""

    async def execute(database: Database) -> T:
        secret = master_secret(settings, make=False)
        keys = provider_keys(secret, provider_files(settings), database, Clock(), lambda _: None)
        return await work(keys, await find_workspace(database, workspace))

    return in_database(settings, execute)


def _row(key: StoredKey) -> dict[str, object]:
    return with_times(msgspec.structs.asdict(key), "created_at")
