"""Admission: what is refused before a partner is asked, and in which order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conftest import Run
from fairlead.domain.accounts.callers import Billing, Caller, Gate, provider_gate
from fairlead.domain.faults import (
    ConcurrencyLimitExceeded,
    Fault,
    FaultError,
    Forbidden,
    InputRejected,
    InsufficientCredits,
    InvalidInput,
    ModelNotFound,
    NotEnabled,
    ServiceUnavailable,
    Unauthorized,
)
from fairlead.domain.runs.selection import RouteOptions
from fairlead.observing.observations import DatabaseTrouble
from fairlead.operations.accounts.keys import revoke_key
from fairlead.operations.accounts.workspaces import NewCredit, credit
from operations.servers import CENT, DOLLAR, Partner, Server
from storage.bookings import Books

NewCaller = Callable[..., Caller]
Refusal = Callable[..., Fault]


@pytest.fixture
def refusal(server: Server, partner: Partner, run: Run) -> Refusal:
    """Return a function that checks that a run is refused, asks no partner, and returns the fault."""

    def check(caller: Caller, model: str = "plain-now", body: Any = b"{}") -> Fault:
        with pytest.raises(FaultError) as caught:
            run(server.admit(caller, model, body))
        assert partner.calls == []
        return caught.value.fault

    return check


def test_admitted_run_is_durable_with_its_hold(server: Server, caller: Caller, books: Books, run: Run) -> None:
    """An admission is durable before anything is asked, with its hold, its key and its request."""
    admitted = run(server.admit(caller, body={"n": 2}))
    assert admitted.plan.hold == 20 * CENT
    row = books.state()
    assert (row["state"], row["hold"], row["key_id"], row["request"]) == (
        "dispatched",
        20 * CENT,
        caller.key_id,
        b'{"n": 2}',
    )


def test_default_of_the_model_is_priced(server: Server, caller: Caller, run: Run) -> None:
    """A field left out counts as the model's own default."""
    assert run(server.admit(caller)).plan.hold == 10 * CENT


@pytest.mark.req("R-05")
def test_unknown_model_is_refused_with_suggestions(refusal: Refusal, caller: Caller) -> None:
    """An unknown model is refused with what was perhaps meant."""
    fault = refusal(caller, "plain-new")
    assert isinstance(fault, ModelNotFound)
    assert "acme/plain-now" in fault.suggestions


@pytest.mark.req("R-08", "R-21")
@pytest.mark.parametrize("body", [{"n": 0}, {"n": "2"}, {"model": 5}])
def test_body_that_breaks_the_schema_is_refused(refusal: Refusal, caller: Caller, body: dict[str, Any]) -> None:
    """The model's schema decides what reaches a partner."""
    assert isinstance(refusal(caller, body=body), InputRejected)


@pytest.mark.req("R-21")
@pytest.mark.parametrize("named", ["acme/other", "other", ""])
def test_body_that_names_another_model_is_refused(refusal: Refusal, caller: Caller, named: str) -> None:
    """Path and body must name the same model."""
    fault = refusal(caller, body={"model": named})
    assert isinstance(fault, InputRejected)
    assert (fault.violations[0].loc, fault.violations[0].type) == (("body", "model"), "model_mismatch")


def test_named_provider_is_refused_before_the_body(server: Server, caller: Caller, run: Run) -> None:
    """Of a provider that may not be named and a body that names another model, the provider is the answer."""
    with pytest.raises(FaultError) as caught:
        run(server.admit(caller, "plain-now", {"model": "other"}, options=RouteOptions("nobody")))
    assert isinstance(caught.value.fault, InvalidInput)


def test_query_is_read_after_the_model_and_before_the_provider(server: Server, caller: Caller) -> None:
    """The query is read once the caller is known to have the model, and before its provider is looked at."""
    read: list[str] = []

    def read_options() -> RouteOptions:
        read.append("query")
        return RouteOptions()

    checks = server.admitter.checks
    with pytest.raises(FaultError) as unknown:
        checks.check_headers(caller, "acme/unknown", read_options)
    assert (type(unknown.value.fault), read) == (ModelNotFound, [])
    native = checks.check_headers(caller, "acme/plain-now").model.native.provider
    off_for = replace(caller, gates={provider_gate(native): Gate.OFF})
    with pytest.raises(FaultError) as off:
        checks.check_headers(off_for, "acme/plain-now", read_options)
    assert (type(off.value.fault), read) == (NotEnabled, ["query"])


@pytest.mark.parametrize("named", ["acme/plain-now", "plain-now"])
def test_body_may_name_its_model_in_full_or_in_part(server: Server, caller: Caller, run: Run, named: str) -> None:
    """The model may be named in full or by its last part."""
    assert run(server.admit(caller, body={"model": named})).model.id == "acme/plain-now"


@pytest.mark.req("R-38")
def test_earlier_refusal_is_told_first(new_caller: NewCaller, refusal: Refusal) -> None:
    """With everything wrong at once the order is rollout, unknown model, entitlement, provider."""
    wrong = {"models": ("b/*",), "providers": ("b",), "gates": {"provider:plain": Gate.UNKNOWN}}
    blocked = new_caller(name="other", balance=0, **{**wrong, "gates": {"router": Gate.OFF}})
    assert isinstance(refusal(blocked, "nothing-like-it"), NotEnabled)
    caller = new_caller(balance=0, **wrong)
    assert isinstance(refusal(caller, "nothing-like-it"), ModelNotFound)
    assert isinstance(refusal(caller), Forbidden)


@pytest.mark.req("R-38")
@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"gates": {"router": Gate.OFF}}, NotEnabled),
        ({"models": ("b/*",)}, Forbidden),
        ({"gates": {"provider:plain": Gate.OFF}}, NotEnabled),
        ({"providers": ("careful",)}, Forbidden),
        ({"in_flight_limit": 0}, Forbidden),
    ],
)
def test_every_missing_right_refuses(
    new_caller: NewCaller, refusal: Refusal, options: dict[str, Any], kind: type
) -> None:
    """Rollout, entitlement, provider and the block of a workspace each refuse."""
    assert type(refusal(new_caller(**options))) is kind


@pytest.mark.req("R-38")
def test_rights_are_checked_before_the_body(new_caller: NewCaller, refusal: Refusal) -> None:
    """Anyone who may not run a model learns that, not what is wrong with the body."""
    assert isinstance(refusal(new_caller(models=("b/*",)), body=b"not json"), Forbidden)


def test_empty_workspace_is_refused_before_the_body_is_read(new_caller: NewCaller, refusal: Refusal) -> None:
    """Without any money the body is not looked at."""
    assert refusal(new_caller(balance=0), body=b"not json") == InsufficientCredits(available=0)


def test_money_paid_in_a_moment_ago_is_noticed(
    server: Server, new_caller: NewCaller, refusal: Refusal, run: Run
) -> None:
    """That a workspace was empty a moment ago is confirmed before it is believed."""
    caller = new_caller(balance=0)
    assert caller.is_exhausted
    run(credit(server.database, "lab", NewCredit(DOLLAR, "just now"), server.clock))
    assert isinstance(refusal(caller, body=b"not json"), InvalidInput)
    assert run(server.admit(caller)).plan.hold == 10 * CENT


def test_body_is_checked_before_the_price(new_caller: NewCaller, refusal: Refusal) -> None:
    """A bad body is told before a price that cannot be paid."""
    caller = new_caller(balance=1)
    assert isinstance(refusal(caller, body={"n": 0}), InputRejected)
    assert refusal(caller) == InsufficientCredits(available=1, needed=10 * CENT)


def test_slot_is_checked_before_the_money(server: Server, new_caller: NewCaller, refusal: Refusal, run: Run) -> None:
    """Without a slot it does not matter that the money is short, too."""
    caller = new_caller(balance=10 * CENT, in_flight_limit=1)
    run(server.admit(caller, run_id="run-0"))
    assert refusal(caller) == ConcurrencyLimitExceeded(limit=1, current=1)


def test_postpaid_workspace_runs_up_to_its_cap(server: Server, new_caller: NewCaller, run: Run) -> None:
    """A postpaid workspace runs up to its cap without having paid in."""
    caller = new_caller(balance=0, billing=Billing.POSTPAID, cap=10 * CENT)
    assert not caller.is_exhausted
    assert run(server.admit(caller)).plan.hold == 10 * CENT


@pytest.mark.req("R-37")
def test_key_revoked_a_moment_ago_is_refused(server: Server, caller: Caller, refusal: Refusal, run: Run) -> None:
    """A caller that is still remembered cannot spend with a revoked key."""
    run(revoke_key(server.database, str(caller.key_id), server.clock))
    assert isinstance(refusal(caller), Unauthorized)


def test_model_without_a_price_is_unavailable(server: Server, caller: Caller, refusal: Refusal, folder: Path) -> None:
    """Without a card in force nothing is quoted, and nothing guessed."""
    file = folder / "plain-now.toml"
    file.write_text(file.read_text().replace("2020-01-01", "2999-01-01"))
    server.catalog.reload()
    assert isinstance(refusal(caller), ServiceUnavailable)


def test_run_that_cannot_be_recorded_does_not_start(
    server: Server, caller: Caller, refusal: Refusal, books: Books
) -> None:
    """Without the database nothing starts, and the trouble is observed."""
    server.database.refusals = 1
    fault = refusal(caller)
    assert isinstance(fault, ServiceUnavailable)
    assert fault.retry_after is None
    assert [trouble.doing for trouble in server.observations_of(DatabaseTrouble)] == ["admit"]
    assert books.rows("SELECT id FROM runs") == []
