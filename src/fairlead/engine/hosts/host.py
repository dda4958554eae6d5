"""What a host does for its server: it checks workflows, executes them, lists their classes, and renders pictures."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jiter
import msgspec

from fairlead.documents.fitting import fit
from fairlead.domain.jobs.events import Ending, Failed, Place
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.documents import read_document
from fairlead.engine.graph.executor import Executor, Work
from fairlead.engine.graph.failures import failure, shown_text
from fairlead.engine.graph.faults import Fault, exception_during_validation, missing_node_type
from fairlead.engine.graph.graph import BadGraphError, Graph, read_graph, write_graph
from fairlead.engine.graph.validation import InvalidGraphError, validate
from fairlead.engine.hosts import rendering
from fairlead.engine.hosts.classes import classes_of
from fairlead.engine.hosts.document_files import Document, hand_over, take
from fairlead.engine.hosts.event_sender import EventSender
from fairlead.engine.hosts.loading import Loaded
from fairlead.engine.hosts.plain import WRITTEN, plain
from fairlead.engine.hosts.server import FilesClient, JobConnection, OutsideClient, Scratch
from fairlead.engine.hosts.service import FRAME_BYTES_MAX, Checked, Ended, Refused, Render, Rendered
from fairlead.engine.hosts.template import open_descriptors
from fairlead.engine.nodes.node_context import looking_context

_NOBODY: Final = Place("", "")
_TOLD_BYTES_MAX: Final = 28 * 1024
"""The most bytes about a workflow, and again about its nodes: both are in one answer."""
_INVALID_PROMPT: Final = "invalid_prompt"


class Host:
    """The classes, the cache and the folder that all calls of a host share; implements `service.HostService`."""

    def __init__(self, folder: str, cache: int, loaded: Loaded) -> None:
        self._loaded = loaded
        self._folder = Path(folder)
        self._scratch = Scratch(self._folder)
        self._executor = Executor(loaded.registry, ResultCache(cache), is_spare=True)
        self._one_at_a_time = asyncio.Lock()

    async def ping(self) -> None:
        """Give a sign of life."""

    async def execute(
        self, workflow: Document, outputs: Sequence[str], hidden: Document, connection: JobConnection
    ) -> Ended:
        """Execute a workflow; always in the same event loop."""
        async with self._one_at_a_time:
            try:
                graph = read_graph(jiter.from_json(take(workflow, self._folder)))
                self._refuse_unknown(graph, outputs)
                sender = EventSender(graph, connection)
                files, outside = FilesClient(connection, self._scratch), OutsideClient(connection)
                work = Work(graph, outputs, files, jiter.from_json(take(hidden, self._folder)), outside)
                outcome = await self._executor.run(work, sender.emit, connection.stop)
                connection.begin_to_end()
                sender.flush()
                return _encode_ending(sender.fault or outcome.ending)
            except Exception as error:  # noqa: BLE001 -- any error ends this job, and not the host
                return _encode_ending(Failed(failure(_NOBODY, "", error, {}, [])))

    def _refuse_unknown(self, graph: Graph, outputs: Sequence[str]) -> None:
        """The workflow was checked by another process, whose packs and catalog may have been older."""
        for node in graph.values():
            if node.class_type not in self._loaded.registry:
                raise InvalidGraphError(missing_node_type(node.id, node.class_type, node.title or node.id))
        for output in outputs:
            if output not in graph:
                raise InvalidGraphError(Fault(_INVALID_PROMPT, f"There is no node {output[:100]!r}."))

    async def check(
        self, workflow: Document, targets: Sequence[str] | None, connection: JobConnection
    ) -> Checked[Document] | Refused:
        """Validate a workflow."""
        try:
            graph = read_document(take(workflow, self._folder)).graph
            context = looking_context(FilesClient(connection, self._scratch))
            validated = await validate(graph, self._loaded.registry, targets, context)
            return Checked(
                hand_over(_encode_graph(validated.graph), self._folder),
                validated.outputs,
                len(validated.graph),
                sum(node.class_type in self._loaded.partner_nodes for node in validated.graph.values()),
                _encode_faults({node: found.as_dict() for node, found in validated.node_faults.items()}),
                sorted({node.class_type for node in validated.graph.values() if node.class_type is not None}),
            )
        except InvalidGraphError as error:
            faults = {node: found.as_dict() for node, found in error.node_faults.items()}
            return Refused(_encode_faults(error.fault.as_dict()), _encode_faults(faults))
        except BadGraphError as error:
            return _refuse(Fault(_INVALID_PROMPT, "The workflow cannot be read.", str(error)))
        except Exception as error:  # noqa: BLE001 -- lack of memory, or an unforeseen class: a fault of the workflow
            words = f"{type(error).__name__}: {shown_text(error)}"
            return _refuse(exception_during_validation(ValueError(words), is_output=True))
        finally:
            connection.stop.set()

    async def survey(self, workflow: Document) -> Sequence[str]:
        """The classes a workflow names; faults of the workflow are left to its check."""
        return sorted(classes_of(take(workflow, self._folder)))

    async def render(self, picture: Render) -> Rendered:
        """Make a picture."""
        return rendering.render(picture)


def _refuse(fault: Fault) -> Refused:
    return Refused(_encode_faults(fault.as_dict()))


def _encode_ending(ending: Ending) -> Ended:
    """The end of a job as it can be sent."""
    try:
        msgspec.msgpack.encode(ending)
        return Ended(ending, open_descriptors())
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        return Ended(Failed(failure(_NOBODY, "", error, {}, [])), open_descriptors())


def _encode_graph(graph: Graph) -> bytes:
    """A graph as JSON. BadGraphError for a constant that was read as NaN or an infinity."""
    try:
        text = json.dumps(write_graph(graph), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        raise BadGraphError("a number in it is infinite, or none at all") from None
    return text.encode()


def _encode_faults(faults: dict[str, Any]) -> bytes:
    """The faults as JSON within a bound, as they repeat values of the workflow and messages of nodes."""
    return fit(plain(faults, FRAME_BYTES_MAX // 2, WRITTEN), _TOLD_BYTES_MAX)
