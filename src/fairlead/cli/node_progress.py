"""The progress of a workflow on standard error: one line that changes where a person looks, else a line a node."""

import sys
import time
from typing import Final

import click

from fairlead.domain.jobs.events import Cached, Event, Executing, Finished, Place, Progress, Stopped
from fairlead.engine.graph.graph import Graph

_LINE_LENGTH_MAX: Final = 78
_ERASE_LINE: Final = "\r\x1b[K"


class NodeProgress:
    """Says what events tell, unless it is to be quiet."""

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
                pass  # how it ends is shown by the outcome

    def clear(self) -> None:
        """Leave the terminal as it was found."""
        if self._is_live and not self._is_quiet:
            click.echo(_ERASE_LINE, err=True, nl=False)

    def _say(self, line: str) -> None:
        click.echo(f"{_ERASE_LINE if self._is_live else ''}{line}", err=True)

    def _show(self, line: str) -> None:
        """A line that the next one takes the place of; not kept where lines stay."""
        if self._is_live:
            click.echo(f"{_ERASE_LINE}{line[:_LINE_LENGTH_MAX]}", err=True, nl=False)

    def _name(self, place: Place) -> str:
        node = self._graph.get(place.real_node)
        return f"{node.class_type if node else '?'} ({place.real_node})"
