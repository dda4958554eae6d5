"""One call of a server to an engine host: it checks what the host sends, answers its questions, holds the result."""

import asyncio
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, cast

import msgspec

from fairlead.domain.jobs.events import Ending, Event, Executed, Executing, Finished, Place, ShownValues
from fairlead.engine.hosts.callbacks import (
    CHECK_QUESTIONS,
    JOB_QUESTIONS,
    CheckQuestions,
    DeclinedError,
    HostCallbacks,
)
from fairlead.engine.hosts.document_files import Document
from fairlead.engine.hosts.frames import BadFrameError, FrameTooLargeError
from fairlead.engine.hosts.notes import AnswerFailed, TakeNote
from fairlead.engine.hosts.protocol import (
    Answer,
    Checked,
    Declined,
    Ended,
    Previewed,
    Question,
    Refused,
    Rendered,
    Said,
    Surveyed,
    ToHost,
    Told,
)
from fairlead.engine.hosts.rpc import BadArgumentsError

Result: TypeAlias = Ended | Checked[Document] | Refused | Rendered | Surveyed
_QUESTIONS_MAX: Final = 1_000
_IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png"})
_CLOSE_SECONDS: Final = 10.0
_INTERNAL: Final = "InternalError"
_NO_JSON: Final = (TypeError, ValueError, RecursionError)
_NOT_IN_JSON: Final = "a value that JSON does not have"


class HostCall:
    """One order that a host works on. `callbacks` are None for an order without questions.

    Only an execution sends events; a check may ask for files, and for nothing else.
    `result` is set when the host sends one of the `expected` kinds; it never holds an error.
    """

    def __init__(
        self, expected: tuple[type, ...], callbacks: CheckQuestions | None, scratch: Path, note: TakeNote
    ) -> None:
        self.result: Final[asyncio.Future[Result]] = asyncio.get_running_loop().create_future()
        self.executing: Final[dict[str, Place]] = {}
        """The nodes that have begun and are not through, the latest last."""
        self.executed: Final[list[str]] = []
        self._expected = expected
        self._is_execution = Ended in expected
        self._questions = JOB_QUESTIONS if self._is_execution else CHECK_QUESTIONS
        self._callbacks = callbacks
        self._listener = cast("HostCallbacks", callbacks) if self._is_execution else None
        self._scratch = scratch
        self._note = note
        self._answering: set[asyncio.Task[None]] = set()
        self._told: list[Event] = []

    def hear(self, record: object, reply: Callable[[ToHost | Answer[object]], None]) -> None:
        """Take in what the host says. BadFrameError for what it may not say."""
        if self.result.done():
            raise BadFrameError("something about an order that has ended")
        match record:
            case Told(events=events) if self._is_execution:
                self._hear_events(events)
            case Question(method=method) if method in self._questions:
                self._hear_question(record, reply)
            case Previewed() | Said() if self._is_execution:
                self._hear_shown(record)
            case Ended() | Checked() | Refused() | Rendered() | Surveyed() if isinstance(record, self._expected):
                if isinstance(record, Ended):
                    _check_json(record.ending)
                self.flush()
                self.result.set_result(record)
            case _:
                raise BadFrameError(f"{type(record).__name__} about an order that is of another kind")

    def flush(self) -> None:
        """Pass on the events that came together."""
        told, self._told = self._told, []
        if told and self._listener is not None:
            self._listener.tell(told)

    async def caught_up(self) -> None:
        """Return when the callbacks can take more events."""
        if self._listener is not None:
            await self._listener.caught_up()

    def abandon(self) -> None:
        """Nobody wants the result any more: decline every question from now on."""
        self._callbacks = self._listener = None
        for task in self._answering:
            task.cancel()

    async def close(self) -> None:
        """Answer nothing more; returns when no answer is being made."""
        self.abandon()
        if self._answering:
            await asyncio.wait(self._answering, timeout=_CLOSE_SECONDS)

    def _hear_events(self, events: Sequence[Event]) -> None:
        for event in events:
            told = event
            match event:
                case Executing(place=place):
                    self.executing.pop(place.node, None)
                    self.executing[place.node] = place
                case Finished(place=place):
                    self.executing.pop(place.node, None)
                    self.executed.append(place.node)
                case Executed(ui=ui):
                    told = msgspec.structs.replace(event, ui=_shown(ui))
                case _ if isinstance(event, Ending):
                    raise BadFrameError("an ending among the events")
                case _:
                    pass
            self._told.append(told)

    def _hear_shown(self, shown: Previewed | Said) -> None:
        if isinstance(shown, Previewed) and shown.image_type not in _IMAGE_TYPES:
            raise BadFrameError("a preview of an unknown type")
        self.flush()
        if self._listener is not None:
            self._listener.show(shown)

    # Questions.

    def _hear_question(self, question: Question[msgspec.Raw], reply: Callable[[ToHost | Answer[object]], None]) -> None:
        if len(self._answering) >= _QUESTIONS_MAX:
            raise BadFrameError(f"more than {_QUESTIONS_MAX} questions at once")
        task = asyncio.ensure_future(self._answer(question, reply))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, question: Question[msgspec.Raw], reply: Callable[[ToHost | Answer[object]], None]) -> None:
        try:
            answer: Answer[object] | Declined = await self._answered(question)
        except DeclinedError as error:
            answer = Declined(question.question, error.exception_type, error.message)
        except BadArgumentsError as error:
            answer = Declined(question.question, "ValueError", str(error))
        except Exception as error:  # noqa: BLE001 -- says nothing to the node, and everything to who takes note
            self._note(AnswerFailed(question.method, error))
            answer = Declined(question.question, _INTERNAL, "the server could not answer what the node asked")
        try:
            reply(answer)
        except FrameTooLargeError as error:
            reply(Declined(question.question, "ValueError", str(error)))

    async def _answered(self, question: Question[msgspec.Raw]) -> Answer[object]:
        if self._callbacks is None:
            raise DeclinedError(_INTERNAL, "nobody answers questions any more")
        method = self._questions[question.method]
        return Answer(question.question, await method.call(self._callbacks, question.arguments, self._own_file))

    def _own_file(self, path: Path) -> Path:
        """The path of a file the host has written: right in its folder, and no link to anything else."""
        try:
            is_file = path.parent == self._scratch and stat.S_ISREG(path.lstat().st_mode)
        except (OSError, ValueError):
            is_file = False
        if not is_file:
            raise DeclinedError("ValueError", "only a file that was written for the job can be kept")
        return path


def _shown(ui: Mapping[str, object]) -> ShownValues:
    try:
        return ShownValues.encoded(ui)
    except _NO_JSON as error:
        raise BadFrameError(_NOT_IN_JSON) from error


def _check_json(value: object) -> None:
    """Refuse what only MessagePack can hold: these values are later read as JSON."""
    try:
        msgspec.json.encode(value)
    except _NO_JSON as error:
        raise BadFrameError(_NOT_IN_JSON) from error
