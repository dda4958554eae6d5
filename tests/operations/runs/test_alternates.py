"""Alternate providers: what is sent to them in their words, what comes back in ours, and whose key is shown."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InputRejected, KeyConflict, ProviderError, Upstream
from fairlead.domain.runs.outcomes import Completed, Failed
from fairlead.domain.runs.selection import RouteOptions
from fairlead.observing.observations import AnswerLeftRaw
from operations.servers import CENT, DOLLAR, DONE, OURS, Partner, Server, idempotency_key, leg_text, model_text
from storage.bookings import Books
from waiting import until

_TRANSLATION = """
[legs.translation]
fields = [{ from = "/n", to = "/count" }, { from = "/size", to = ["/width", "/height"], glue = "x", kind = "integer" }]
constants = { "/sync" = true }
dropped = { "/user" = "users are not kept apart" }

[legs.translation.answer]
fields = [{ from = "/pictures/*/link", to = "/data/*/url" }]
require = ["/data/0/url"]
"""
_OPERATIONS = """
[[operations]]
name = "edit"
edit = true
when = [{ at = "/image" }]

[[operations]]
name = "generate"

"""
_CASES = 'cases = [{ operations = ["edit"], price = "0.50" }]\n'
SPARE = RouteOptions(provider="spare")
STRICT = RouteOptions(provider="spare", is_strict=True)
KEY = idempotency_key()


@pytest.fixture
def folder(folder: Path) -> Path:
    """Return the folder with models for alternates, own keys and operations."""
    texts = {
        "said": model_text("said", "plain", "now", more=leg_text("spare", more=_TRANSLATION)),
        "said-later": model_text("said-later", "plain", "now", more=leg_text("spare", "later", more=_TRANSLATION)),
        "said-again": model_text("said-again", "plain", "now", more=leg_text("third", more=_TRANSLATION)),
        "locked": model_text("locked", "locked", "now", more=leg_text("spare")),
        "locked-later": model_text("locked-later", "locked", "later"),
        "editor": model_text("editor", "careful", "now", head=_OPERATIONS, more=_CASES),
    }
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


def result_of(answer: Any) -> Any:
    """The document of a run that completed."""
    assert isinstance(answer.outcome, Completed), answer
    return json.loads(answer.outcome.content)


def owning(caller: Caller, *providers: str) -> Caller:
    """The caller, with keys of its own stored for some providers."""
    return Caller(caller.workspace_id, caller.workspace, caller.key_id, own_keys=frozenset(providers))


@pytest.mark.req("R-12")
def test_alternate_is_sent_a_translated_body(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """The body goes out in the provider's words, its answer comes back in ours, and what is lost is named."""
    partner.answers["/spare/now"] = {"data": 1, "pictures": [{"link": "https://cdn.example/a"}], "used": 1}
    answer = run(server.answer(caller, "said", {"n": 2, "size": "3x4", "user": "me"}, options=SPARE))
    assert json.loads(partner.bodies[0]) == {"count": 2, "width": 3, "height": 4, "sync": True}
    assert result_of(answer)["data"] == [{"url": "https://cdn.example/a"}]
    assert answer.outcome.content_type == "application/json"
    assert answer.dropped == ("user: users are not kept apart",)
    assert (answer.fallback_provider, answer.charge, partner.calls) == (None, 10 * CENT, ["POST /spare/now"])


@pytest.mark.req("R-12", "S-02")
def test_large_answer_of_an_alternate_is_translated(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """Its long texts come out whole, where they were moved as where they were left."""
    link, text = "data:image/png;base64," + "A" * 300_000, 'é\n"' * 50_000
    partner.answers["/spare/now"] = {"data": 1, "pictures": [{"link": link}], "used": 1, "more": {"text": text}}
    answer = run(server.answer(caller, "said", {"n": 2}, options=SPARE))
    found = result_of(answer)
    assert (found["data"], found["more"]) == ([{"url": link}], {"text": text})
    assert answer.charge == 10 * CENT


@pytest.mark.req("R-12")
def test_answer_that_cannot_be_translated_is_passed_on_raw(server: Server, caller: Caller, run: Run) -> None:
    """An answer without what the translation needs goes out as it came, and that is observed."""
    answer = run(server.answer(caller, "said", options=SPARE))
    assert result_of(answer) == DONE
    assert server.observations_of(AnswerLeftRaw) == [AnswerLeftRaw("run-1", "acme/said", "spare")]


@pytest.mark.req("R-12")
def test_native_leg_is_sent_the_callers_bytes(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """The native leg gets the caller's bytes after the model's name, and its answer is left alone."""
    body = b'{ "n" : 1 , "user":"me"}'
    sent = [b'{"model":"said",' + body[1:]]
    answer = run(server.answer(caller, "said", body))
    assert (partner.bodies, answer.dropped, result_of(answer)) == (sent, (), DONE)
    assert server.observations_of(AnswerLeftRaw) == []


@pytest.mark.req("R-12")
def test_body_the_model_refuses_is_not_translated(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """A body that is translated must be a good native one."""
    with pytest.raises(FaultError) as caught:
        run(server.answer(caller, "said", {"n": 0}, options=SPARE))
    assert isinstance(caught.value.fault, InputRejected)
    assert partner.calls == []


@pytest.mark.req("R-13")
def test_strict_mode_passes_body_and_answer_unchanged(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """Bytes go through both ways as they are, and the native schema is not asked."""
    partner.answers["/spare/now"] = {"data": 1, "pictures": [{"link": "https://cdn.example/a"}], "used": 2}
    body = b' {"n":0, "count" : "what only the provider knows"}'
    answer = run(server.answer(caller, "said", body, options=STRICT))
    assert partner.bodies == [body]
    assert result_of(answer) == partner.answers["/spare/now"]
    assert answer.dropped == ()
    assert server.observations_of(AnswerLeftRaw) == []


@pytest.mark.req("R-17", "R-29")
def test_run_with_the_callers_key_is_not_billed(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """The caller's own credential is shown, ours is not, and nothing is held or charged."""
    run(server.own_keys.put(caller.workspace_id, "locked", "own-key"))
    answer = run(server.answer(owning(caller, "locked"), "locked", {"n": 4}))
    assert isinstance(answer.outcome, Completed)
    assert (answer.charge, partner.credentials) == (None, ["Bearer own-key"])
    assert books.entries()[1:] == [("hold", 0, 0), ("post", 0, 0)]
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)


@pytest.mark.req("R-17")
def test_run_without_a_key_of_the_callers_shows_ours(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """Our credential serves anyone who has stored none."""
    assert run(server.answer(caller, "locked")).charge == 10 * CENT
    assert partner.credentials == [f"Bearer {OURS}"]


@pytest.mark.req("R-14", "R-17")
@pytest.mark.parametrize("status", [401, 429, 503])
def test_failed_run_with_the_callers_key_is_not_retried_with_ours(
    server: Server, caller: Caller, partner: Partner, run: Run, status: int
) -> None:
    """Neither our credential nor another provider stands in for the caller's own key."""
    run(server.own_keys.put(caller.workspace_id, "locked", "own-key"))
    partner.statuses["/locked/now"] = status
    answer = run(server.answer(owning(caller, "locked"), "locked"))
    assert isinstance(answer.outcome, Failed)
    assert (partner.calls, partner.credentials) == (["POST /locked/now"], ["Bearer own-key"])


@pytest.mark.req("R-17")
def test_explicit_provider_conflicts_with_a_stored_key(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """Naming an alternate is a conflict with a stored key; nobody is asked."""
    run(server.own_keys.put(caller.workspace_id, "locked", "own-key"))
    with pytest.raises(FaultError) as caught:
        run(server.answer(owning(caller, "locked"), "locked", options=SPARE))
    assert isinstance(caught.value.fault, KeyConflict)
    assert caught.value.fault.detail.startswith("this request resolved a BYOK credential")
    assert partner.calls == []


async def crash(server: Server, partner: Partner, caller: Caller, model: str, calls: int, **how: Any) -> None:
    """Start a run, and kill its server when the partner has had so many calls."""
    killed = asyncio.Event()

    async def die() -> None:
        if len(partner.calls) == calls:
            await killed.wait()

    partner.before = die
    execution = server.executor.start(await server.admit(caller, model, **how))
    await until(lambda: len(partner.calls) == calls)
    await server.executor.drain(0.01)
    await asyncio.wait([execution.task])
    killed.set()
    partner.before = None


async def take_over(server: Server) -> None:
    """Take over the one run there is, and see it to its end."""
    assert await server.queue.take_over() == 1
    await server.executor.drain(5)


@pytest.mark.req("R-14", "R-18")
def test_takeover_remembers_that_a_run_fell_back(
    server: Server, start_server: Callable[..., Server], caller: Caller, partner: Partner, run: Run
) -> None:
    """A run that was taken over after its move to another provider still names who served it, when it is told again."""
    partner.statuses["/now"] = 503
    run(crash(server, partner, caller, "said-later", 3, body=b'{"prompt": "x"}', key=KEY))  # refused, taken, polled
    successor = start_server("server-2")
    run(take_over(successor))
    told = run(successor.answer(caller, "said-later", b'{"prompt": "x"}', key=KEY, run_id="run-2"))
    assert (told.is_replay, told.fallback_provider) == (True, "spare")


@pytest.mark.req("R-17", "R-29")
def test_takeover_uses_the_callers_key(
    server: Server, start_server: Callable[..., Server], caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A run with the caller's key goes on with that one, and stays unbilled."""
    run(server.own_keys.put(caller.workspace_id, "locked", "own-key"))
    run(crash(server, partner, owning(caller, "locked"), "locked-later", 2))
    run(take_over(start_server("server-2")))
    assert partner.calls == ["POST /locked/later", *["GET /locked/later/task-7"] * 2]
    assert set(partner.credentials) == {"Bearer own-key"}
    assert (books.state()["state"], books.figures(caller.workspace_id)) == ("succeeded", (DOLLAR, 0, 0))


@pytest.mark.req("R-17")
def test_takeover_without_the_callers_key_gives_the_run_up(
    server: Server, start_server: Callable[..., Server], caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Where the key is gone by then, the run is given up, and nothing is shown to anybody."""
    run(server.own_keys.put(caller.workspace_id, "locked", "own-key"))
    run(crash(server, partner, owning(caller, "locked"), "locked-later", 2))
    run(server.own_keys.delete(caller.workspace_id, "locked"))
    run(take_over(start_server("server-2")))
    assert len(partner.calls) == 2
    assert (books.state()["state"], books.figures(caller.workspace_id)) == ("lost", (DOLLAR, 0, 0))


@pytest.mark.req("R-13", "R-18")
@pytest.mark.parametrize(("options", "translated"), [(STRICT, False), (SPARE, True)])
def test_takeover_answers_in_the_form_that_was_asked_for(
    server: Server,
    start_server: Callable[..., Server],
    caller: Caller,
    partner: Partner,
    run: Run,
    options: RouteOptions,
    *,
    translated: bool,
) -> None:
    """Strict or translated, at the provider that was asked for: the server that takes over answers in the same form."""
    native = {"status": "done", "data": 1, "pictures": [{"link": "https://cdn.example/a"}]}
    partner.answers["/spare/later/task-7"] = native
    run(crash(server, partner, caller, "said-later", 2, options=options, key=KEY))
    successor = start_server("server-2")
    run(take_over(successor))
    told = run(successor.answer(caller, "said-later", options=options, key=KEY, run_id="run-2"))
    assert told.is_replay
    assert result_of(told)["data"] == ([{"url": "https://cdn.example/a"}] if translated else 1)


@pytest.mark.req("R-12", "R-13")
@pytest.mark.parametrize(("strict", "sent"), [(True, b'{"n":2}'), (False, b'{"sync":true,"count":2}')])
def test_takeover_repeats_a_call_byte_for_byte(
    server: Server,
    start_server: Callable[..., Server],
    caller: Caller,
    partner: Partner,
    run: Run,
    *,
    strict: bool,
    sent: bytes,
) -> None:
    """What is sent again under a key is what was sent at first, byte for byte."""
    options = RouteOptions(provider="third", is_strict=strict)
    run(crash(server, partner, caller, "said-again", 1, body=b'{"n":2}', options=options))
    run(take_over(start_server("server-2")))
    assert (partner.bodies, partner.keys) == ([sent] * 2, ["run-1"] * 2)


@pytest.mark.req("R-16", "R-28")
def test_takeover_charges_the_admitted_operation(
    server: Server, start_server: Callable[..., Server], caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A run is charged as the operation it was admitted as, no matter who ends it."""
    run(crash(server, partner, caller, "editor", 1, body={"image": "data:,"}))
    assert (books.state()["operation"], books.state()["hold"]) == ("edit", 50 * CENT)
    run(take_over(start_server("server-2")))
    assert (books.state()["state"], books.state()["charge"]) == ("succeeded", 50 * CENT)


def test_repeat_under_a_key_ends_with_the_partners_failure(
    server: Server, start_server: Callable[..., Server], caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A takeover that is answered with a failure ends the run with that failure."""
    run(crash(server, partner, caller, "careful-now", 1, key=KEY))
    partner.statuses["/now"] = 500
    successor = start_server("server-2")
    run(take_over(successor))
    told = run(successor.answer(caller, "careful-now", key=KEY, run_id="run-2"))
    assert told.is_replay
    assert isinstance(told.outcome, Failed)
    assert told.outcome.fault == ProviderError(upstream=Upstream(500))
    assert (books.state()["reason"], books.figures(caller.workspace_id)) == ("provider_error", (DOLLAR, 0, 0))
