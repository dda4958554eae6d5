"""What `fairlead workflow` does. It is apart from the options, because the engine takes long to load."""

import asyncio
import difflib
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from fairlead.cli.output import print_json, print_rows, print_table, show_value
from fairlead.domain.jobs.events import (
    Cached,
    Event,
    Executing,
    Failed,
    Failure,
    Finished,
    Interrupted,
    Place,
    Progress,
    Stopped,
)
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.documents import DOCUMENT_BYTES_MAX, Document, read_document
from fairlead.engine.graph.executor import Executor, Outcome, Work
from fairlead.engine.graph.faults import Fault, NodeFaults
from fairlead.engine.graph.graph import BadGraphError, Graph
from fairlead.engine.graph.validation import InvalidGraphError, Validated, validate
from fairlead.engine.nodes.families import own_nodes
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.node_context import Stop, looking_context
from fairlead.engine.nodes.registry import Registry

_CACHE_BYTES: Final = 256 * 2**20
_PREVIEWS: Final = "previews"
_SHOWN_TEXT_MAX: Final = 200
_LINE_LENGTH_MAX: Final = 78
_ERASE_LINE: Final = "\r\x1b[K"


def run(file: Path, inputs: str | None, output: Path, targets: Sequence[str], *, as_json: bool) -> None:
    """Run a workflow and print its outcome."""
    document = _read(file)
    folders = _folders(file, inputs, output)
    validated, outcome = asyncio.run(_run(document, folders, targets, is_quiet=as_json))
    if as_json:
        print_json(_as_json(validated, outcome, folders))
    else:
        _print_faults(None, validated.node_faults)
        _print_outcome(validated, outcome, folders)
    if isinstance(outcome.ending, Interrupted):
        sys.exit(130)
    if isinstance(outcome.ending, Failed) or validated.node_faults:
        sys.exit(1)


def check(file: Path, inputs: str | None, targets: Sequence[str], *, as_json: bool) -> None:
    """Print whether a workflow can be run."""
    document = _read(file)
    validated = asyncio.run(_validate(document, own_nodes(), _folders(file, inputs, Path()), targets))
    if as_json:
        print_json({"outputs": validated.outputs, "node_errors": _errors(validated.node_faults)})
    else:
        _print_faults(None, validated.node_faults)
        click.echo(f"{len(validated.graph)} nodes; these outputs can be made: {', '.join(validated.outputs)}")
    if validated.node_faults:
        sys.exit(1)


def nodes(name: str | None, *, as_json: bool) -> None:
    """Print the nodes, or one of them."""
    info = own_nodes().object_info()
    if name is not None and name not in info:
        similar = ", ".join(difflib.get_close_matches(name, info, 3)) or "`fairlead workflow nodes` lists them"
        raise click.ClickException(f"there is no node {name}; {similar}")
    if as_json:
        print_json(info if name is None else {name: info[name]})
    elif name is None:
        rows = sorted(info.values(), key=lambda row: (row["category"], row["name"]))
        print_rows(rows, ("name", "display_name", "category"), as_json=False, empty="There are none.")
    else:
        _print_node(info[name])


def _read(file: Path) -> Document:
    if file.stat().st_size > DOCUMENT_BYTES_MAX:
        raise click.ClickException(f"{file} is larger than a workflow may be")
    try:
        return read_document(file.read_bytes())
    except BadGraphError as error:
        raise click.ClickException(f"{file}: {error}") from error
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from error


def _folders(file: Path, inputs: str | None, output: Path) -> Folders:
    folder = file.parent if inputs is None else Path(inputs)
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder}")
    return Folders(folder, output, output / _PREVIEWS)


async def _validate(document: Document, registry: Registry, folders: Folders, targets: Sequence[str]) -> Validated:
    try:
        return await validate(document.graph, registry, targets or None, looking_context(folders))
    except InvalidGraphError as error:
        _print_faults(error.fault, error.node_faults)
        sys.exit(1)


async def _run(
    document: Document, folders: Folders, targets: Sequence[str], *, is_quiet: bool
) -> tuple[Validated, Outcome]:
    registry, stop = own_nodes(), Stop()
    validated = await _validate(document, registry, folders, targets)
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        """The first Ctrl-C asks the execution to stop; the next one is not caught."""
        loop.remove_signal_handler(signal.SIGINT)
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    progress = _NodeProgress(validated.graph, is_quiet=is_quiet)
    executor = Executor(registry, ResultCache(_CACHE_BYTES))
    try:
        work = Work(validated.graph, validated.outputs, folders, document.hidden)
        return validated, await executor.run(work, progress.note, stop)
    finally:
        progress.clear()
        executor.close()


def _print_faults(fault: Fault | None, node_faults: Mapping[str, NodeFaults]) -> None:
    if fault is not None:
        click.echo(_plain(f"fairlead: {fault.message} {fault.details}".rstrip()), err=True)
    for node, found in node_faults.items():
        for one in found.faults:
            said = f"{one.message}: {one.details}" if one.details else one.message
            click.echo(_plain(f"node {node} ({found.class_type}): {said}"), err=True)


def _print_outcome(validated: Validated, outcome: Outcome, folders: Folders) -> None:
    if isinstance(outcome.ending, Failed):
        _print_failure(outcome.ending.failure)
    elif isinstance(outcome.ending, Interrupted):
        click.echo("fairlead: interrupted", err=True)
    for node, words in _texts(outcome):
        click.echo(f"node {node} shows: {words}")
    rows = [
        [row["node"] or "-", _class_of(validated, row["node"]), row["file"], str(row["bytes"])]
        for row in _files(outcome, folders)
    ]
    if rows:
        print_table(rows, ("node", "class", "file", "bytes"))
    else:
        click.echo("Nothing was written.")


def _print_failure(failure: Failure) -> None:
    message = _plain(failure.message.rstrip().rstrip("."))
    node = failure.place.real_node
    click.echo(f"fairlead: node {node} ({failure.node_type}): {failure.exception_type}: {message}", err=True)
    for name, values in failure.current_inputs.items():
        click.echo(_plain(f"  {name} = {', '.join(str(value) for value in values)}"), err=True)


def _class_of(validated: Validated, node: str | None) -> str:
    found = None if node is None else validated.graph.get(node)
    return show_value(found and found.class_type)


def _files(outcome: Outcome, folders: Folders) -> list[dict[str, Any]]:
    """The files that were written, with the node that has shown each, if one has."""
    makers = {
        (item.get("subfolder"), item["filename"], item.get("type")): outcome.places[node].real_node
        for node, ui in outcome.ui.items()
        for values in ui.values()
        for item in (values if isinstance(values, list) else [])
        if isinstance(item, dict) and "filename" in item
    }
    return [
        {
            "node": makers.get((saved.subfolder, saved.filename, saved.type)),
            "file": os.path.relpath(path),
            "bytes": path.stat().st_size,
        }
        for saved, path in folders.new_files()
    ]


def _texts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    for node, ui in outcome.ui.items():
        for value in ui.get("text", ()):
            words = str(value)
            yield node, _plain(words if len(words) <= _SHOWN_TEXT_MAX else f"{words[:_SHOWN_TEXT_MAX]}…")


def _plain(words: str) -> str:
    """Text of a workflow, without control sequences for a terminal."""
    return "".join(character if character.isprintable() or character == "\n" else "�" for character in words)


def _errors(node_faults: Mapping[str, NodeFaults]) -> dict[str, object]:
    return {node: found.as_dict() for node, found in node_faults.items()}


def _as_json(validated: Validated, outcome: Outcome, folders: Folders) -> dict[str, object]:
    document: dict[str, object] = {
        "status": type(outcome.ending).__name__.lower(),
        "outputs": outcome.ui,
        "files": _files(outcome, folders),
        "node_errors": _errors(validated.node_faults),
    }
    if isinstance(outcome.ending, Failed):
        failure = outcome.ending.failure
        document["error"] = {
            "node": failure.place.node,
            "class": failure.node_type,
            "type": failure.exception_type,
            "message": failure.message,
            "inputs": failure.current_inputs,
            "traceback": failure.traceback,
        }
    return document


def _print_node(described: Mapping[str, Any]) -> None:
    click.echo(f"{described['name']}: {described['display_name']} ({described['category']})")
    rows = [
        [name, _type(spec[0]), section, _options(spec[1] if len(spec) > 1 else {})]
        for section in ("required", "optional")
        for name, spec in described["input"].get(section, {}).items()
    ]
    if rows:
        print_table(rows, ("input", "type", "is", "options"))
    outputs = zip(described["output_name"], described["output"], described["output_is_list"], strict=True)
    for name, type_, is_list in outputs:
        click.echo(f"output  {name}  {type_}{' list' if is_list else ''}")


def _type(type_: object) -> str:
    return type_ if isinstance(type_, str) else f"one of {show_value(type_)}"


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name} {show_value(options[name])}" for name in ("default", "min", "max", "options") if name in options
    )


class _NodeProgress:
    """Shows events on standard error: on one changing line at a terminal, else on a line for each node."""

    def __init__(self, graph: Graph, *, is_quiet: bool) -> None:
        self._graph = graph
        self._is_quiet = is_quiet
        self._is_live = sys.stderr.isatty()
        self._started: dict[str, float] = {}
        self._finished = 0

    def note(self, event: Event) -> None:
        """Show an event."""
        if self._is_quiet:
            return
        match event:
            case Cached(nodes=nodes) if nodes:
                self._say(f"{len(nodes)} nodes are known already")
            case Executing(place=place):
                self._started.setdefault(place.node, time.monotonic())
                self._show(f"{self._finished} done, now {self._name(place)}")
            case Progress(place=place, value=value, most=most) if most > 0:
                self._show(f"{self._finished} done, now {self._name(place)}: {value / most:.0%}")
            case Finished(place=place):
                self._finished += 1
                seconds = time.monotonic() - self._started.pop(place.node, time.monotonic())
                self._say(f"{self._finished:>4}  {self._name(place)}  {seconds:.2f} s")
            case Stopped(place=place, message=message):
                self._say(f"      {self._name(place)} was not executed: {message}")
            case _:
                pass  # the outcome shows how it ends

    def clear(self) -> None:
        """Leave the terminal as it was found."""
        if self._is_live and not self._is_quiet:
            click.echo(_ERASE_LINE, err=True, nl=False)

    def _say(self, line: str) -> None:
        click.echo(f"{_ERASE_LINE if self._is_live else ''}{line}", err=True)

    def _show(self, line: str) -> None:
        """A line that the next one replaces; not printed where lines stay."""
        if self._is_live:
            click.echo(f"{_ERASE_LINE}{line[:_LINE_LENGTH_MAX]}", err=True, nl=False)

    def _name(self, place: Place) -> str:
        node = self._graph.get(place.real_node)
        return f"{node.class_type if node else '?'} ({place.real_node})"
