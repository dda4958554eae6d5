"""The orders that a host carries out: check a workflow, execute one, list the classes it names."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any, Final

import jiter

from fairlead.documents.fitting import fitted
from fairlead.domain.jobs.events import Ending, Failed, Place
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.documents import read_document
from fairlead.engine.graph.executor import Executor, Work
from fairlead.engine.graph.failures import failure, shown_text
from fairlead.engine.graph.faults import Fault, exception_during_validation, missing_node_type
from fairlead.engine.graph.graph import BadGraphError, Graph, read_graph, write_graph
from fairlead.engine.graph.validation import InvalidGraphError, validate
from fairlead.engine.hosts.classes import classes_of
from fairlead.engine.hosts.descriptors import open_descriptors
from fairlead.engine.hosts.document_files import Document, hand_over, take
from fairlead.engine.hosts.event_sender import EventSender
from fairlead.engine.hosts.loading import Loaded
from fairlead.engine.hosts.plain import WRITTEN, plain
from fairlead.engine.hosts.protocol import (
    FRAME_BYTES_MAX,
    Check,
    Checked,
    Ended,
    Execute,
    Refused,
    Serve,
    Survey,
    Surveyed,
)
from fairlead.engine.hosts.rpc_client import FilesClient, OutsideClient, Scratch
from fairlead.engine.hosts.rpc_connection import JobConnection, RpcConnection
from fairlead.engine.nodes.node_context import Stop, looking_context

_NOBODY: Final = Place("", "")
_TOLD_BYTES_MAX: Final = 28 * 1024
"""Of what is wrong with a workflow, and again of what is wrong with its nodes: both stand in one answer."""
_INVALID_PROMPT: Final = "invalid_prompt"


class HostService:
    """The classes, the cache and the folder that all jobs of a host share."""

    def __init__(self, order: Serve, loaded: Loaded, connection: RpcConnection) -> None:
        self._loaded = loaded
        self._connection = connection
        self._folder = Path(order.folder)
        self._scratch = Scratch(self._folder)
        self._executor = Executor(loaded.registry, ResultCache(order.cache), is_spare=True)
        self._one_at_a_time = asyncio.Lock()
        self._own = threading.local()

    async def execute(self, order: Execute[Document], stop: Stop) -> None:
        """Execute a workflow and tell its end; always in the same event loop."""
        async with self._one_at_a_time:
            connection = JobConnection(self._connection, order.job, stop)
            try:
                ending = await self._ending(order, connection, stop)
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is the end of this job and not of the host
                ending = Failed(failure(_NOBODY, "", error, {}, []))
            _end(connection, ending)

    async def _ending(self, order: Execute[Document], connection: JobConnection, stop: Stop) -> Ending:
        graph = read_graph(jiter.from_json(take(order.workflow, self._folder)))
        self._refuse_unknown(graph, order)
        sender = EventSender(graph, connection, stop)
        files, outside = FilesClient(connection, self._scratch), OutsideClient(connection)
        work = Work(graph, order.outputs, files, jiter.from_json(take(order.hidden, self._folder)), outside)
        outcome = await self._executor.run(work, sender.emit, stop)
        sender.flush(is_last=True)
        return sender.fault or outcome.ending

    def _refuse_unknown(self, graph: Graph, order: Execute[Document]) -> None:
        """The workflow was checked by another process, whose packs and catalog may have been older."""
        for node in graph.values():
            if node.class_type not in self._loaded.registry:
                raise InvalidGraphError(missing_node_type(node.id, node.class_type, node.title or node.id))
        for output in order.outputs:
            if output not in graph:
                raise InvalidGraphError(Fault(_INVALID_PROMPT, f"There is no node {output[:100]!r}."))

    def check(self, order: Check[Document]) -> Checked[Document] | Refused:
        """Validate a workflow, in an event loop of the calling thread."""
        stop = Stop()
        connection = JobConnection(self._connection, order.job, stop)
        try:
            return self._runner().run(self._checked(order, connection))
        except InvalidGraphError as error:
            faults = {node: found.as_dict() for node, found in error.node_faults.items()}
            return Refused(order.job, _told(error.fault.as_dict()), _told(faults))
        except BadGraphError as error:
            return _refused(order, Fault(_INVALID_PROMPT, "The workflow cannot be read.", str(error)))
        except Exception as error:  # noqa: BLE001 -- out of memory, or a class no check has foreseen: it is the workflow's
            words = f"{type(error).__name__}: {shown_text(error)}"
            return _refused(order, exception_during_validation(ValueError(words), is_output=True))
        finally:
            stop.set()

    async def _checked(self, order: Check[Document], connection: JobConnection) -> Checked[Document]:
        graph = read_document(take(order.workflow, self._folder)).graph
        context = looking_context(FilesClient(connection, self._scratch))
        validated = await validate(graph, self._loaded.registry, order.targets, context)
        faults = {node: found.as_dict() for node, found in validated.node_faults.items()}
        return Checked(
            order.job,
            hand_over(_written(validated.graph), self._folder),
            validated.outputs,
            len(validated.graph),
            sum(node.class_type in self._loaded.partner_nodes for node in validated.graph.values()),
            _told(faults),
        )

    def survey(self, order: Survey[Document]) -> Surveyed:
        """The classes a workflow names; what is wrong with it is for a check to say."""
        return Surveyed(order.job, sorted(classes_of(take(order.workflow, self._folder))))

    def _runner(self) -> asyncio.Runner:
        """An event loop for each thread that checks: making one takes longer than most checks."""
        if not hasattr(self._own, "runner"):
            self._own.runner = asyncio.Runner()
        runner: asyncio.Runner = self._own.runner
        return runner


def _refused(order: Check[Document], fault: Fault) -> Refused:
    return Refused(order.job, _told(fault.as_dict()))


def _end(connection: JobConnection, ending: Ending) -> None:
    try:
        connection.end(Ended(connection.job, ending, open_descriptors()))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        connection.end(Ended(connection.job, Failed(failure(_NOBODY, "", error, {}, [])), open_descriptors()))


def _written(graph: Graph) -> bytes:
    """A graph as JSON. BadGraphError for a constant that was read as a number that is none."""
    try:
        text = json.dumps(write_graph(graph), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        raise BadGraphError("a number in it is infinite, or none at all") from None
    return text.encode()


def _told(faults: dict[str, Any]) -> bytes:
    """What is wrong, as JSON within a bound: it repeats values of the workflow, and words of nodes."""
    return fitted(plain(faults, FRAME_BYTES_MAX // 2, WRITTEN), _TOLD_BYTES_MAX)
