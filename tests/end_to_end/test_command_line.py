"""The command line as people and scripts meet it: what it prints, what it refuses, and with which exit status."""

import io
import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
import httpx
import pytest

import fairlead
from damage import blob_files, flip
from fairlead.cli import commands, main
from fairlead.operations.runs.results import INLINE_MAX
from fairlead.server.installation import CATALOG
from fairlead.storage.db.migrate import HEAD
from servers import COMMAND, Server, ServerFailedError, environment, kill_at_last, serving

_NO_KEY: Final = "00000000-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document it printed."""
        return json.loads(self.out)


Command: TypeAlias = Callable[..., Ran]
_MODELS: Final = sorted(tomllib.loads(path.read_text("utf-8"))["id"] for path in CATALOG.glob("**/*.toml"))
"""Every model that ships."""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a command as its entry point does, in this process because that is quick."""

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["fairlead", *arguments])
        for name in environment():
            if name.startswith("FAIRLEAD_"):
                monkeypatch.delenv(name, raising=False)
        if os.getuid() == 0:
            monkeypatch.setenv("FAIRLEAD_ENGINE_ALLOW_ROOT", "true")
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Ran(ended.value.code if isinstance(ended.value.code, int) else 0, printed.out, printed.err)

    return run


@contextmanager
def sqlite_copy(source: Path, target: Path) -> Iterator[Callable[[str], object]]:
    """Copy a database as it is and give a function that changes the copy behind everybody's back."""
    with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(target)) as copy:
        original.backup(copy)
        yield copy.execute
        copy.commit()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with one run in its books, which are in its data directory."""
    data = tmp_path_factory.mktemp("used") / "data"
    with serving(data, database=f"sqlite:///{data}/fairlead.db") as server:
        body = {"prompt": "a", "max_characters": 200, "seed": 1}
        assert server.client.post("/v2/models/local/procedural-text-1", json=body).status_code == 200
        yield server


def _all_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from _all_commands(command, (*path, name))


_NAMES: Final = sorted(_all_commands(commands))


@pytest.mark.parametrize("path", [(), *_NAMES], ids=" ".join)
def test_every_command_explains_itself(ran: Command, path: tuple[str, ...]) -> None:
    """Every command explains itself in a sentence, and each of its options too."""
    shown = ran(*path, "--help")
    assert (shown.status, shown.err) == (0, "")
    assert " ".join(path) in shown.out.splitlines()[0]
    command: click.Command | None = commands
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    assert command.help
    assert command.help.splitlines()[0].endswith(".")
    options = [option for option in command.params if isinstance(option, click.Option)]
    unexplained = [option.name for option in options if not option.help and option.name != "billing"]
    assert unexplained == []


def test_both_entry_points_answer() -> None:
    """`python -m fairlead` and the installed script both answer, as processes of their own."""
    for program in (COMMAND, (str(Path(sys.executable).parent / "fairlead"),)):
        done = subprocess.run(
            [*program, "--version"], capture_output=True, text=True, check=True, timeout=50, env=environment()
        )
        assert done.stdout == f"fairlead, version {fairlead.__version__}\n"


_READING: Final = [
    pytest.param(("workspaces", "list"), "default", id="workspaces list"),
    pytest.param(("keys", "list"), "first key", id="keys list"),
    pytest.param(("audit",), "The books are right.", id="audit"),
    pytest.param(("audit", "--blobs"), "The stored files are right.", id="audit --blobs"),
    pytest.param(("ledger", "show"), "local/procedural-text-1", id="ledger show"),
    pytest.param(("ledger", "show", "default", "--limit", "1"), "post", id="ledger show a workspace"),
    pytest.param(("usage",), "local/procedural-text-1", id="usage"),
    pytest.param(("runs", "list"), "succeeded", id="runs list"),
    pytest.param(("migrate",), f"The database is at {HEAD}.", id="migrate"),
    pytest.param(("doctor",), "add up", id="doctor"),
]


@pytest.mark.parametrize(("arguments", "words"), _READING)
def test_reading_commands_print_words_or_one_document(
    used: Server, ran: Command, arguments: tuple[str, ...], words: str
) -> None:
    """People read words and scripts one JSON document; the status is 0 and standard error is empty."""
    people = ran(*arguments, "--data", str(used.data))
    scripts = ran(*arguments, "--data", str(used.data), "--json")
    assert (people.status, people.err, scripts.status, scripts.err) == (0, "", 0, "")
    assert words in people.out
    assert scripts.document


def test_no_secret_is_listed(used: Server, ran: Command) -> None:
    """Keys are listed without what would let anybody use them."""
    for arguments in (("keys", "list"), ("keys", "list", "--json")):
        assert used.key not in ran(*arguments, "--data", str(used.data)).out


def test_figures_of_a_workspace_are_dollars(used: Server, ran: Command) -> None:
    """Figures are in dollars as text, times in ISO 8601."""
    (row,) = [row for row in ran("workspaces", "list", "--data", str(used.data), "--json").document
              if row["name"] == "default"]  # fmt: skip
    assert (row["cap"], row["held"], row["in_flight"]) == ("100", "0", 0)
    assert re.fullmatch(r"-0\.\d{1,8}", row["balance"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z", row["created_at"])


def test_audit_reports_a_wrong_ledger(used: Server, ran: Command, tmp_path: Path) -> None:
    """Books that do not add up are told, for people and scripts, with exit status 1."""
    copy = tmp_path / "copy.db"
    url = f"sqlite:///{copy}"
    with sqlite_copy(used.data / "fairlead.db", copy) as change:
        change("UPDATE workspaces SET balance = balance + 1")
    people = ran("audit", "--database", url)
    assert (people.status, "The books are WRONG." in people.out) == (1, True)
    scripts = ran("audit", "--database", url, "--json")
    assert (scripts.status, scripts.document["clean"]) == (1, False)
    assert "workspace figures differ" in scripts.document["disagreements"][0]["check"]
    doctor = ran("doctor", "--database", url, "--data", str(used.data), "--json")
    assert doctor.status == 1
    assert [row["check"] for row in doctor.document if row["result"] == "problem"] == ["database and books"]


@pytest.mark.req("C-13")
def test_doctor_warns_of_tiers_that_promise_more_than_a_server_can_do(used: Server, ran: Command) -> None:
    """Parallel jobs that no engine host is there for are named; that is no failure."""
    doctor = ran("doctor", "--data", str(used.data), "--json")
    (found,) = [row for row in doctor.document if row["check"] == "subscriptions"]
    assert (doctor.status, found["result"]) == (0, "warning")
    assert "creator (3), pro (5)" in found["detail"]


@pytest.mark.req("S-08")
def test_lost_files_are_told_while_the_server_runs(used: Server, ran: Command) -> None:
    """Damaged and missing files are named, for people and scripts, with exit status 1, and in `doctor` too."""
    body = {"prompt": "a sea", "width": 512, "height": 512, "seed": 3}
    headers = {"Idempotency-Key": "kept"}
    made = used.client.post("/v2/models/local/procedural-image-1", json=body, headers=headers)
    assert (made.status_code, len(made.content) > INLINE_MAX) == (200, True)
    data = ("--data", str(used.data))
    (path,) = blob_files(used.data / "blobs")
    assert ran("audit", "--blobs", *data).status == ran("doctor", *data).status == 0
    flip(path, path.stat().st_size // 2)
    people, scripts = ran("audit", "--blobs", *data), ran("audit", "--blobs", *data, "--json")
    assert (people.status, scripts.status, scripts.document["clean"]) == (1, 1, False)
    assert re.search(f"DAMAGED: {path.name}: named by result [0-9a-f-]+ of workspace [0-9a-f-]+", people.out)
    assert "The stored files are WRONG." in people.out
    assert (scripts.document["files"]["damaged"], scripts.document["files"]["missing"]) == (1, 0)
    (finding,) = scripts.document["files"]["findings"]
    assert (finding["problem"], finding["blob"], finding["named_by"][0]["kind"]) == ("damaged", path.name, "result")
    assert ran("audit", *data).status == 0  # which reads no bytes
    assert _problems(ran("doctor", *data, "--json")) == ["stored files"]
    away = path.rename(path.with_name("away"))
    plain = ran("audit", *data)
    assert (plain.status, f"MISSING: {path.name}" in plain.out) == (1, True)
    assert _problems(ran("doctor", *data, "--json")) == ["stored files"]
    flip(away.rename(path), path.stat().st_size // 2)
    assert ran("audit", "--blobs", *data).status == 0


def test_audit_of_books_alone_says_that_no_file_was_looked_for(used: Server, ran: Command, tmp_path: Path) -> None:
    """A machine with the database and without the data directory proves the books, and claims no more."""
    url = f"sqlite:///{used.data}/fairlead.db"
    told = ran("audit", "--database", url, "--data", str(tmp_path / "none"))
    assert (told.status, "Stored files were not looked for" in told.out) == (0, True)
    assert ran("audit", "--database", url, "--data", str(tmp_path / "none"), "--json").document["files"] is None


def _problems(told: Ran) -> list[str]:
    return [row["check"] for row in told.document if row["result"] == "problem"]


def test_pack_that_is_a_link_can_be_loaded(ran: Command, tmp_path: Path) -> None:
    """Where it really lies may be read as well: a folder, or a file by itself."""
    packs, elsewhere = tmp_path / "custom_nodes", tmp_path / "elsewhere"
    packs.mkdir()
    (elsewhere / "folder").mkdir(parents=True)
    for written in (elsewhere / "folder" / "__init__.py", elsewhere / "file.py"):
        written.write_text("NODE_CLASS_MAPPINGS = {}\n")
    (packs / "folder").symlink_to(elsewhere / "folder")
    (packs / "file.py").symlink_to(elsewhere / "file.py")
    told = ran("doctor", "--data", str(tmp_path), "--json").document
    assert [row["detail"] for row in told if row["check"] == "node packs"] == ["2 can be loaded"]


@pytest.mark.req("S-06")
def test_doctor_names_a_pack_that_cannot_be_loaded(ran: Command, tmp_path: Path) -> None:
    """It says which it is and why, and nothing of those that can be; mended, all of them can."""
    packs = tmp_path / "custom_nodes"
    packs.mkdir()
    (packs / "good.py").write_text("NODE_CLASS_MAPPINGS = {}\n")
    (packs / "bad.py").write_text("import os\nos._exit(5)\n")
    why = "bad: it ended by itself with the code 5 while it loaded the node pack 'bad'"
    for source, found in (("", ("problem", why)), ("NODE_CLASS_MAPPINGS = {}\n", ("ok", "2 can be loaded"))):
        if source:
            (packs / "bad.py").write_text(source)
        told = ran("doctor", "--data", str(tmp_path), "--json")
        assert [(row["result"], row["detail"]) for row in told.document if row["check"] == "node packs"] == [found]


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "scripts"])
def test_workspace_is_created_changed_and_paid(used: Server, ran: Command, *, as_json: bool) -> None:
    """A workspace is made, changed, credited and given a key, and says so in either form."""
    data = ("--data", str(used.data))
    form = ("--json",) if as_json else ()
    name = "scripted" if as_json else "typed"
    made = ran("workspaces", "create", name, "--billing", "prepaid", *data, *form)
    paid = ran("workspaces", "credit", name, "12.5", "--reason", "invoice 7", *data, *form)
    corrected = ran("workspaces", "credit", name, *data, *form, "--", "-2.5")
    changed = ran("workspaces", "change", name, "--cap", "3", "--in-flight-limit", "-1", "--models", "fake/*,local/*",
                  "--providers", "local", "--gate", "router=off", "--gate", "provider:local=on", *data)  # fmt: skip
    key = ran("keys", "create", name, "--label", "a laptop", "--models", "local/*", *data, *form)
    assert [step.status for step in (made, paid, corrected, changed, key)] == [0] * 5
    if as_json:
        assert made.document == {"id": made.document["id"], "name": name, "billing": "prepaid"}
        booked = {"workspace": name, "balance": "12.5", "is_new": True}
        assert (paid.document, corrected.document["balance"]) == (booked, "10")
        secret = key.document["key"]
    else:
        assert made.out.startswith(f"Made the prepaid workspace {name} (")
        assert paid.out == f"Booked 12.5 dollars into {name}; its balance is 12.5.\n"
        secret = key.out.strip()
    assert re.fullmatch(r"flk_[0-9A-Za-z]{43}", secret)
    row = used.workspace(name)
    assert (row["models"], row["providers"], row["gates"]) == (
        ["fake/*", "local/*"],
        ["local"],
        {"provider:local": "on", "router": "off"},
    )
    assert (row["balance"], row["cap"], row["in_flight_limit"]) == ("10", "3", -1)
    assert [entry["reason"] for entry in used.ledger(name)] == ["invoice 7", "payment"]


def test_key_is_revoked_once(used: Server, ran: Command) -> None:
    """A key is revoked once, by its id; a second time is told."""
    made = used.cli("keys", "create", "default", "--json")
    revoked = ran("keys", "revoke", made["id"], "--data", str(used.data))
    assert (revoked.status, revoked.out) == (0, f"Revoked {made['id']}.\n")
    again = ran("keys", "revoke", made["id"], "--data", str(used.data))
    assert (again.status, again.out) == (1, "")
    assert "there is no living key" in again.err


@pytest.mark.req("S-10")
def test_key_on_standard_input_is_revoked_without_being_shown(
    used: Server, ran: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `-` the key itself is read; the answers name its id only, and a second revocation is refused."""
    made = used.cli("keys", "create", "default", "--json")
    for status, words in ((0, f"Revoked {made['id']}."), (1, "there is no living key that is this one")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(made["key"].encode() + b"\n")))
        done = ran("keys", "revoke", "-", "--data", str(used.data))
        assert (done.status, words in done.out + done.err) == (status, True)
        assert made["key"] not in done.out + done.err


@pytest.mark.req("S-10")
@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "revoke", "{secret}"),
        ("keys", "set", "{secret}", "--budget", "1"),
        ("keys", "revoke", _NO_KEY, "{secret}"),
        ("provider-keys", "set", "fal", "{secret}", "--workspace", "default"),
        ("webhooks", "secret", "default", "{secret}"),
        ("serve", "{secret}"),
        ("audit", "--database", "postgresql://user:{secret}/x@127.0.0.1:5432/x"),
        ("audit", "--database", "postgresql://user:{secret}@127.0.0.1:port/x"),
        ("audit", "--database", "mysql://user:{secret}@127.0.0.1/x"),
        ("audit", "--database", "postgresql://user:{secret}@127.0.0.1:1/x"),
    ],
    ids=" ".join,
)
def test_secret_among_the_arguments_is_not_repeated(ran: Command, used: Server, arguments: tuple[str, ...]) -> None:
    """A secret that was written where it does not belong is in the shell's history; it is not in what we print."""
    filled = [argument.format(secret=used.key) for argument in arguments]
    place = () if "--database" in arguments else ("--data", str(used.data))
    done = ran(*filled, *place)
    assert done.status != 0
    assert used.key[:12] not in done.out + done.err
    assert len(done.err) > 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("catalog", "list"), "local/procedural-image-1", id="list"),
        pytest.param(("catalog", "check"), f"{len(_MODELS)} models are in order", id="check"),
        pytest.param(("catalog", "show", "local/procedural-image-1"), "0.004 dollars per megapixel", id="show"),
    ],
)
def test_catalog_is_read_without_a_server(ran: Command, arguments: tuple[str, ...], words: str) -> None:
    """The catalog's commands read the files themselves, in either form."""
    people, scripts = ran(*arguments), ran(*arguments, "--json")
    assert (people.status, scripts.status) == (0, 0)
    assert words in people.out
    assert scripts.document


def test_prices_are_printed_as_a_page(ran: Command) -> None:
    """`catalog prices --markdown` prints a row for each price of the list."""
    rows = ran("catalog", "prices", "--json").document
    page = ran("catalog", "prices", "--markdown").out
    assert page.count("\n| `") == len(rows) > len(_MODELS)


@pytest.mark.req("R-09")
def test_snapshots_are_written_and_removed(ran: Command, tmp_path: Path) -> None:
    """`catalog snapshots` writes one file a model with a schema, and removes what is none any more."""
    old = tmp_path / "local" / "gone.json"
    old.parent.mkdir()
    old.write_text("{}")
    done = ran("catalog", "snapshots", "--output", str(tmp_path))
    assert (done.status, done.out) == (0, f"Wrote {len(_MODELS)} snapshots.\n")
    written = sorted(str(path.relative_to(tmp_path).with_suffix("")) for path in tmp_path.glob("*/*.json"))
    assert written == _MODELS
    assert [name for name in written if name.startswith("local/")] == [
        *(f"local/procedural-{name}-1" for name in ("audio", "image", "text", "video")),
        "local/upscale-1",
    ]


def test_new_database_can_be_made_ahead(ran: Command, tmp_path: Path) -> None:
    """`migrate` makes the database of a new installation, and doing it again changes nothing."""
    data = str(tmp_path / "data")
    first = ran("migrate", "--data", data, "--json")
    assert first.document == {"before": None, "now": HEAD, "servers_stranded": 0}
    assert ran("migrate", "--data", data).out == f"The database is at {HEAD}.\n"
    assert ran("keys", "list", "--data", data).out == "There are no keys.\n"
    assert ran("workspaces", "list", "--data", data).out == "There are no workspaces.\n"


_MISTAKES: Final = [
    pytest.param(("audit", "--data", "{new}"), "there is no database at", id="no database"),
    pytest.param(("workspaces", "list", "--data", "{new}"), "`fairlead migrate` makes it", id="no database to list"),
    pytest.param(("audit", "--database", "mysql://x/y"), "sqlite:///", id="another database"),
    pytest.param(("audit", "--database", "nonsense"), "sqlite:///", id="no database's address"),
    pytest.param(("audit", "--database", "postgresql://x@127.0.0.1:1/x"), "cannot be used", id="nobody there"),
    pytest.param(("ledger", "show", "nobody", "--data", "{data}"), "no workspace nobody", id="unknown workspace"),
    pytest.param(("keys", "create", "nobody", "--data", "{data}"), "no workspace nobody", id="a key for nobody"),
    pytest.param(("workspaces", "credit", "nobody", "1", "--data", "{data}"), "no workspace nobody", id="pays nobody"),
    pytest.param(("workspaces", "change", "nobody", "--cap", "1", "--data", "{data}"), "no workspace", id="changes"),
    pytest.param(("workspaces", "create", "default", "--data", "{data}"), "exists already", id="a name twice"),
    pytest.param(("workspaces", "credit", "default", "much", "--data", "{data}"), "'much'", id="no amount"),
    pytest.param(
        ("workspaces", "credit", "default", "0.000000001", "--data", "{data}"), "eight decimals", id="too fine"
    ),
    pytest.param(("workspaces", "credit", "default", "9" * 30, "--data", "{data}"), "9999", id="too much"),
    pytest.param(("workspaces", "create", "x", "--cap", "NaN", "--data", "{data}"), "'NaN'", id="a cap of nothing"),
    pytest.param(("keys", "revoke", _NO_KEY, "--data", "{data}"), "no living key", id="unknown key"),
    pytest.param(("keys", "set", _NO_KEY, "--budget", "1", "--data", "{data}"), "no living key", id="no key to set"),
    pytest.param(("keys", "create", "default", "--budget", "x", "--data", "{data}"), "'x'", id="no budget"),
    pytest.param(("runs", "show", "nothing", "--data", "{data}"), "no run with the id nothing", id="unknown run"),
    pytest.param(("usage", "--by", "week", "--data", "{data}"), "day, model, key", id="no group"),
    pytest.param(("usage", "--from", "2026-02-30", "--data", "{data}"), "such as 2026-01-31", id="no date"),
    pytest.param(("ledger", "export", "-o", "{file}/x", "--data", "{data}"), "cannot be written", id="no folder"),
    pytest.param(("catalog", "show", "local/nothing"), "no model local/nothing", id="unknown model"),
    pytest.param(("catalog", "check", "--catalog", "{bad}"), "bad.toml:2:", id="a bad file"),
    pytest.param(("migrate", "--data", "{file}"), "cannot be used", id="a data directory that is a file"),
    pytest.param(("serve", "--data", "{file}", "--port", "0"), "cannot be used", id="a server in a file"),
    pytest.param(("serve", "--data", "{new}", "--port", "{port}"), "cannot listen on 127.0.0.1:", id="a taken port"),
    pytest.param(
        ("serve", "--data", "{new}", "--host", "no-such-host.invalid", "--port", "0"),
        "cannot listen on no-such-host.invalid:0: Name or service not known",
        id="a host that is none",
    ),
]


@pytest.mark.parametrize(("arguments", "words"), _MISTAKES)
def test_mistake_is_told_in_one_line(
    used: Server, ran: Command, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    """What an operator can mend is said in one line on standard error, with exit status 1 and nothing printed."""
    (tmp_path / "file").write_text("")
    (tmp_path / "bad" / "models").mkdir(parents=True)
    (tmp_path / "bad" / "models" / "bad.toml").write_text('id = "a/b"\ntitel = "x"\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = ran(
            *(
                argument.format(
                    new=tmp_path / "new",
                    data=used.data,
                    bad=tmp_path / "bad",
                    file=tmp_path / "file",
                    port=taken.getsockname()[1],
                )
                for argument in arguments
            )
        )
    assert (told.status, told.out) == (1, "")
    assert words in told.err
    assert told.err.count("\n") == 1
    assert re.match(r"(fairlead|Error): ", told.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("serve", "--port", "65536"),
        ("serve", "--prot", "1"),
        ("workspaces", "create"),
        ("workspaces", "create", "x", "--billing", "never"),
        ("workspaces", "change", "default", "--gate", "router=maybe"),
        ("workspaces", "change", "default", "--in-flight-limit", "-2"),
        ("ledger", "show", "--limit", "0"),
        ("keys", "create", "default", "extra"),
    ],
    ids=" ".join,
)
def test_misspelt_command_is_a_usage_error(ran: Command, arguments: tuple[str, ...]) -> None:
    """What a command does not know is a usage error with status 2, and nothing is done."""
    told = ran(*arguments)
    assert (told.status, told.out) == (2, "")
    assert "Error: " in told.err


def test_malformed_setting_is_named(ran: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that cannot be read is named."""
    monkeypatch.setenv("FAIRLEAD_DEADLINE_SECONDS", "soon")
    told = ran("doctor")
    assert (told.status, told.out) == (1, "")
    assert told.err.startswith("fairlead: FAIRLEAD_DEADLINE_SECONDS: ")


@pytest.mark.single_server("it starts a server with an SQLite file again")
def test_files_of_a_first_start_are_private(tmp_path: Path) -> None:
    """The data directory is its owner's alone; so is the file with the first key, which is shown once."""
    with serving(tmp_path / "data", arguments=("--no-local-partner",)) as server:
        assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
        assert stat.S_IMODE((server.data / "first-key").stat().st_mode) == 0o600
        assert (server.data / "first-key").read_text() == server.key + "\n"
        first = server.key
    done = _started_and_stopped(tmp_path / "data")
    assert json.loads(done)["first_key"] is None
    assert (tmp_path / "data" / "first-key").read_text() == first + "\n"


def _started_and_stopped(data: Path, *arguments: str, by: int = signal.SIGTERM) -> str:
    """Start a server, stop it when it is ready, assert that it ends well, and return what it printed."""
    command = [*COMMAND, "serve", "--data", str(data), "--port", "0", "--no-local-partner", *(arguments or ("--json",))]
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment()
        ) as process,
        kill_at_last(process),
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not arguments:
            assert httpx.get(json.loads(line)["url"] + "/healthz").status_code == 200
        else:
            line += process.stdout.readline()
        process.send_signal(by)
        assert process.wait(30) in ((0,) if by == signal.SIGTERM else (0, 130))
        return line + process.stdout.read()


def test_server_stopped_as_soon_as_it_is_ready_ends_well(tmp_path: Path) -> None:
    """Anyone who has read that it is ready may stop it in the same moment: it ends in good order."""
    command = [*COMMAND, "serve", "--data", str(tmp_path / "data"), "--port", "0", "--no-local-partner", "--json"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()) as process,
        kill_at_last(process),
    ):
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_ctrl_c_ends_a_server_well(tmp_path: Path) -> None:
    """SIGINT ends a server well; without --json it says in words where it listens and which key it made."""
    said = _started_and_stopped(tmp_path / "data", "--host", "127.0.0.1", by=signal.SIGINT)
    key = (tmp_path / "data" / "first-key").read_text().strip()
    assert re.match(rf"Fairlead {re.escape(fairlead.__version__)} listens on http://127\.0\.0\.1:\d+\n", said)
    assert key in said


def test_second_server_on_a_data_directory_is_refused(used: Server) -> None:
    """A second server on the same directory is refused; the first goes on."""
    with pytest.raises(ServerFailedError, match=r"exit status 1:[\s\S]*another server uses the data directory"):
        Server(used.data)
    assert used.client.get("/healthz").status_code == 200
