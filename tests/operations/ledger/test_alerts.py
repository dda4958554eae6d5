"""Alerts end to end: a real receiver, a real mail server, both databases, a clock that is moved by hand (A-03)."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import SERVER
from fairlead.domain.days import DAY_MS
from fairlead.domain.ledger.alerts import CHANNELS_MAX, ChannelKind
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod, BudgetScope
from fairlead.domain.ledger.money import UNITS_PER_DOLLAR
from fairlead.domain.runs.webhooks import PAUSES_MS
from fairlead.http_client.transport import Transport
from fairlead.identity.master_secret import MasterSecret
from fairlead.mail import Mailer, MailServer
from fairlead.observing.deliveries import AlertGivenUp, AlertTried
from fairlead.observing.observations import DatabaseTrouble, Observation, UnexpectedError
from fairlead.operations.accounts.webhook_secrets import WebhookSecrets
from fairlead.operations.ledger.alerts import AlertChannels, AlertTeller, BadChannelError, UnknownChannelError
from fairlead.operations.runs.webhooks import allowed_addresses
from fairlead.storage.ledger.alerts import ToldAlert
from fairlead.storage.ledger.budgets import NewBudget, create_budget
from fake_partner import FakePartner, Request, reply
from operations.letters import Letters
from operations.servers import Guarded
from operations.webhook_office import verify
from storage.bookings import LAB, NOW, Books, admission, settlement

pytestmark = pytest.mark.req("A-03")

HOOK: Final = "/hook"
_SECRET: Final = MasterSecret(bytes(32))


class Office:
    """Channels and the teller as a server wires them, at a time that stands still until it is moved."""

    def __init__(self, database: Guarded, *, private: bool = True, mailer: Mailer | None = None) -> None:
        """Wire the parts together; most receivers of the tests are on this machine."""
        self.now = NOW + 1000
        self.seen: list[Observation] = []
        clock = Clock(lambda: self.now * 1_000_000)
        allows = allowed_addresses(private=private)
        self.transport = Transport(allows=allows)
        self.secrets = WebhookSecrets(database, _SECRET, clock)
        self.channels = AlertChannels(database, _SECRET, allows, clock, can_mail=mailer is not None)
        self.teller = AlertTeller(
            database, self.transport, mailer, _SECRET, self.secrets.signing_of, clock, self.seen.append,
            jitter=lambda: 0.0,
        )  # fmt: skip

    async def round(self) -> int:
        """Claim what is due, make one try of each, and return how many there were."""
        claimed = await self.teller.claim(10)
        for due in claimed:
            await self.teller.deliver(due)
        return len(claimed)

    async def alerts_of(self, workspace_id: str = LAB) -> list[ToldAlert]:
        """Return the alerts of a workspace, the newest first."""
        return await self.channels.list_alerts(workspace_id, None, 50)

    def observations_of(self, kind: type) -> list[Any]:
        """Return what was observed of one kind."""
        return [seen for seen in self.seen if type(seen) is kind]


@pytest.fixture
def receiver(shared_partner: FakePartner) -> Iterator[FakePartner]:
    """Return a receiver that takes every message."""
    shared_partner.script(HOOK, reply(204, b""))
    yield shared_partner
    shared_partner.release()
    shared_partner.reset()


@pytest.fixture
def office(new_office: Callable[..., Office]) -> Office:
    """Return what tells alerts, to receivers on this machine too."""
    return new_office()


@pytest.fixture(autouse=True)
def _lab(books: Books) -> None:
    """Make the lab, with money for its runs, and a budget of ten dollars."""
    books.open(balance=10**12)
    budget = Budget(10 * UNITS_PER_DOLLAR, BudgetPeriod.MONTH)
    new = NewBudget(
        id="budget-1", workspace_id=LAB, scope=BudgetScope.WORKSPACE, subject="", budget=budget, created_at=NOW
    )
    books.do(lambda c: create_budget(c, new, NOW))


def spend(books: Books, run_id: str, dollars: float, at: int = NOW) -> None:
    """Have a run of the lab cost so much."""
    amount = round(dollars * UNITS_PER_DOLLAR)
    books.write(admission(run_id, amount, created_at=at))
    books.write(settlement(run_id, amount, finished_at=at))


def messages_of(receiver: FakePartner) -> Sequence[Request]:
    """Return the messages that arrived."""
    return receiver.requests(HOOK, "POST")


def test_webhook_tells_a_threshold_once_signed(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """The message has the figures, is signed like webhooks of runs, and is not told a second time."""
    run(office.channels.add(LAB, ChannelKind.WEBHOOK, f"{receiver.url}{HOOK}?token=hidden", SERVER))
    spend(books, "a", 8.5)
    assert (run(office.round()), run(office.round())) == (1, 0)
    (request,) = messages_of(receiver)
    verify(request, run(office.secrets.show(LAB)).text, office.now // 1000)
    told = json.loads(request.body)
    assert told["type"] == "alert.threshold"
    assert told["data"] == {
        "workspace": "lab-id-name",
        "message": "lab-id-name: 80 % of the budget of the workspace (10 US dollars a month) is spent: 8.5 US dollars."
        " It begins again on 2026-02-01 00:00 UTC.",
        "scope": "workspace", "subject": "", "period": "month", "limit": "10", "spent": "8.5", "held": "0",
        "since": "2026-01-01", "percent": 80, "time_zone": "UTC", "resets_at": "2026-02-01T00:00:00.000Z",
    }  # fmt: skip
    (alert,) = run(office.alerts_of())
    assert alert.deliveries[0].result.delivered_at == office.now
    assert "hidden" not in repr(alert)
    assert [(one.channel, one.delivered) for one in office.observations_of(AlertTried)] == [("webhook", True)]


def test_slack_is_told_in_its_form(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """A Slack-compatible webhook gets a text and no signature."""
    run(office.channels.add(LAB, ChannelKind.SLACK, f"{receiver.url}{HOOK}", SERVER))
    books.write(admission("a", 11 * UNITS_PER_DOLLAR))
    run(office.round())
    (request,) = messages_of(receiver)
    words = (
        "refused a run that may cost 11 US dollars; 0 are spent and 0 held. It begins again on 2026-02-01 00:00 UTC."
    )
    assert json.loads(request.body) == {
        "text": f"lab-id-name: the budget of the workspace (10 US dollars a month) {words}"
    }
    assert "webhook-signature" not in request.headers


@pytest.fixture
def new_office(guarded: Guarded, run: Run) -> Iterator[Callable[..., Office]]:
    """Return a function that makes what tells alerts."""
    made: list[Office] = []

    def make(**how: Any) -> Office:
        made.append(Office(guarded, **how))
        return made[-1]

    yield make
    for office in made:
        run(office.transport.close())
        assert office.observations_of(UnexpectedError) == []


def test_mail_is_handed_to_the_mail_server(
    books: Books, new_office: Callable[..., Office], letters: Letters, run: Run
) -> None:
    """A letter has a subject and the sentence; one that is refused is tried again, under the same name."""
    office = new_office(mailer=letters.mailer)
    run(office.channels.add(LAB, ChannelKind.EMAIL, "owner@example.org", SERVER))
    spend(books, "a", 5)
    letters.answer = "450 try later"
    assert run(office.round()) == 1
    letters.answer = "250 OK"
    office.now += PAUSES_MS[0]
    assert run(office.round()) == 1
    ((recipients, letter),) = letters.taken
    assert recipients == ["owner@example.org"]
    assert (letter["From"], letter["To"]) == ("fairlead@example.com", "owner@example.org")
    assert letter["Subject"] == "Fairlead, lab-id-name: a budget has come to a threshold"
    assert letter["Message-ID"].endswith("@example.com>")
    assert letter.get_content().startswith("lab-id-name: 50 % of the budget of the workspace")
    tried = [(one.number, one.status, one.error) for one in office.observations_of(AlertTried)]
    assert tried == [(1, 450, "refused"), (2, 250, None)]


def test_mail_server_that_is_away_is_tried_again(books: Books, new_office: Callable[..., Office], run: Run) -> None:
    """Where nobody listens, the letter waits."""
    office = new_office(mailer=Mailer(MailServer("127.0.0.1", 1, "none", "fairlead@example.com")))
    run(office.channels.add(LAB, ChannelKind.EMAIL, "owner@example.org", SERVER))
    spend(books, "a", 5)
    run(office.round())
    assert [(one.status, one.error) for one in office.observations_of(AlertTried)] == [(None, "unreachable")]


def test_plain_mail_server_is_told_nothing_where_it_must_be_secured(
    books: Books, new_office: Callable[..., Office], letters: Letters, run: Run
) -> None:
    """A server that does not offer TLS gets neither the password nor the letter."""
    server = MailServer("127.0.0.1", letters.port, "starttls", "fairlead@example.com", "user", "password")
    office = new_office(mailer=Mailer(server))
    run(office.channels.add(LAB, ChannelKind.EMAIL, "owner@example.org", SERVER))
    spend(books, "a", 5)
    run(office.round())
    assert letters.taken == []
    assert office.observations_of(AlertTried)[0].delivered is False


def test_failed_delivery_is_repeated_until_it_is_given_up(
    books: Books, office: Office, receiver: FakePartner, run: Run
) -> None:
    """A receiver that fails is told again after the pauses of webhooks; then it is given up, and said so."""
    receiver.script(HOOK, reply(500))
    run(office.channels.add(LAB, ChannelKind.WEBHOOK, f"{receiver.url}{HOOK}", SERVER))
    spend(books, "a", 5)
    assert run(office.round()) == 1
    for pause in PAUSES_MS:
        assert run(office.round()) == 0
        office.now += pause
        assert run(office.round()) == 1
    assert len({request.headers["webhook-id"] for request in messages_of(receiver)}) == 1
    assert [one.number for one in office.observations_of(AlertGivenUp)] == [len(PAUSES_MS) + 1]
    (alert,) = run(office.alerts_of())
    assert (alert.deliveries[0].tries, alert.deliveries[0].result.status) == (len(PAUSES_MS) + 1, 500)


def test_private_address_is_refused(new_office: Callable[..., Office], books: Books, run: Run) -> None:
    """An address of a network that is not public is refused at once; a name that leads there, when it is told."""
    office = new_office(private=False)
    for kind in (ChannelKind.WEBHOOK, ChannelKind.SLACK):
        with pytest.raises(BadChannelError, match="must lead to a public address"):
            run(office.channels.add(LAB, kind, "http://169.254.169.254/latest", SERVER))
    run(office.channels.add(LAB, ChannelKind.WEBHOOK, "http://localhost.localdomain/hook", SERVER))
    spend(books, "a", 5)
    run(office.round())
    assert office.observations_of(AlertTried)[0].error == "unreachable"


@pytest.mark.parametrize(
    ("kind", "target", "words"),
    [
        (ChannelKind.EMAIL, "owner@example.org", "has no mail server"),
        (ChannelKind.WEBHOOK, "ftp://example.org/x", "must be an absolute http or https address"),
        (ChannelKind.SLACK, "not an address", "must be an absolute http or https address"),
    ],
)
def test_channel_that_cannot_be_told_is_refused(
    office: Office, run: Run, kind: ChannelKind, target: str, words: str
) -> None:
    """What is wrong with a channel is said when it is made."""
    with pytest.raises(BadChannelError, match=words):
        run(office.channels.add(LAB, kind, target, SERVER))


@pytest.mark.parametrize(
    "address", ["owner", "a@b", "a b@example.org", "a@example.org\nBcc: x@example.org", "é@example.org"]
)
def test_mail_goes_to_plain_addresses_only(
    new_office: Callable[..., Office], run: Run, letters: Letters, address: str
) -> None:
    """Nothing that could become a header, or several recipients, is an address."""
    with pytest.raises(BadChannelError, match="not an e-mail address"):
        run(new_office(mailer=letters.mailer).channels.add(LAB, ChannelKind.EMAIL, address, SERVER))


def test_address_of_a_channel_is_kept_sealed(books: Books, office: Office, run: Run) -> None:
    """The address of a chat is a secret: what is shown of it opens nothing, and the database does not have it."""
    run(office.channels.add(LAB, ChannelKind.SLACK, "https://hooks.example.com/services/T0/B0/verysecretword", SERVER))
    (channel,) = run(office.channels.list_channels(LAB))
    assert channel.shown == "https://hooks.example.com/…word"
    assert "verysecret" not in repr(books.rows("SELECT * FROM alert_channels"))


def test_test_is_told_by_one_channel(office: Office, receiver: FakePartner, run: Run) -> None:
    """A channel can be tried; the others hear nothing of it."""
    channel = run(office.channels.add(LAB, ChannelKind.SLACK, f"{receiver.url}{HOOK}", SERVER))
    run(office.channels.add(LAB, ChannelKind.WEBHOOK, f"{receiver.url}{HOOK}", SERVER))
    run(office.channels.test(LAB, channel.id, SERVER))
    assert run(office.round()) == 1
    assert "this is a test" in messages_of(receiver)[0].body.decode()


def test_deleted_channel_is_told_nothing_more(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """What was still to be told is not, and channels of others cannot be deleted or tried."""
    channel = run(office.channels.add(LAB, ChannelKind.WEBHOOK, f"{receiver.url}{HOOK}", SERVER))
    spend(books, "a", 5)
    for wrong in (office.channels.delete("office", channel.id, SERVER), office.channels.test(LAB, "nothing", SERVER)):
        with pytest.raises(UnknownChannelError):
            run(wrong)
    run(office.channels.delete(LAB, channel.id, SERVER))
    assert run(office.round()) == 0
    assert run(office.channels.list_channels(LAB)) == []


def test_workspace_has_a_bounded_number_of_channels(office: Office, run: Run) -> None:
    """One more than the most is refused."""
    for _ in range(CHANNELS_MAX):
        run(office.channels.add(LAB, ChannelKind.WEBHOOK, "https://example.org/hook", SERVER))
    with pytest.raises(BadChannelError, match="at most"):
        run(office.channels.add(LAB, ChannelKind.WEBHOOK, "https://example.org/hook", SERVER))


def test_unusual_day_is_told_once(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """Three times the median of the days before, and a dollar more, is an anomaly; it is told once a day."""
    run(office.channels.add(LAB, ChannelKind.WEBHOOK, f"{receiver.url}{HOOK}", SERVER))
    for day in range(1, 9):
        spend(books, f"day {day}", 0.05 * day, NOW - day * DAY_MS)
    spend(books, "today", 1.2)
    run(office.teller.look_for_unusual_days())
    assert run(office.round()) == 0
    spend(books, "more of today", 0.1)
    run(office.teller.look_for_unusual_days())
    run(office.teller.look_for_unusual_days())
    assert run(office.round()) == 1
    told = json.loads(messages_of(receiver)[0].body)
    assert (told["type"], told["data"]["spent"], told["data"]["usual"]) == ("alert.anomaly", "1.3", "0.225")


def test_several_servers_tell_an_alert_once(
    books: Books, new_office: Callable[..., Office], receiver: FakePartner, run: Run
) -> None:
    """A threshold and an unusual day are found and claimed by several at the same moment, and told by one of them."""
    offices = [new_office() for _ in range(3)]
    run(offices[0].channels.add(LAB, ChannelKind.WEBHOOK, f"{receiver.url}{HOOK}", SERVER))
    for day in range(1, 9):
        spend(books, f"day {day}", 0.05, NOW - day * DAY_MS)
    spend(books, "today", 5)

    async def at_once() -> int:
        await asyncio.gather(*(office.teller.look_for_unusual_days() for office in offices))
        return sum(await asyncio.gather(*(office.round() for office in offices)))

    assert (run(at_once()), run(at_once())) == (2, 0)
    assert sorted(json.loads(one.body)["type"] for one in messages_of(receiver)) == ["alert.anomaly", "alert.threshold"]


def test_address_of_a_channel_is_in_no_log(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """Neither what was observed of a try nor the audit log has more of it than what is shown."""
    run(office.channels.add(LAB, ChannelKind.WEBHOOK, f"{receiver.url}{HOOK}?token=verysecret", SERVER))
    spend(books, "a", 5)
    receiver.script(HOOK, reply(500, b"verysecret"))
    assert run(office.round()) == 1
    assert office.observations_of(AlertTried)[0].status == 500
    assert "verysecre" not in repr(office.seen) + repr(books.rows("SELECT * FROM audit_entries"))
    assert "verysecre" not in repr(books.rows("SELECT * FROM alert_deliveries"))


def test_database_that_is_away_loses_no_alert(
    books: Books, office: Office, receiver: FakePartner, guarded: Guarded, run: Run
) -> None:
    """While the database is away nothing is claimed; what was told and not recorded is told again."""
    run(office.channels.add(LAB, ChannelKind.WEBHOOK, f"{receiver.url}{HOOK}", SERVER))
    spend(books, "a", 5)
    guarded.refusals = 3
    assert run(office.round()) == 0
    run(office.teller.look_for_unusual_days())
    assert run(office.teller.forget()) == 0
    assert run(office.round()) == 1
    assert len(office.observations_of(DatabaseTrouble)) == 3


def test_old_alerts_are_forgotten(books: Books, office: Office, receiver: FakePartner, run: Run) -> None:
    """After more than a year alerts are deleted of which nothing is left to tell."""
    run(office.channels.add(LAB, ChannelKind.WEBHOOK, f"{receiver.url}{HOOK}", SERVER))
    spend(books, "a", 5)
    office.now += 500 * DAY_MS
    assert run(office.teller.forget()) == 0
    run(office.round())
    assert (run(office.teller.forget()), run(office.alerts_of())) == (1, [])
