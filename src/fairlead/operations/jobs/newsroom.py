"""News of jobs, from where it happens to everybody who watches a workspace here. Live: nothing of it is kept (C-08).

Publishers never wait for subscribers. Everything happens in one thread, that of the event loop.
"""

import asyncio
import enum
import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from fairlead.domain.faults import ConcurrencyLimitExceeded, FaultError
from fairlead.domain.jobs.events import (
    Cached,
    Executed,
    Executing,
    Failed,
    Finished,
    Interrupted,
    Place,
    Progress,
    ShownValues,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.domain.jobs.news import News, Notice, Preview, ProgressText, QueueChanged

_MIB: Final = 2**20
_JOBS_MAX: Final = 10_000
"""How many jobs under way are remembered; more at one server would be jobs whose end nobody told."""
_RUNNING_MAX: Final = 8
"""How many running nodes of a job are named beside the one a message is about: a bound on every message."""
_SMALL: Final = 512
"""What a piece of news weighs that has nothing of any size in it."""
_NODE: Final = 300
"""What the progress of one node weighs."""
_GATHER_SECONDS: Final = 0.001
"""How long news wait for others that come right after some were told: a small job is told in three writes and not in
six. The end of a job never waits."""
_encode: Final = msgspec.json.Encoder().encode
_LiveKey: TypeAlias = tuple[type[object], str | None, str]
_Key: TypeAlias = int | _LiveKey


class NodeProgress(msgspec.Struct, frozen=True):
    """How far a node is: `value` of `most`; one that is through is not running."""

    place: Place
    value: float = 0
    most: float = 1
    is_running: bool = True


class Bulletin:
    """News as it goes to those who watch: with what else they are to be told at the same moment.

    `news` is None where only the last word of jobs is told. `progress` names the node whose state has changed, then the
    others of its job that run; it is empty where nothing has changed. `over` are the public ids of jobs of which
    nothing more will be told. `made` keeps what is made of it for sending, so that it is made once for all who watch.
    """

    __slots__ = ("key", "made", "news", "over", "progress", "weight")

    def __init__(self, news: News | None, progress: Sequence[NodeProgress] = (), over: Sequence[str] = ()) -> None:
        self.news = news
        self.progress = progress
        self.over = over
        self.made: dict[object, bytes] = {}
        self.weight = _weight(news, progress)
        self.key = _live_key(news)


class Ending(enum.Enum):
    """Why a subscription is over."""

    CLOSED = "closed"
    TOO_SLOW = "too_slow"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class NewsLimits:
    """The bounds of a newsroom.

    How many may watch, and what may wait for one of them before he is too slow. Above the half-way mark of `eager`,
    things that are only worth telling live are told in their newest state only.
    """

    per_workspace: int = 2_000
    in_all: int = 10_000
    waiting: int = 10_000
    waiting_bytes: int = 8 * _MIB
    eager: int = 256
    eager_bytes: int = _MIB // 2
    batch_bytes: int = _MIB // 4
    last_word_seconds: float = 0.25


class Subscription:
    """What one watcher is told. `running` is what is executed at its beginning; `ended` is done when it is over."""

    def __init__(self, newsroom: "Newsroom", workspace_id: str, running: Sequence[News], limits: NewsLimits) -> None:
        self.running = running
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._newsroom = newsroom
        self._workspace_id = workspace_id
        self._limits = limits
        self._waiting: dict[_Key, Bulletin] = {}
        self._live: dict[_Key, None] = {}
        self._bytes = 0
        self._turns = itertools.count()
        self._waiter: asyncio.Future[None] | None = None

    async def next(self) -> Sequence[Bulletin]:
        """What is to be told next, in order, at most `batch_bytes` and one more; empty once the subscription is over.

        Only one may ask at a time.
        """
        while not self._waiting and not self.ended.done():
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        taken: list[Bulletin] = []
        weight = 0
        while self._waiting and weight < self._limits.batch_bytes:
            key = next(iter(self._waiting))
            bulletin = self._remove(key)
            weight += bulletin.weight
            taken.append(bulletin)
        return taken

    def close(self) -> None:
        """Stop watching."""
        self.end(Ending.CLOSED)

    def put(self, bulletin: Bulletin) -> None:
        """Let something wait to be told, until `wake`; what does not fit any more ends the subscription."""
        if self.ended.done():
            return
        key: _Key = next(self._turns)
        if bulletin.key is not None:
            if self._is_behind():
                key = bulletin.key
                if key in self._waiting:
                    self._remove(key)
            self._live[key] = None
        self._waiting[key] = bulletin
        self._bytes += bulletin.weight
        if self._is_full():
            self._make_room()

    def wake(self) -> None:
        """Tell everyone who waits for news what there is."""
        is_news = self._waiting or self.ended.done()
        if is_news and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, ending: Ending) -> None:
        """Be over, and forget what waits."""
        if not self.ended.done():
            self.ended.set_result(ending)
            self._newsroom.leave(self._workspace_id, self)
        self._waiting.clear()
        self._live.clear()
        self._bytes = 0
        self.wake()

    def _is_behind(self) -> bool:
        return len(self._waiting) >= self._limits.eager or self._bytes >= self._limits.eager_bytes

    def _is_full(self) -> bool:
        return len(self._waiting) > self._limits.waiting or self._bytes > self._limits.waiting_bytes

    def _make_room(self) -> None:
        """Drop what is only worth telling live, the oldest first; be over where that is not enough."""
        while self._live and self._is_full():
            self._remove(next(iter(self._live)))
        if self._is_full():
            self.end(Ending.TOO_SLOW)

    def _remove(self, key: _Key) -> Bulletin:
        bulletin = self._waiting.pop(key)
        self._live.pop(key, None)
        self._bytes -= bulletin.weight
        return bulletin


@dataclass(slots=True)
class _LiveJob:
    """What is known of a job under way: what was told to begin last, the newest preview, how far those are that run."""

    workspace_id: str
    executing: News | None = None
    preview: Preview | None = None
    running: OrderedDict[str, NodeProgress] = field(default_factory=OrderedDict)

    def note(self, progress: NodeProgress) -> tuple[NodeProgress, ...]:
        """Take note of a node's progress: it, and the others that run."""
        node = progress.place.node
        self.running.pop(node, None)
        others = tuple(self.running.values())
        if progress.is_running:
            self.running[node] = progress
            if len(self.running) > _RUNNING_MAX:
                self.running.popitem(last=False)
        return (progress, *others)

    def note_end(self, place: Place) -> tuple[NodeProgress, ...]:
        """Take note that a node is through."""
        last = self.running.get(place.node)
        most = 1 if last is None else last.most
        return self.note(NodeProgress(place, most, most, is_running=False))


class Newsroom:
    """Where what happens to jobs is told, and who listens."""

    def __init__(self, limits: NewsLimits | None = None) -> None:
        self._limits = limits or NewsLimits()
        self._subscriptions: dict[str, dict[Subscription, None]] = {}
        self._count = 0
        self._jobs: OrderedDict[str, _LiveJob] = OrderedDict()
        self._over: dict[str, list[str]] = {}
        self._gathering: dict[str, bool] = {}
        """The workspaces that were told something a moment ago, and whether there was more since."""
        self._is_closed = False

    def publish(self, news: News) -> None:
        """Tell everybody who watches the workspace. Never waits, never raises.

        The last word of a job (`Bulletin.over`) goes with the QueueChanged that follows its ending, as clients expect
        it; where none follows soon, it goes without.
        """
        progress = () if news.job_id is None else self._take_note(news.job_id, news)
        over = self._over.pop(news.workspace_id, ()) if isinstance(news.tiding, QueueChanged) else ()
        listeners = self._subscriptions.get(news.workspace_id)
        if not listeners:
            return
        self._tell(listeners, Bulletin(news, progress, over))
        if isinstance(news.tiding, Succeeded | Failed | Interrupted):
            self._wake(news.workspace_id)
            if news.public_id is not None:
                self._await_last_word(news.workspace_id, news.public_id)
        elif news.workspace_id in self._gathering:
            self._gathering[news.workspace_id] = True
        else:
            self._wake(news.workspace_id)
            self._gather(news.workspace_id)

    def subscribe(self, workspace_id: str) -> Subscription:
        """Listen to a workspace from now on; FaultError where as many do already as may, or the server stops."""
        listeners = self._subscriptions.get(workspace_id, {})
        for limit, current in ((self._limits.per_workspace, len(listeners)), (self._limits.in_all, self._count)):
            if current >= limit:
                raise FaultError(ConcurrencyLimitExceeded(limit, current, what="sockets"))
        running = [
            job.executing
            for job in self._jobs.values()
            if job.workspace_id == workspace_id and job.executing is not None
        ]
        subscription = Subscription(self, workspace_id, running, self._limits)
        if self._is_closed:
            subscription.end(Ending.STOPPED)
            return subscription
        self._subscriptions.setdefault(workspace_id, {})[subscription] = None
        self._count += 1
        return subscription

    def newest_preview(self, job_id: str) -> Preview | None:
        """The newest preview of a job that is executed here; None where there is none."""
        job = self._jobs.get(job_id)
        return None if job is None else job.preview

    def leave(self, workspace_id: str, subscription: Subscription) -> None:
        """Forget a subscription that is over; nothing happens where it is forgotten already."""
        listeners = self._subscriptions.get(workspace_id, {})
        if subscription in listeners:
            del listeners[subscription]
            self._count -= 1
            if not listeners:
                del self._subscriptions[workspace_id]

    def close(self) -> None:
        """End all subscriptions, now and later: the server stops."""
        self._is_closed = True
        for listeners in list(self._subscriptions.values()):
            for subscription in list(listeners):
                subscription.end(Ending.STOPPED)

    def _tell(self, listeners: Mapping[Subscription, None], bulletin: Bulletin) -> None:
        for subscription in list(listeners):  # one that is too slow leaves meanwhile
            subscription.put(bulletin)

    def _wake(self, workspace_id: str) -> None:
        """Have those who watch a workspace be told what there is."""
        for subscription in self._subscriptions.get(workspace_id, ()):
            subscription.wake()

    def _gather(self, workspace_id: str) -> None:
        """Let what comes in the next moment wait, and be told at its end."""
        self._gathering[workspace_id] = False
        asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._gathered, workspace_id)

    def _gathered(self, workspace_id: str) -> None:
        if self._gathering.pop(workspace_id):
            self._wake(workspace_id)
            self._gather(workspace_id)

    def _take_note(self, job_id: str, news: News) -> Sequence[NodeProgress]:
        """Remember of a job what newcomers want to know, until its end; the progress that is to be told."""
        match news.tiding:
            case Started():
                self._remember(job_id, _LiveJob(news.workspace_id))
            case Executing(place):
                job = self._jobs.get(job_id) or self._remember(job_id, _LiveJob(news.workspace_id))
                job.executing = news
                return job.note(NodeProgress(place))
            case Preview() as preview if job_id in self._jobs:
                self._jobs[job_id].preview = preview
            case Progress(place, value, most) if job_id in self._jobs:
                return self._jobs[job_id].note(NodeProgress(place, value, most))
            case Finished(place) if job_id in self._jobs:
                return self._jobs[job_id].note_end(place)
            case Stopped(place) if job_id in self._jobs and place.node in self._jobs[job_id].running:
                return self._jobs[job_id].note_end(place)
            case Succeeded() | Failed() | Interrupted():
                self._jobs.pop(job_id, None)
            case _:
                pass
        return ()

    def _remember(self, job_id: str, job: _LiveJob) -> _LiveJob:
        self._jobs[job_id] = job
        if len(self._jobs) > _JOBS_MAX:
            self._jobs.popitem(last=False)
        return job

    def _await_last_word(self, workspace_id: str, public_id: str) -> None:
        self._over.setdefault(workspace_id, []).append(public_id)
        loop = asyncio.get_running_loop()
        loop.call_later(self._limits.last_word_seconds, self._say_last_word, workspace_id, public_id)

    def _say_last_word(self, workspace_id: str, public_id: str) -> None:
        """Tell that nothing more will be told of a job, unless that was told in the meantime."""
        over = self._over.get(workspace_id, [])
        if public_id not in over:
            return
        over.remove(public_id)
        if not over:
            del self._over[workspace_id]
        self._tell(self._subscriptions.get(workspace_id, {}), Bulletin(None, over=(public_id,)))
        self._wake(workspace_id)


def _weight(news: News | None, progress: Sequence[NodeProgress]) -> int:
    """About how many bytes something takes on the wire."""
    most = _SMALL + _NODE * len(progress)
    match None if news is None else news.tiding:
        case Preview(_, _, image):
            return most + len(image)
        case Executed(_, ui):
            return most + len(ShownValues.encoded(ui).json)
        case Failed() | Cached() | Interrupted() | Notice() | ProgressText() as tiding:
            return most + len(_encode(tiding))
        case _:
            return most


def _live_key(news: News | None) -> _LiveKey | None:
    """Of what is only worth telling live: of which the newest does."""
    if news is not None and isinstance(news.tiding, Preview | Progress | ProgressText):
        return type(news.tiding), news.job_id, news.tiding.place.node
    return None
