"""Waiting for a slot: by tier, in order, costly runs apart, never past what may be committed (R-23, R-32)."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from api.legs import NATIVE
from api.queues import Client, NewClient, is_refused
from fake_partner import FakePartner, reply
from servers import Server, wait_until

pytestmark = pytest.mark.req("R-23", "R-32")

_LATER: Final = 10.0
"""Longer than a server takes to notice what nobody told it of, in seconds."""


@pytest.fixture
def held(queue: Server, partner: FakePartner) -> FakePartner:  # noqa: ARG001 -- after the server's own scripts
    """Return the partner, which answers nothing until it is released."""
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    return partner


def _places(client: Client, ids: Sequence[str], model: str = "fake/json-1") -> list[Any]:
    """The place of each run, or the status of those that have none any more."""
    told = [client.stands(one, model) for one in ids]
    return [one.get("queue_position", one["status"]) for one in told]


def _stand(client: Client, ids: Sequence[str], expected: list[Any], model: str = "fake/json-1") -> None:
    """Wait until runs stand so."""
    wait_until(
        lambda: _places(client, ids, model) == expected,
        f"{expected}, not {_places(client, ids, model)}",
        _LATER,
        0.05,
    )


@pytest.mark.parametrize("slots", [1, 2])
def test_no_more_runs_are_in_flight_than_the_tier_allows(new_client: NewClient, held: FakePartner, slots: int) -> None:
    """As many as the tier allows are under way, and the rest waits; all of them end."""
    client = new_client("--in-flight-limit", str(slots))
    ids = [client.queue() for _ in range(slots + 3)]
    _stand(client, ids, ["IN_PROGRESS"] * slots + [0, 1, 2])
    wait_until(lambda: len(held.requests()) == slots, "the partner is asked")
    assert client.figure("in_flight") == slots
    assert len(held.requests()) == slots
    held.release()
    for one in ids:
        assert client.wait_for_completion(one) == {"status": "COMPLETED"}
    assert len(held.requests()) == slots + 3


def test_runs_start_in_the_order_of_submission(new_client: NewClient, partner: FakePartner) -> None:
    """Runs of a workspace are started in the order in which they were submitted."""
    client = new_client("--in-flight-limit", "1")
    ids = [client.queue(body={"number": number}) for number in range(8)]
    for one in ids:
        client.wait_for_completion(one)
    assert [request.body for request in partner.requests()] == [b'{"number":%d}' % number for number in range(8)]


def test_synchronous_and_queued_runs_share_the_slots(new_client: NewClient, held: FakePartner) -> None:
    """Runs that are called and runs that are queued share the slots: a queued one waits for a call to end."""
    client = new_client("--in-flight-limit", "1")
    first = client.queue()
    client.in_progress(first)
    is_refused(client.run(), 429, "concurrency_limit_exceeded")
    second = client.queue()
    held.release()
    assert client.wait_for_completion(second) == {"status": "COMPLETED"}
    assert client.run().status_code == 200


def test_cheap_runs_pass_a_waiting_costly_run(new_client: NewClient, held: FakePartner) -> None:
    """Costly runs share a quarter of the slots: the second waits, and the cheap ones behind it go past it."""
    client = new_client("--in-flight-limit", "4")
    costly = [client.queue("fake/costly-1") for _ in range(2)]
    cheap = [client.queue() for _ in range(4)]
    _stand(client, costly, ["IN_PROGRESS", 0], "fake/costly-1")
    _stand(client, cheap, ["IN_PROGRESS"] * 3 + [1])
    held.release()
    for one in costly:
        assert client.wait_for_completion(one, "fake/costly-1") == {"status": "COMPLETED"}
    for one in cheap:
        assert client.wait_for_completion(one) == {"status": "COMPLETED"}


def test_queued_runs_never_pass_the_cap(new_client: NewClient, held: FakePartner) -> None:
    """Runs in flight are held for no more than the cap; the next waits, and so does the cheaper one behind it."""
    client = new_client("--commitment-limit", "2")
    dear = [client.queue("fake/dearer-1") for _ in range(3)]
    cheap = client.queue()
    _stand(client, dear, ["IN_PROGRESS", "IN_PROGRESS", 0], "fake/dearer-1")
    assert _places(client, [cheap]) == [1]
    assert client.figure("held") == "3.01"
    held.release()
    for one in dear:
        assert client.wait_for_completion(one, "fake/dearer-1") == {"status": "COMPLETED"}
    assert client.wait_for_completion(cheap) == {"status": "COMPLETED"}
    assert client.figure("balance") == "-3.01"


@pytest.mark.parametrize("limit", ["3", "-1"])
def test_raised_limit_takes_effect_within_seconds(new_client: NewClient, held: FakePartner, limit: str) -> None:
    """Within seconds of an operator raising the limit the runs it has room for begin."""
    client = new_client("--in-flight-limit", "1")
    ids = [client.queue() for _ in range(5)]
    _stand(client, ids, ["IN_PROGRESS", 0, 1, 2, 3])
    client.change("--in-flight-limit", limit)
    room = 5 if limit == "-1" else 3
    _stand(client, ids, ["IN_PROGRESS"] * room + list(range(5 - room)))
    assert client.figure("in_flight") == room
    held.release()


@pytest.mark.req("R-28")
def test_waiting_run_keeps_the_markup_it_was_admitted_with(new_client: NewClient, held: FakePartner) -> None:
    """Runs that wait when an operator changes the workspace's markup cost what was held for them."""
    client = new_client("--in-flight-limit", "1", "--markup", "-10")
    ids = [client.queue() for _ in range(2)]
    client.in_progress(ids[0])
    client.change("--markup", "50")
    held.release()
    for one in ids:
        client.wait_for_completion(one)
        assert client.charges(one) == ["0.009"]
    assert {row["rate_version"] for row in client.server.ledger(client.workspace)} == {"fake-1-10%"}


def test_raised_cap_takes_effect_within_seconds(new_client: NewClient, held: FakePartner) -> None:
    """Within seconds of an operator raising the cap on committed spend the runs it has room for begin."""
    client = new_client("--commitment-limit", "1", "--in-flight-limit", "10")
    ids = [client.queue("fake/dearer-1") for _ in range(3)]
    _stand(client, ids, ["IN_PROGRESS", 0, 1], "fake/dearer-1")
    client.change("--commitment-limit", "2")
    _stand(client, ids, ["IN_PROGRESS", "IN_PROGRESS", 0], "fake/dearer-1")
    held.release()


def test_blocked_workspace_starts_nothing(new_client: NewClient, partner: FakePartner, held: FakePartner) -> None:
    """Blocking a workspace stops what waits, until it is unblocked; what is under way ends as it would."""
    client = new_client("--in-flight-limit", "1")
    ids = [client.queue() for _ in range(3)]
    _stand(client, ids, ["IN_PROGRESS", 0, 1])
    client.change("--in-flight-limit", "0")
    partner.script(NATIVE, reply(200, b"{}"))
    held.release()
    _stand(client, ids, ["COMPLETED", 0, 1])
    assert len(partner.requests()) == 1
    client.change("--in-flight-limit", "1")
    _stand(client, ids, ["COMPLETED"] * 3)


def test_stuck_workspace_does_not_delay_another(new_client: NewClient, partner: FakePartner) -> None:
    """A workspace whose partner never answers does not hold up the queues of the others."""
    stuck = new_client("--in-flight-limit", "1")
    partner.script("/hasty", partner.hold(reply(200, b"{}")))
    partner.script("/tasks", partner.hold(reply(200, b"{}")))
    waiting = [stuck.queue("fake/task-1") for _ in range(6)]
    others = [new_client("--in-flight-limit", "1") for _ in range(6)]
    ids = [(one, one.queue()) for one in others for _ in range(3)]
    for one, request_id in ids:
        assert one.wait_for_completion(request_id) == {"status": "COMPLETED"}
    _stand(stuck, waiting, ["IN_PROGRESS", 0, 1, 2, 3, 4], "fake/task-1")
    for request_id in waiting[1:]:
        assert stuck.cancel(request_id, "fake/task-1").status_code == 202


@pytest.mark.req("R-29")
def test_every_end_gives_its_slot_to_the_next(new_client: NewClient, partner: FakePartner) -> None:
    """Every way to end gives the slot to the next: failure, success, cancellation."""
    client = new_client("--in-flight-limit", "1", "--billing", "prepaid", credit="0.05")
    partner.script(NATIVE, reply(500), reply(200, b"<", "text/html"), reply(200, b"{}"))
    ids = [client.queue() for _ in range(5)]
    client.cancel(ids[3])
    ended = [client.wait_for_completion(one).get("error_type") for one in ids]
    assert [bucket for at, bucket in enumerate(ended) if at != 3] == ["provider_error", "provider_error", None, None]
    assert ended[3] in ("cancelled", None)  # it may have been under way by then
    paid = ended.count(None)
    assert (client.figure("held"), client.figure("in_flight")) == ("0", 0)
    assert client.figure("balance") == f"{0.05 - 0.01 * paid:.2f}"


def _revoke(client: Client) -> None:
    (key,) = [row for row in client.server.cli("keys", "list", "--json") if row["workspace"] == client.workspace]
    client.server.cli("keys", "revoke", key["id"])


def _rule_out(client: Client) -> None:
    client.change("--providers", "fal")


@pytest.mark.parametrize("change", [_revoke, _rule_out], ids=["key", "provider"])
def test_admitted_run_is_not_judged_again(
    new_client: NewClient, held: FakePartner, change: Callable[[Client], None]
) -> None:
    """A run that was taken in goes on, whatever is taken from its workspace while it waits: its money is held."""
    client = new_client("--in-flight-limit", "1")
    ids = [client.queue() for _ in range(2)]
    _stand(client, ids, ["IN_PROGRESS", 0])
    change(client)
    held.release()
    wait_until(lambda: client.figure("in_flight") == 0 and client.figure("held") == "0", "both have ended")
    assert (len(held.requests()), client.figure("balance")) == (2, "-0.02")


@pytest.mark.req("R-17")
def test_run_whose_own_key_is_gone_is_not_billed(
    new_client: NewClient, partner: FakePartner, held: FakePartner
) -> None:
    """A run that was to be made with a key which was deleted while it waited ends unbilled; ours is not shown."""
    client = new_client("--in-flight-limit", "1")
    client.store_key()
    ids = [client.queue() for _ in range(2)]
    _stand(client, ids, ["IN_PROGRESS", 0])
    assert client.request("DELETE", "/v2/provider-keys/fake").status_code == 204
    held.release()
    assert client.wait_for_completion(ids[1]) == {"status": "COMPLETED", "error_type": "service_unavailable"}
    is_refused(client.collect(ids[1]), 503, "service_unavailable")
    assert [one.headers["authorization"] for one in partner.requests()] == ["Bearer sk-own-key-0f6b2a9c41"]
    assert client.figure("balance") == "0"
