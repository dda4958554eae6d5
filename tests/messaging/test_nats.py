"""Messaging over NATS: between servers of one installation, within bounds, and with nothing but time to lose (M-04)."""

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pytest
from nats.aio.client import Client

from conftest import Run
from fairlead.domain.jobs.events import (
    EventEnvelope,
    Executed,
    Executing,
    JobEvent,
    Place,
    Preview,
    Progress,
    QueueChanged,
    Started,
    Succeeded,
)
from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.event_hub import CloseReason, EventSubscription, HubLimits
from fairlead.messaging.nats import NatsMessaging, nats_messaging
from fairlead.messaging.nats.link import LinkState
from fairlead.messaging.nats.wire import Subjects
from fairlead.messaging.wakeups import Topic, Wakeup
from messaging.conftest import NewServers
from messaging.nats_accounts import Account
from messaging.test_wakeups import Heard
from nats_servers import NatsServer, running_nats
from waiting import until

pytestmark = pytest.mark.req("M-04")

_LAB: Final = "lab"
_NODE: Final = Place("1", "1")
_probes: Final = itertools.count()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages wait for long, as a busy machine may have the event loop wait."""
    monkeypatch.setattr("fairlead.messaging.nats.link._STALE_SECONDS", 60.0)


def stored_event(number: int, event: JobEvent, job: str = "job", attempt: int = 1) -> EventEnvelope:
    """An event that is kept as the `number`-th of its job."""
    return EventEnvelope(_LAB, job, job, number, event, attempt, number, is_kept=True)


def live(number: int, event: JobEvent, job: str = "job", attempt: int = 1) -> EventEnvelope:
    """An event that is told live, after so many that are kept."""
    return EventEnvelope(_LAB, job, job, number, event, attempt, number)


async def wait_until_reached(here: NatsMessaging, there: NatsMessaging) -> None:
    """Return when NATS has passed on to one server all that another has sent, and knows what that has subscribed to."""
    heard, probe = Heard(), Wakeup(Topic.CONFIGURATION_CHANGED, _LAB, str(next(_probes)))
    leave = there.wakeups.listen(Topic.CONFIGURATION_CHANGED, heard)
    while probe not in heard.wakeups:  # which may not be subscribed yet
        here.wakeups.publish(probe)
        await asyncio.sleep(0.01)
    leave()


async def waiting_events(subscription: EventSubscription) -> list[JobEvent]:
    """What has happened, as it waits to be told."""
    found: list[JobEvent] = []
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(0):
                taken = await subscription.next()
            if not taken:
                break
            found += [one.envelope.event for one in taken if one.envelope is not None]
    return found


def test_events_and_changes_of_runs_reach_watchers_at_another_server(
    run: Run, new_servers: NewServers, installation: str
) -> None:
    """They are the same, previews included, and in order; another workspace hears nothing, nor does NATS send it."""

    async def scene() -> None:
        here, there = await new_servers(installation, 2)
        subscription, watch = there.events.subscribe(_LAB), there.events.watch_run(_LAB, "run")
        elsewhere = there.events.subscribe("elsewhere")
        await wait_until_reached(there, here)
        picture = Preview(_NODE, "image/png", b"\x00\xff" * 50_000)
        said: list[EventEnvelope] = [
            stored_event(1, Started()),
            live(1, Executing(_NODE)),
            live(1, picture),
            stored_event(2, Executed(_NODE, {"text": ["x"]})),
            stored_event(3, Succeeded()),
            EventEnvelope(_LAB, None, None, 9, QueueChanged(0)),
            EventEnvelope("unwatched", None, None, 9, QueueChanged(0)),
        ]
        for envelope in said:
            here.events.publish(envelope)
        here.events.publish_run(RunChanged(_LAB, "run", has_ended=True))
        await wait_until_reached(here, there)
        assert await waiting_events(subscription) == [envelope.event for envelope in said[:-1]]
        assert await waiting_events(elsewhere) == []
        assert await watch.wait(0) == RunChanged(_LAB, "run", has_ended=True)
        assert not any("unwatched" in subject for subject in there.link._subscribed)

    run(scene())


def test_newest_preview_and_running_nodes_are_known_at_another_server(
    run: Run, new_servers: NewServers, installation: str
) -> None:
    """Who begins to watch where others watch already is told them; they are forgotten with the last who watches."""

    async def scene() -> None:
        here, there = await new_servers(installation, 2)
        first = there.events.subscribe(_LAB)
        await wait_until_reached(there, here)
        picture = Preview(_NODE, "image/png", b"picture")
        for envelope in (stored_event(1, Started()), live(1, Executing(_NODE)), live(1, picture)):
            here.events.publish(envelope)
        await wait_until_reached(here, there)
        second = there.events.subscribe(_LAB)
        assert [envelope.event for envelope in second.running] == [Executing(_NODE)]
        assert there.events.newest_preview("job") == picture
        first.close()
        second.close()
        assert there.events.subscribe(_LAB).running == []

    run(scene())


def test_wakeups_reach_every_server_once(run: Run, new_servers: NewServers, installation: str) -> None:
    """Of one installation all are woken, the one that publishes too, and nobody twice."""

    async def scene() -> None:
        servers = await new_servers(installation, 3)
        await wait_until_reached(servers[1], servers[0])
        await wait_until_reached(servers[2], servers[0])
        heard = [Heard() for _ in servers]
        for one, listener in zip(servers, heard, strict=True):
            one.wakeups.listen(Topic.RUN_RELEASED, listener)
        wakeup = Wakeup(Topic.RUN_RELEASED, _LAB, "run")
        servers[0].wakeups.publish(wakeup)
        await until(lambda: all(one.wakeups for one in heard))
        await wait_until_reached(servers[0], servers[1])
        assert [one.wakeups for one in heard] == [[wakeup]] * 3

    run(scene())


def test_installations_on_one_nats_hear_nothing_of_each_other(
    run: Run, new_servers: NewServers, installation: str
) -> None:
    """Neither events nor wake-ups of another, though the workspaces have the same id."""

    async def scene() -> None:
        (mine,), (theirs, theirs_too) = await new_servers(installation), await new_servers(f"{installation}-b", 2)
        subscription, heard = mine.events.subscribe(_LAB), Heard()
        mine.wakeups.listen(Topic.RUN_RELEASED, heard)
        witness = theirs_too.events.subscribe(_LAB)
        await wait_until_reached(theirs_too, theirs)
        theirs.events.publish(stored_event(1, Started()))
        theirs.wakeups.publish(Wakeup(Topic.RUN_RELEASED, _LAB, "run"))
        await wait_until_reached(theirs, theirs_too)
        assert await waiting_events(witness) == [Started()]
        assert await waiting_events(subscription) == []
        assert heard.wakeups == []
        assert mine.counts()["heard"] == 0

    run(scene())


def test_event_that_does_not_follow_waits_for_the_database(
    run: Run, new_servers: NewServers, installation: str
) -> None:
    """What was lost and what came after it is relayed in order, and nothing is told twice, whichever way it comes."""

    async def scene() -> None:
        here, there = await new_servers(installation, 2)
        subscription = there.events.subscribe(_LAB)
        await wait_until_reached(there, here)
        lost, shown = Executed(Place("1", "1"), {"text": ["1"]}), Executed(Place("2", "2"), {"text": ["2"]})
        here.events.publish(stored_event(1, Started()))
        here.events.publish(stored_event(3, shown))
        here.events.publish(live(3, Progress(_NODE, 1, 2)))
        await wait_until_reached(here, there)
        assert await waiting_events(subscription) == [Started()]
        for envelope in (stored_event(1, Started()), stored_event(2, lost), stored_event(3, shown)):
            there.relay.relay(envelope)
        assert await waiting_events(subscription) == [lost, shown]
        here.events.publish(stored_event(4, Succeeded()))
        await wait_until_reached(here, there)
        there.relay.relay(stored_event(4, Succeeded()))
        assert await waiting_events(subscription) == [Succeeded()]

    run(scene())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"workspace_id": _LAB}),
        msgspec.msgpack.encode(EventEnvelope("elsewhere", "job", "job", 0, Started())),
        msgspec.msgpack.encode({**msgspec.to_builtins(stored_event(1, Started())), "event": {"type": "Unheard"}}),
        b"\x91" * 100_000,
    ],
    ids=["empty", "no msgpack", "incomplete", "another workspace", "unknown event", "nested"],
)
def test_message_of_a_stranger_is_counted_and_ignored(
    run: Run, new_servers: NewServers, installation: str, nats: NatsServer, content: bytes
) -> None:
    """What is none of ours, or speaks of another workspace than its subject, changes nothing; what follows is heard."""

    async def scene() -> None:
        here, there = await new_servers(installation, 2)
        subscription, heard = there.events.subscribe(_LAB), Heard()
        there.wakeups.listen(Topic.RUN_RELEASED, heard)
        await wait_until_reached(there, here)
        stranger, subjects = Client(), Subjects(installation)
        await stranger.connect(nats.url)
        for subject in (subjects.event(_LAB), subjects.run(_LAB), subjects.wakeup(_LAB), f"{subjects.event(_LAB)}s"):
            await stranger.publish(subject, content)
        await stranger.flush()
        await stranger.close()
        await wait_until_reached(here, there)
        here.events.publish(stored_event(1, Started()))
        await wait_until_reached(here, there)
        assert there.counts()["malformed"] == 4
        assert await waiting_events(subscription) == [Started()]
        assert heard.wakeups == []

    run(scene())


def test_message_larger_than_nats_takes_is_dropped_alone(run: Run, new_servers: NewServers, installation: str) -> None:
    """A preview is lost; an event that is kept is relayed from the database. The connection stays."""

    async def scene() -> None:
        here, there = await new_servers(installation, 2)
        subscription = there.events.subscribe(_LAB)
        await wait_until_reached(there, here)
        here.events.publish(stored_event(1, Started()))
        here.events.publish(live(1, Preview(_NODE, "image/png", bytes(2 * 2**20))))
        here.events.publish(live(1, Progress(_NODE, 1, 2)))
        await wait_until_reached(here, there)
        assert await waiting_events(subscription) == [Started(), Progress(_NODE, 1, 2)]
        assert here.counts()["large"] == 1
        assert here.link.is_connected

    run(scene())


def test_slow_subscriber_at_another_server_is_closed(run: Run, new_servers: NewServers, installation: str) -> None:
    """It ends as one where the event happens, and nobody else notices."""

    async def scene() -> None:
        (here,) = await new_servers(installation)
        there = nats_messaging(here.link._urls, installation, limits=HubLimits(waiting=3))
        there.start()
        await until(lambda: there.link.is_connected)
        slow, quick = there.events.subscribe(_LAB), there.events.subscribe(_LAB)
        await wait_until_reached(there, here)
        for number in range(1, 8):
            here.events.publish(stored_event(number, Started() if number == 1 else Executed(_NODE, {})))
            await wait_until_reached(here, there)
            await waiting_events(quick)
        assert slow.ended.result() is CloseReason.TOO_SLOW
        assert not quick.ended.done()
        await there.close()

    run(scene())


def test_server_goes_on_while_nats_is_away_and_after_it_is_back(run: Run, installation: str) -> None:
    """Publishing neither waits nor fails, is bounded, and reaches watchers here; and others once NATS is back."""

    async def scene(server: NatsServer) -> None:
        states: list[LinkState] = []
        here, there = (nats_messaging([server.url], installation, report=states.append) for _ in range(2))
        for one in (here, there):
            one.start()
        subscriptions = [one.events.subscribe(_LAB) for one in (here, there)]
        await until(lambda: [state.is_connected for state in states] == [False, False])
        await asyncio.to_thread(server.start)
        await until(lambda: here.link.is_connected and there.link.is_connected)
        await wait_until_reached(there, here)
        here.events.publish(stored_event(1, Started()))
        await wait_until_reached(here, there)
        assert [await waiting_events(one) for one in subscriptions] == [[Started()]] * 2
        await asyncio.to_thread(server.stop)
        await until(lambda: not here.link.is_connected and not there.link.is_connected)
        for number in range(2, 30_000):
            here.events.publish(stored_event(number, Executed(_NODE, {"text": ["x" * 100]})))
        assert len(here.link._waiting) <= 10_000
        assert here.counts()["late"] >= 19_000
        assert subscriptions[0].ended.done()
        await asyncio.to_thread(server.start)
        await until(lambda: here.link.is_connected and there.link.is_connected)
        await wait_until_reached(there, here)
        here.events.publish(stored_event(1, Started(), job="next"))
        await wait_until_reached(here, there)
        assert await waiting_events(subscriptions[1]) == [Started()]
        for one in (here, there):
            await one.close()
        assert [state.is_connected for state in states].count(False) >= 2

    with running_nats() as server:
        server.stop()
        run(scene(server))


def _words(states: Sequence[LinkState]) -> str:
    return " ".join(state.detail for state in states)


@pytest.mark.req("S-10")
@pytest.mark.parametrize(
    ("options", "user", "is_let_in"),
    [
        (("--user", "fairlead", "--pass", "p@ss:w/rd"), "fairlead:p%40ss%3Aw%2Frd@", True),
        (("--auth", "a-long-token"), "a-long-token@", True),
        (("--user", "fairlead", "--pass", "other-word"), "fairlead:wrong-word@", False),
    ],
    ids=["user", "token", "wrong password"],
)
def test_credentials_of_the_url_are_used_and_never_told(
    run: Run, installation: str, options: tuple[str, ...], user: str, *, is_let_in: bool
) -> None:
    """Neither where they are right nor where they are wrong."""

    async def scene(server: NatsServer) -> None:
        states: list[LinkState] = []
        url = server.url.replace("nats://", f"nats://{user}")
        here = nats_messaging([url], installation, report=states.append)
        here.start()
        await until(lambda: states)
        await here.close()
        assert [state.is_connected for state in states][:1] == [is_let_in]
        assert not any(word in _words(states) for word in ("p@ss", "p%40", "wrong-word", "a-long-token"))

    with running_nats(options) as server:
        run(scene(server))


def test_tls_url_never_goes_without_tls(run: Run, installation: str, nats: NatsServer) -> None:
    """A server that does not ask for TLS is not told who we are."""

    async def scene() -> None:
        states: list[LinkState] = []
        here = nats_messaging([nats.url.replace("nats:", "tls:")], installation, report=states.append)
        here.start()
        await until(lambda: states)
        await here.close()
        assert states == [LinkState(is_connected=False, detail="the server does not ask for TLS")]

    run(scene())


@pytest.mark.parametrize("is_known", [True, False])
def test_file_of_credentials_says_who_a_server_is(
    run: Run, installation: str, tmp_path: Path, *, is_known: bool
) -> None:
    """Its token is shown and its seed signs what the NATS server asks for; a file that is none is told as such."""
    account = Account()
    (tmp_path / "nats.conf").write_text(account.configuration(), "ascii")
    credentials = tmp_path / "fairlead.creds"
    credentials.write_text(account.credentials() if is_known else "no credentials: very-secret", "ascii")

    async def scene(server: NatsServer) -> None:
        states: list[LinkState] = []
        here = nats_messaging([server.url], installation, credentials=credentials, report=states.append)
        here.start()
        await until(lambda: states)
        await here.close()
        assert states[0].is_connected is is_known
        if not is_known:
            assert states[0].detail == "the file of credentials has no token and no seed of a user"

    with running_nats(("-c", str(tmp_path / "nats.conf"))) as server:
        run(scene(server))


def test_reason_of_a_missing_server_is_that_of_the_connection(run: Run, installation: str) -> None:
    """Not that none is left."""

    async def scene() -> None:
        states: list[LinkState] = []
        here = nats_messaging(["nats://127.0.0.1:1"], installation, report=states.append)
        here.start()
        await until(lambda: states)
        await here.close()
        assert not states[0].is_connected
        assert "127.0.0.1" in states[0].detail

    run(scene())
