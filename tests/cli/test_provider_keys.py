"""`fairlead provider-keys`: what an operator stores for a workspace, and what never shows."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from fairlead.cli import commands
from fairlead.operations.accounts.workspaces import UnknownWorkspaceError
from fairlead.server.installation import DataDirectoryError
from fairlead.server.settings import BadSettingError, read_settings
from fake_partner import CatalogFolder
from servers import Server, serving

KEY: Final = "sk-distinctive-7d1f0c1e5a"
Ran = Callable[..., Result]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with a partner nobody calls."""
    folder = tmp_path_factory.mktemp("provider-keys")
    catalog = CatalogFolder(folder / "catalog")
    catalog.add_provider("http://127.0.0.1:9")
    catalog.add_model("fake/json-1")
    with serving(folder / "data", catalog=catalog.path, arguments=("--no-local-partner",)) as running:
        yield running


@pytest.fixture
def ran(server: Server, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Return a function that runs a command on the data of the server, with its catalog."""
    monkeypatch.setenv("FAIRLEAD_CATALOG", str(server.data.with_name("catalog")))

    def run(*arguments: str, stdin: str = "", data: Path = server.data) -> Result:
        done = CliRunner().invoke(commands, ["provider-keys", *arguments, "--data", str(data)], input=stdin)
        assert KEY not in done.output
        return done

    return run


def refusal_of(done: Result) -> str:
    """Check that a command was refused with status 1, and return what it said."""
    assert done.exit_code == 1
    return done.output


@pytest.mark.req("R-17")
def test_key_is_set_listed_and_deleted(server: Server, ran: Ran, tmp_path: Path) -> None:
    """A key comes from standard input or a file; people and scripts can list it, and the server uses it."""
    mine = ("--workspace", "default")
    assert ran("list", *mine).output == "There are no keys.\n"
    assert ran("set", "fake", *mine, stdin=KEY + "\n").output == "Stored the key of default for fake (1e5a).\n"
    (tmp_path / "key").write_text("another-key-of-mine\n")
    again = json.loads(ran("set", "fake", *mine, "--file", str(tmp_path / "key"), "--json").output)
    assert (again["provider"], again["hint"], again["new"]) == ("fake", "mine", False)
    (listed,) = json.loads(ran("list", *mine, "--json").output)
    assert listed == {name: again[name] for name in ("provider", "hint", "created_at")}
    assert server.client.get("/v2/provider-keys").json() == {"data": [listed]}
    assert "mine" in ran("list", *mine).output
    assert ran("delete", "fake", *mine).output == "Deleted the key of default for fake.\n"
    assert "stored no key" in refusal_of(ran("delete", "fake", *mine))
    assert ran("set", "fake", *mine, stdin=KEY).exit_code == 0
    deleted = json.loads(ran("delete", "fake", *mine, "--json").output)
    assert deleted == {"provider": "fake", "deleted": True}


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (("set", "nobody"), KEY, "no provider nobody"),
        (("set", "local"), KEY, "not called with a key of yours"),
        (("set", "fake"), "", "A key is 1 to 4096"),
        (("set", "fake"), f"{KEY}\n{KEY}", "A key is 1 to 4096"),
        (("set", "fake"), KEY * 10_000, "A key is 1 to 4096"),
        (("delete", "fake"), "", "stored no key"),
    ],
)
def test_mistake_is_told_in_one_line_without_the_key(
    ran: Ran, arguments: tuple[str, ...], stdin: str, words: str
) -> None:
    """What cannot be stored is refused in a line, without the key."""
    said = refusal_of(ran(*arguments, "--workspace", "default", stdin=stdin))
    assert words in said
    assert said.count("\n") == 1


def test_key_is_never_an_argument(ran: Ran) -> None:
    """Everybody on a machine can read the arguments of its programs: there is no place for a key among them."""
    assert ran("set", "fake", "a-key", "--workspace", "default").exit_code == 2


def test_key_for_an_unknown_workspace_is_refused(ran: Ran) -> None:
    """An unknown workspace is told by the command's usual line."""
    done = ran("set", "fake", "--workspace", "nobody", stdin=KEY)
    assert isinstance(done.exception, UnknownWorkspaceError)


def test_command_never_makes_a_secret(server: Server, ran: Ran, tmp_path: Path) -> None:
    """A key sealed with a secret that the server does not have would open nowhere, so no command makes one."""
    database = ("--database", f"sqlite:///{server.data / 'fairlead.db'}")
    done = ran("set", "fake", "--workspace", "default", *database, stdin=KEY, data=tmp_path)
    assert isinstance(done.exception, DataDirectoryError)
    assert "there is no secret at" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_malformed_secret_is_refused_and_not_shown(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in the environment is used instead of the file, and must be one; neither it nor its settings show it."""
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", "hunter2-hunter2")
    done = ran("list", "--workspace", "default")
    assert isinstance(done.exception, BadSettingError)
    assert str(done.exception).startswith("FAIRLEAD_SECRET_KEY: must be 32 bytes in base64")
    assert "hunter2" not in str(done.exception)
    good = base64.b64encode(bytes(range(32))).decode()
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", good)
    assert ran("list", "--workspace", "default").exit_code == 0
    assert good not in repr(read_settings())


def test_secret_that_others_can_read_is_refused(server: Server, ran: Ran) -> None:
    """A file that others can read is refused, and the refusal says what to do."""
    path = server.data / "secret-key"
    path.chmod(0o644)
    try:
        done = ran("list", "--workspace", "default")
    finally:
        path.chmod(0o600)
    assert isinstance(done.exception, DataDirectoryError)
    assert "chmod 600" in str(done.exception)
