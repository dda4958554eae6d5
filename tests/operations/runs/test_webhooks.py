"""Webhooks end to end but for the HTTP face: a real receiver, both databases, a clock that is moved by hand."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller, Patterns
from fairlead.domain.faults import FaultError, Forbidden, InvalidInput, RequestNotFound, ServiceUnavailable
from fairlead.domain.runs.states import RunState
from fairlead.domain.runs.webhooks import PAUSES_MS, TRIES_MAX, Prospect
from fairlead.observing.deliveries import WebhookGivenUp, WebhookTried
from fairlead.observing.observations import DatabaseTrouble, UnexpectedError
from fairlead.operations.runs.webhooks import LEASE_MS
from fake_partner import Behaviour, FakePartner, Request, drop, endless, hang, redirect, reply, trickle
from operations.servers import Guarded
from operations.webhook_office import SLOW_SECONDS, WEEK_MS, MakeOffice, NotVerifiedError, Office, verify
from servers import wait_until_async
from storage.bookings import LAB, Books
from storage.queued_runs import BASE_URL, end, queue, run_id

DAY_MS: Final = 24 * 3600 * 1000
HOOK: Final = "/hook"
QUERY: Final = "?token=hidden-in-the-query"


@pytest.fixture
def receiver(shared_partner: FakePartner) -> Iterator[FakePartner]:
    """Return a receiver that takes every message."""
    shared_partner.script(HOOK, reply(204, b""))
    yield shared_partner
    shared_partner.release()
    shared_partner.reset()


@pytest.fixture
def new_office(guarded: Guarded, run: Run) -> Iterator[MakeOffice]:
    """Return a function that makes what posts webhooks."""
    made: list[Office] = []

    def make(**how: Any) -> Office:
        made.append(Office(guarded, **how))
        return made[-1]

    yield make
    for office in made:
        run(office.transport.close())
        assert office.observations_of(UnexpectedError) == []


@pytest.fixture
def office(new_office: MakeOffice) -> Office:
    """Return what posts webhooks, to receivers on this machine too."""
    return new_office()


@pytest.fixture(autouse=True)
def _lab(books: Books) -> None:
    """Make the lab, with money for its runs."""
    books.open(balance=10_000)


def messages_of(receiver: FakePartner) -> Sequence[Request]:
    """Return the messages that arrived."""
    return receiver.requests(HOOK, "POST")


def test_receiver_can_verify_its_message(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """The message names the run, holds none of its result, and proves to be ours with the secret that is shown."""
    queue(books, run_id(1), f"{receiver.url}{HOOK}{QUERY}")
    end(books, run_id(1))
    run(office.round())
    (request,) = messages_of(receiver)
    secret = run(office.secrets.show(LAB)).text
    verify(request, secret, office.now // 1000)
    assert request.target == HOOK + QUERY
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == f"msg_{run_id(1)}"
    link = f"{BASE_URL}/v2/models/acme/one/requests/{run_id(1)}"
    assert json.loads(request.body) == {
        "type": "run.completed",
        "timestamp": "2026-01-15T08:00:00.005Z",
        "data": {
            "request_id": run_id(1), "model": "acme/one", "status": "COMPLETED",
            "status_url": f"{link}/status", "response_url": link,
        },
    }  # fmt: skip
    for forged in (
        Request("POST", HOOK, request.headers, request.body.replace(b"completed", b"failed")),
        Request("POST", HOOK, {**request.headers, "webhook-id": "msg_other"}, request.body),
    ):
        with pytest.raises(NotVerifiedError):
            verify(forged, secret, office.now // 1000)
    office.move(DAY_MS)
    assert run(office.round()) == ()
    assert [(one.number, one.status, one.delivered) for one in office.observations_of(WebhookTried)] == [(1, 204, True)]


def test_failure_message_names_the_bucket(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """A run that failed says which bucket it fell into."""
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1), charge=0, state=RunState.FAILED, is_billed=False, reason="content_policy_violation")
    run(office.round())
    message = json.loads(messages_of(receiver)[0].body)
    assert (message["type"], message["data"]["error_type"]) == ("run.failed", "content_policy_violation")


def test_each_workspace_has_its_own_secret(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """What one workspace is told, another's secret does not verify."""
    books.open(id_="other", balance=10_000)
    queue(books, run_id(1), receiver.url + HOOK, workspace_id="other")
    end(books, run_id(1), workspace_id="other")
    run(office.round())
    (request,) = messages_of(receiver)
    verify(request, run(office.secrets.show("other")).text, office.now // 1000)
    with pytest.raises(NotVerifiedError):
        verify(request, run(office.secrets.show(LAB)).text, office.now // 1000)


def test_receiver_that_failed_is_asked_again_after_each_pause(
    books: Books, office: Office, receiver: FakePartner, run: Run
) -> None:
    """After each pause it is asked once more: the same bytes and id, signed again; no redirect is followed."""
    answers = [reply(500), redirect(f"{receiver.url}/elsewhere"), reply(429, Retry_After="1"), reply(201)]
    receiver.script(HOOK, *answers)
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    secret = run(office.secrets.show(LAB)).text
    for number in range(4):
        office.move(PAUSES_MS[number - 1] - 1 if number else 0)
        if number:
            assert run(office.round()) == ()
            office.move(1)
        assert len(run(office.round())) == 1
        verify(messages_of(receiver)[-1], secret, office.now // 1000)
    requests = messages_of(receiver)
    assert {(request.headers["webhook-id"], request.body) for request in requests} == {
        (f"msg_{run_id(1)}", requests[0].body)
    }
    assert len({request.headers["webhook-timestamp"] for request in requests}) == 4
    assert receiver.requests("/elsewhere") == []
    found = run(office.log.of_run(run_id(1)))
    assert [one.status for one in found.tries] == [500, 302, 429, 201]
    assert found.prospect == Prospect(delivered_at=office.now)
    assert office.observations_of(WebhookGivenUp) == []


def test_jitter_spreads_receivers_that_are_asked_again(
    books: Books, office: Office, receiver: FakePartner, run: Run
) -> None:
    """Jitter puts a try off by up to a tenth of its pause."""
    receiver.script(HOOK, reply(500))
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    office.jitter = 1.0
    run(office.round())
    assert run(office.log.of_run(run_id(1))).prospect.next_at == office.now + 5500


def test_receiver_that_is_gone_is_never_asked_again(
    books: Books, office: Office, receiver: FakePartner, run: Run
) -> None:
    """410 ends it at once, and an operator can see that."""
    receiver.script(HOOK, reply(410))
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    run(office.round())
    office.move(2 * DAY_MS)
    assert run(office.round()) == ()
    assert office.observations_of(WebhookGivenUp) == [WebhookGivenUp(run_id(1), 1, 410, None)]


def test_webhook_is_given_up_after_eight_tries(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """Eight tries, then it is given up; every one of them is in the log."""
    receiver.script(HOOK, reply(503))
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    for _ in range(TRIES_MAX):
        assert len(run(office.round())) == 1
        office.move(max(PAUSES_MS))
    assert run(office.round()) == ()
    found = run(office.log.of_run(run_id(1)))
    assert [one.status for one in found.tries] == [503] * TRIES_MAX
    assert found.prospect == Prospect(gave_up_at=office.now - max(PAUSES_MS))
    assert [one.number for one in office.observations_of(WebhookGivenUp)] == [TRIES_MAX]


@pytest.mark.parametrize(
    ("behaviour", "word"),
    [(hang(), "too_slow"), (trickle(0.01), "too_slow"), (drop(), "broken_off"), (endless(), "broken_off")],
)
def test_unresponsive_receiver_is_bounded_and_tried_again(
    books: Books, new_office: MakeOffice, receiver: FakePartner, run: Run, behaviour: Behaviour, word: str
) -> None:
    """Silence, drops and answers without end are bounded, recorded by a word, and tried again."""
    office = new_office(seconds=SLOW_SECONDS)
    receiver.script(HOOK, behaviour)
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    run(asyncio.wait_for(office.round(), 60))
    (done,) = run(office.log.of_run(run_id(1))).tries
    assert (done.status, done.error) == (None, word)
    assert done.milliseconds < 30_000
    if word == "too_slow":
        assert done.milliseconds >= SLOW_SECONDS * 900
    assert run(office.log.of_run(run_id(1))).prospect.next_at == office.now + PAUSES_MS[0]


def test_unreachable_receiver_is_a_failed_try(books: Books, office: Office, run: Run) -> None:
    """A closed port and a name that does not exist are tries that failed."""
    queue(books, run_id(1), "http://127.0.0.1:9/")
    queue(books, run_id(2), "http://receiver.invalid/")
    for number in (1, 2):
        end(books, run_id(number))
    run(office.round())
    for number in (1, 2):
        assert [one.error for one in run(office.log.of_run(run_id(number))).tries] == ["unreachable"]


def test_private_address_is_never_reached(
    books: Books, new_office: MakeOffice, receiver: FakePartner, run: Run
) -> None:
    """It is reached neither by number nor by name, and the log does not say where the name led."""

    async def resolver(_host: str, _port: int) -> Sequence[str]:
        return ["93.184.216.34", "127.0.0.1"]

    strict = new_office(private=False, resolver=resolver)
    port = receiver.url.rpartition(":")[2]
    for url in (receiver.url + HOOK, f"http://localhost:{port}{HOOK}"):
        with pytest.raises(FaultError) as refused:
            strict.webhooks.check_url(url)
        assert isinstance(refused.value.fault, InvalidInput)
    named = f"http://receiver.example:{port}{HOOK}"
    strict.webhooks.check_url(named)
    accepted = receiver.accepted
    for number, url in enumerate((named, receiver.url + HOOK), 1):
        queue(books, run_id(number), url)
        end(books, run_id(number))
    run(strict.round())
    assert receiver.accepted == accepted
    for number in (1, 2):
        assert [one.error for one in run(strict.log.of_run(run_id(number))).tries] == ["unreachable"]
    assert "127.0.0.1" not in repr(strict.seen)


def test_metadata_service_is_never_reached(new_office: MakeOffice) -> None:
    """An operator may open an own network to webhooks, but not the address that gives a machine's credentials away."""
    lenient = new_office(private=True)
    lenient.webhooks.check_url("http://10.1.2.3/hook")
    for url in ("http://169.254.169.254/latest", "http://[fe80::1]/", "http://[fd00:ec2::254]/"):
        with pytest.raises(FaultError):
            lenient.webhooks.check_url(url)


def test_crash_between_post_and_record_posts_again_under_the_same_id(
    books: Books, office: Office, guarded: Guarded, receiver: FakePartner, run: Run
) -> None:
    """What was posted and not recorded is posted again when its claim has run out, under the id the receiver knows."""
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    (due,) = run(office.webhooks.claim(10))
    guarded.refusals = 1
    run(office.webhooks.deliver(due))
    assert [one.doing for one in office.observations_of(DatabaseTrouble)] == ["record a webhook"]
    office.move(LEASE_MS - 1)
    assert run(office.round()) == ()
    office.move(1)
    assert len(run(office.round())) == 1
    first, second = messages_of(receiver)
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    assert [one.status for one in run(office.log.of_run(run_id(1))).tries] == [204]


def test_cancelled_try_is_left_to_the_next_claim(
    books: Books, new_office: MakeOffice, receiver: FakePartner, run: Run
) -> None:
    """A server that stops in the middle of a try leaves it to anyone who claims it next."""
    office = new_office()
    receiver.script(HOOK, hang(), reply(200))
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))

    async def stop() -> None:
        (due,) = await office.webhooks.claim(10)
        task = asyncio.create_task(office.webhooks.deliver(due))
        await wait_until_async(lambda: messages_of(receiver), "the first try")
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run(stop())
    office.move(LEASE_MS)
    run(office.round())
    assert len(messages_of(receiver)) == 2
    assert run(office.log.of_run(run_id(1))).prospect.delivered_at == office.now


def test_posting_survives_an_unavailable_database(
    books: Books, office: Office, guarded: Guarded, receiver: FakePartner, run: Run
) -> None:
    """Nothing is claimed or forgotten while it is away, and everything afterwards."""
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    guarded.refusals = 3
    assert run(office.round()) == ()
    assert run(office.webhooks.forget()) == 0
    with pytest.raises(FaultError) as refused:
        run(office.log.of_run(run_id(1)))
    assert isinstance(refused.value.fault, ServiceUnavailable)
    assert [one.doing for one in office.observations_of(DatabaseTrouble)] == ["claim webhooks", "forget webhooks"]
    assert len(run(office.round())) == 1


def test_no_transaction_is_open_during_a_post(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """However slow a receiver is, no transaction waits for it."""
    receiver.script(HOOK, reply(200))
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    run(office.round())
    assert (len(receiver.requests(HOOK)), office.transport.in_transaction) == (1, 0)


def test_rotation_leaves_both_secrets_valid_for_a_day(
    books: Books, office: Office, receiver: FakePartner, run: Run
) -> None:
    """For a day a message is signed with both secrets; after that only the new one verifies."""
    receiver.script(HOOK, reply(500))
    old = run(office.secrets.show(LAB))
    new = run(office.secrets.rotate(LAB))
    assert (old.rotated_at, new.rotated_at) == (None, office.now)
    assert run(office.secrets.show(LAB)) == new
    assert old.text != new.text
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    run(office.round())
    for secret in (old.text, new.text):
        verify(messages_of(receiver)[0], secret, office.now // 1000)
    office.move(DAY_MS)
    run(office.round())
    verify(messages_of(receiver)[1], new.text, office.now // 1000)
    with pytest.raises(NotVerifiedError):
        verify(messages_of(receiver)[1], old.text, office.now // 1000)


def test_observations_hold_no_secret(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """Neither the address of a receiver, which may have a password in its query, nor the secret reaches a log."""
    receiver.script(HOOK, reply(500), drop(), reply(410))
    queue(books, run_id(1), f"{receiver.url}{HOOK}{QUERY}")
    end(books, run_id(1))
    for _ in range(3):
        run(office.round())
        office.move(max(PAUSES_MS))
    assert len(office.observations_of(WebhookTried)) == 3
    said = repr(office.seen)
    for hidden in ("hidden-in-the-query", receiver.url, "whsec_", run(office.secrets.show(LAB)).text[6:]):
        assert hidden not in said


def test_webhook_log_is_shown_to_its_workspace_alone(
    books: Books, office: Office, receiver: FakePartner, run: Run
) -> None:
    """The workspace sees the log of its own queued runs, on the model they ran; nobody else learns that they exist."""
    queue(books, run_id(1), receiver.url + HOOK)
    queue(books, run_id(2), url=None)
    end(books, run_id(1))
    run(office.round())
    mine = Caller(LAB, f"{LAB}-name")
    found = run(office.log.of_caller(mine, "acme/one", run_id(1)))
    assert (found.url, [one.status for one in found.tries]) == (receiver.url + HOOK, [204])
    assert run(office.log.of_caller(mine, "acme/one", run_id(2))) is None
    for caller, model, request in (
        (Caller("other", "other"), "acme/one", run_id(1)),
        (mine, "acme/two", run_id(1)),
        (mine, "acme/one", run_id(3)),
        (mine, "acme/one", "no-id\x00"),
    ):
        with pytest.raises(FaultError) as refused:
            run(office.log.of_caller(caller, model, request))
        assert refused.value.fault == RequestNotFound()
    limited = Caller(LAB, f"{LAB}-name", credential_models=Patterns(("acme/two",)))
    with pytest.raises(FaultError) as refused:
        run(office.log.of_caller(limited, "acme/one", run_id(1)))
    assert isinstance(refused.value.fault, Forbidden)


def test_webhook_log_is_forgotten_with_its_result(
    books: Books, office: Office, receiver: FakePartner, run: Run
) -> None:
    """It goes as long after the delivery as results are kept, and the run is still the workspace's own."""
    queue(books, run_id(1), receiver.url + HOOK)
    end(books, run_id(1))
    run(office.round())
    office.move(WEEK_MS)
    assert run(office.webhooks.forget()) == 0
    office.move(1)
    assert run(office.webhooks.forget()) == 1
    assert run(office.webhooks.forget()) == 0
    assert run(office.log.of_caller(Caller(LAB, f"{LAB}-name"), "acme/one", run_id(1))) is None
    assert books.rows("SELECT * FROM webhook_tries") == []
