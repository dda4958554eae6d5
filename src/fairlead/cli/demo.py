"""`fairlead demo`: starts a server of its own, runs everything it offers, and shows the results."""

import errno
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

import click
import msgspec

import fairlead
from fairlead.cli import demonstrated_workflows, demonstration
from fairlead.cli.demonstration import Demonstration, Step

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0
_COLUMNS: Final = (("what ran", 29), ("status", 6), ("seconds", 7), ("credits", 7), ("what came of it", 0))
_TRY: Final = """\
curl -sS {url}/v2/models/local/procedural-text-1 \\
    -H "X-API-Key: $(cat {key_file})" -H "Content-Type: application/json" \\
    -d '{{"prompt": "a lighthouse in the fog"}}'"""

_LATER: Final = """
To see all of this in the console, start the server again (`fairlead serve --data {data}`),
open its address in a browser, choose Runs or Jobs, and sign in with the key in {operator_key}."""


@click.command()
@click.option("--output", metavar="DIR", default="demo-output", show_default=True, help="Where the results go.")
@click.option("--photo", metavar="PATH", help="A picture of yours to edit (PNG, JPEG or WebP), instead of ours.")
@click.option("--once", is_flag=True, help="Stop when everything was shown, instead of serving until Ctrl-C.")
@click.option("--data", metavar="DIR", default="demo-data", show_default=True, help="The server's data directory.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="The server's port; a free one when it is taken.",
)
def demo(output: str, photo: str | None, once: bool, data: str, port: int) -> None:
    """Run every local model and two workflows; show what they made, what it cost, and that the books are right.

    It starts a server with a data directory of its own and ignores FAIRLEAD_… settings.
    """
    picture = None if photo is None else demonstration.read_photo(Path(photo))
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be used for the results: {error.strerror}") from error
    # The server must end with this process: each of these signals is handled like Ctrl-C.
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    with _server(Path(data), port, folder / "server.log") as server:
        shown = Demonstration(server.url, server.key, Path(data), folder, picture)
        click.echo(f"Fairlead {fairlead.__version__} answers at {server.url} (data in {data}, log in {server.log}).\n")
        _show(shown)
        if once:
            click.echo(_LATER.format(data=data, operator_key=_operator_key(server)))
        else:
            _serve_on(server)


class _Server(msgspec.Struct, frozen=True):
    """A server that was started for the demonstration."""

    process: subprocess.Popen[str]
    url: str
    key: str
    key_file: Path
    log: Path


def _show(shown: Demonstration) -> None:
    """Take every step, printing each as it ends, and then their ledger entries."""
    _print_row([name for name, _ in _COLUMNS])
    for step in chain(demonstration.steps(shown), demonstrated_workflows.workflow_steps(shown)):
        _print_row(_cells(step))
    click.echo("\nThe refused call, as its caller sees it; it left no trace in the books:")
    click.echo(f"  POST {shown.refusal.path}  {shown.refusal.sent}")
    click.echo("\n".join(f"  {line}" for line in demonstration.spell_out(shown.refusal)))
    click.echo("\nThe ledger holds the most a run can cost before it starts, and posts what it did cost when it ends:")
    for line in demonstration.ledger_lines(shown):
        click.echo(f"  {line}")
    click.echo(f"\n{demonstration.prove_books(shown)}")


def _cells(step: Step) -> list[str]:
    return [step.name, str(step.status), f"{step.seconds:.2f}", step.credits or "-", step.result]


def _print_row(cells: list[str]) -> None:
    padded = [
        cell.rjust(width) if name in ("seconds", "credits") else cell.ljust(width)
        for cell, (name, width) in zip(cells, _COLUMNS, strict=True)
    ]
    click.echo("  ".join(padded).rstrip())


def _serve_on(server: _Server) -> None:
    """Keep the server running until Ctrl-C, so that it can be tried."""
    click.echo(f"\nStill serving at {server.url} until Ctrl-C; the key is in {server.key_file}. Try:\n")
    click.echo("  " + _TRY.format(url=server.url, key_file=server.key_file))
    click.echo(f"\nThe console at {server.url} shows all of this: open it in a browser, choose Runs or Jobs,")
    click.echo(f"and sign in with the key in {_operator_key(server)}.")
    try:
        code = server.process.wait()
    except KeyboardInterrupt:
        click.echo("\nStopped.")
        return
    raise click.ClickException(f"the server ended with status {code}; its log is {server.log}")


def _operator_key(server: _Server) -> Path:
    return server.key_file.with_name("first-operator-key")


@contextmanager
def _server(data: Path, port: int, log: Path) -> Iterator[_Server]:
    """Start a server and stop it again, whatever happens in between."""
    command = [sys.executable, "-m", "fairlead", "serve", "--json", "--data", str(data), "--port", str(_free(port))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(  # noqa: S603 -- our own interpreter with our own module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**environment, "FAIRLEAD_LOG_LEVEL": "warning"},
            start_new_session=True,  # Ctrl-C is meant for us; we stop it when we are done
        )
    try:
        url = _address(process, log)
        key_file = data / "first-key"
        yield _Server(process, url, _key(key_file), key_file, log)
    finally:
        _stop(process)


def _free(port: int) -> int:
    """The requested port, or 0 (any) when it is in use."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        return 0 if error.errno == errno.EADDRINUSE else port
    return port


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """Wait for the line a server prints when it is ready."""
    assert process.stdout is not None  # noqa: S101 -- the pipe is made above
    ready, _, _ = select.select([process.stdout], [], [], _START_SECONDS)
    line = process.stdout.readline() if ready else ""
    if not line:
        words = log.read_text("utf-8", "replace").strip().splitlines()
        why = words[-1] if words else f"it was not ready within {_START_SECONDS:g} seconds"
        raise click.ClickException(
            f"the server did not start: {why.removeprefix('Error: ').removeprefix('fairlead: ')}"
        )
    return str(msgspec.json.decode(line)["url"])


def _key(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except OSError as error:
        reason = f"there is no key in {file} ({error.strerror}); remove {file.parent} to start again"
        raise click.ClickException(reason) from error


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
