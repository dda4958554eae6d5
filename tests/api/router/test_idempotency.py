"""Idempotency keys over HTTP: told again, in conflict, still running, or free once more (R-18)."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx
import pytest

from api.conftest import SETTINGS, NewName
from api.legs import FAL, KEYS, NATIVE, at_ease, fill_legs, images, native
from fake_partner import Behaviour, CatalogFolder, FakePartner, drop, hang, reply, reply_json
from servers import Server, serving, wait_until

pytestmark = pytest.mark.req("R-18")

_REPLAYED: Final = "idempotent-replayed"
_LINKLESS: Final = b' {"made" : true}\n'
Ask: TypeAlias = Callable[..., httpx.Response]


@pytest.fixture
def ask(legs: Server, new_name: NewName) -> Ask:
    """Return a function that runs a model under an idempotency key, for a workspace of this test."""
    name = new_name()
    return asker(legs, legs.new_workspace(name, "--in-flight-limit", "3"))


def asker(server: Server, api_key: str) -> Ask:
    """Return a function that runs a model for the owner of an API key."""

    def ask(key: str | None = "once", model: str = "fake/many-1", **options: Any) -> httpx.Response:
        headers = {"X-API-Key": api_key, "Content-Type": "application/json", **options.pop("headers", {})}
        if key is not None:
            headers["Idempotency-Key"] = key
        if "content" not in options:
            options = {"json": {"prompt": "a"}, **options}
        return server.client.post(f"/v2/models/{model}", headers=headers, **options)

    return ask


def _conflict(response: httpx.Response) -> None:
    """Assert that a new key is needed: another key never comes by waiting."""
    assert (response.status_code, response.headers["x-service-error-type"]) == (409, "invalid_input")
    assert "retry-after" not in response.headers
    assert _REPLAYED not in response.headers


def _still_running(response: httpx.Response) -> None:
    """Assert that the same key is to be tried again in a while."""
    assert (response.status_code, response.headers["x-service-error-type"]) == (409, "concurrency_limit_exceeded")
    assert int(response.headers["retry-after"]) > 0


@pytest.mark.req("R-28", "R-29")
def test_call_with_a_key_is_made_once(legs: Server, partner: FakePartner, ask: Ask) -> None:
    """The same key and call are answered with the same bytes, type and credits; the partner is asked once."""
    partner.script(NATIVE, reply(200, _LINKLESS, "application/json; charset=UTF-8"))
    first, again = ask(), ask()
    assert (first.status_code, _REPLAYED in first.headers) == (200, False)
    assert (again.status_code, again.headers[_REPLAYED]) == (200, "true")
    assert again.content == first.content == _LINKLESS
    for name in ("content-type", "x-service-credits-used", "x-content-type-options"):
        assert again.headers[name] == first.headers[name]
    costs = [name for name in first.headers if name.startswith("x-litellm-")]
    assert len(costs) == 2, "a gateway in front reads what the call has cost"
    assert not any(name in again.headers for name in costs), "and would count a replay again"
    assert again.headers["x-service-request-id"] != first.headers["x-service-request-id"]
    assert len(partner.requests()) == 1
    assert legs.charges(first.headers["x-service-request-id"]) == []  # the default workspace paid nothing


@pytest.mark.req("R-12", "R-14")
def test_replay_restates_who_served(partner: FakePartner, ask: Ask) -> None:
    """Who served a run after a fallback, what was dropped on the way and what it cost is restated too."""
    partner.script(NATIVE, reply(500))
    partner.script(FAL, images())
    body = {"prompt": "a", "user": "é, me", "n": 2}
    first, again = (ask(json=body) for _ in range(2))
    assert again.headers[_REPLAYED] == "true"
    for name in (
        "x-service-router-fallback-provider",
        "x-service-router-dropped-params",
        "x-service-credits-used",
        "content-type",
    ):
        assert again.headers[name] == first.headers[name]
    assert again.content == first.content
    assert len(partner.requests(FAL)) == 1


def test_replay_of_bytes_keeps_their_type(partner: FakePartner, ask: Ask) -> None:
    """Bytes are kept by us with their type, also when they are many."""
    generated = bytes(range(256)) * 1024
    partner.script("/bytes", reply(200, generated, "image/png"))
    first, again = (ask(model="fake/bytes-1", json={}) for _ in range(2))
    assert (again.content, again.headers["content-type"], again.headers[_REPLAYED]) == (generated, "image/png", "true")
    assert first.content == again.content
    assert len(partner.requests()) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"json": {"prompt": "b"}},
        {"content": b'{"prompt": "a"}'},
        {"params": {"fallback_provider": "true"}},
        {"model": "fake/unauthored-1"},
    ],
    ids=["another body", "other bytes", "another query", "another path"],
)
def test_key_with_another_call_is_a_conflict(partner: FakePartner, ask: Ask, other: dict[str, Any]) -> None:
    """A key used for another body, query or path is a conflict, and nobody is called."""
    assert ask().status_code == 200
    _conflict(ask(**other))
    assert len(partner.requests()) == 1


def test_key_of_a_running_call_is_told_to_wait(partner: FakePartner, ask: Ask) -> None:
    """While the first call runs the same key is 409 with a wait, another call under it 409 without; then it is told."""
    partner.script(NATIVE, partner.hold(reply(200, _LINKLESS)))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask)
        wait_until(lambda: partner.requests(NATIVE), "the call is under way")
        _still_running(ask())
        _conflict(ask(json={"prompt": "b"}))
        partner.release()
        assert first.result().content == _LINKLESS
    assert ask().headers[_REPLAYED] == "true"
    assert len(partner.requests()) == 1


def test_one_of_many_calls_with_a_key_runs(partner: FakePartner, ask: Ask) -> None:
    """Exactly one of many concurrent calls with a key runs; the others are told to wait or get its answer."""
    partner.script(NATIVE, partner.hold(reply(200, _LINKLESS)))
    start = threading.Barrier(16)

    def call(_: int) -> httpx.Response:
        start.wait()
        return ask()

    with ThreadPoolExecutor(16) as pool:
        calls = pool.map(call, range(16))
        wait_until(lambda: partner.requests(NATIVE), "one call is under way")
        partner.release()
        answers = list(calls)
    fresh = [answer for answer in answers if answer.status_code == 200 and _REPLAYED not in answer.headers]
    assert len(fresh) == 1
    for answer in answers:
        if answer.status_code != 200:
            _still_running(answer)
    assert len(partner.requests()) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"{}", 422), (b'{"prompt":"a","model":"b"}', 422)],
    ids=["JSON", "schema", "model"],
)
def test_refused_call_leaves_its_key_free(partner: FakePartner, ask: Ask, body: bytes, status: int) -> None:
    """What we refuse before anybody is called leaves the key free for a better call."""
    refused = ask(content=body)
    assert (refused.status_code, _REPLAYED in refused.headers) == (status, False)
    assert ask().status_code == 200
    assert len(partner.requests()) == 1


def test_every_refusal_of_ours_leaves_its_key_free(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """A key is free again after 402, 403, 404, 409 of the selection and 429 as well."""
    name = new_name()
    call = asker(legs, legs.new_workspace(name, "--billing", "prepaid"))
    assert call("broke").status_code == 402
    legs.cli("workspaces", "credit", name, "1")
    assert call("broke").status_code == 200
    assert call("lost", model="fake/none-1").status_code == 404
    assert call("lost").status_code == 200
    assert call("wrong", params={"model_provider": "runware"}).status_code == 400
    assert call("wrong").status_code == 200
    legs.cli("workspaces", "change", name, "--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, _LINKLESS)))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(call, "slow")
        wait_until(lambda: legs.workspace(name)["in_flight"] == 1, "a run in flight")
        assert call("full").status_code == 429
        partner.release()
        assert first.result().status_code == 200
    full = call("full")
    assert (full.status_code, _REPLAYED in full.headers) == (200, False)


@pytest.mark.parametrize("status", [429, 503])
def test_refusal_by_a_full_partner_leaves_the_key_free(partner: FakePartner, ask: Ask, status: int) -> None:
    """A partner at capacity did nothing, so the same key may try again."""
    partner.script(NATIVE, reply_json({"error": {"code": "busy"}}, status), reply(200, _LINKLESS))
    params = {"fallback_provider": "false"}
    assert ask(params=params).status_code == 503
    again = ask(params=params)
    assert (again.status_code, _REPLAYED in again.headers) == (200, False)
    assert len(partner.requests()) == 2


@pytest.mark.parametrize(
    ("behaviour", "status", "headers"),
    [
        pytest.param(
            reply_json({"error": {"message": "no", "param": "a.0", "kind": "odd"}}, 422),
            422,
            {"x-service-upstream-status": "422", "x-service-error-type": "invalid_input"},
            id="a 422 of the partner",
        ),
        pytest.param(
            reply_json({"error": {"message": "too dark"}}, 400),
            400,
            {"x-service-upstream-detail": "too dark", "x-service-upstream-status": "400"},
            id="a 400 of the partner",
        ),
        pytest.param(
            reply_json({"error": {"code": "refused", "side": "prompt"}}, 400),
            400,
            {"x-service-refusal-subject": "input_text", "x-service-error-type": "content_policy_violation"},
            id="a refusal of content",
        ),
        pytest.param(reply(500), 502, {"x-service-error-type": "provider_error"}, id="a failure"),
        pytest.param(reply(200, b"[]"), 502, {"x-service-upstream-status": "200"}, id="no result"),
        pytest.param(reply(504), 504, {"x-service-error-type": "provider_timeout"}, id="a time-out"),
        pytest.param(drop(), 502, {"x-service-error-type": "provider_error"}, id="no answer"),
    ],
)
@pytest.mark.req("R-20", "R-21", "R-22")
def test_failure_of_a_partner_is_replayed(
    partner: FakePartner, ask: Ask, behaviour: Behaviour, status: int, headers: dict[str, str]
) -> None:
    """Whatever a partner answered, or may have begun, is recorded: the same failure is told again and marked."""
    partner.script(NATIVE, behaviour, reply(200, _LINKLESS))
    params = {"fallback_provider": "false"}
    first, again = (ask(params=params) for _ in range(2))
    assert (first.status_code, again.status_code) == (status, status)
    assert (again.content, again.headers[_REPLAYED]) == (first.content, "true")
    assert _REPLAYED not in first.headers
    assert headers.items() <= first.headers.items()
    assert headers.items() <= again.headers.items()
    assert len(partner.requests()) == 1


def test_keys_belong_to_their_workspace(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """A key belongs to the workspace: another one may use the same, a second API key of this one may not."""
    name = new_name()
    mine, yours = asker(legs, legs.new_workspace(name)), asker(legs, legs.new_workspace(new_name()))
    second = asker(legs, legs.cli("keys", "create", name, "--json")["key"])
    assert [_REPLAYED in call().headers for call in (mine, yours, second)] == [False, False, True]
    assert len(partner.requests()) == 2


@pytest.mark.parametrize(("key", "status"), [("", 400), ("k", 200), ("k" * 255, 200), ("k" * 256, 400)])
def test_key_has_1_to_255_characters(partner: FakePartner, ask: Ask, key: str, status: int) -> None:
    """A key has 1 to 255 characters."""
    answer = ask(key)
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["error_type"] == "invalid_input"
        assert not partner.requests()
    else:
        assert ask(key).headers[_REPLAYED] == "true"


def test_call_without_a_key_is_never_replayed(partner: FakePartner, ask: Ask) -> None:
    """Calls without a key are calls of their own."""
    assert not any(_REPLAYED in ask(None).headers for _ in range(2))
    assert len(partner.requests()) == 2


def test_replay_needs_neither_money_nor_a_slot(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """Telling a result again costs nothing: it works with no balance left and every slot taken."""
    name = new_name()
    call = asker(legs, legs.new_workspace(name, "--billing", "prepaid", "--in-flight-limit", "1", credit="0.02"))
    assert [call(key).status_code for key in ("one", "two")] == [200, 200]
    assert call("three").status_code == 402
    assert call("one").headers[_REPLAYED] == "true"
    legs.cli("workspaces", "credit", name, "0.01")
    partner.script(NATIVE, partner.hold(reply(200, _LINKLESS)))
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(call, "slow")
        wait_until(lambda: legs.workspace(name)["in_flight"] == 1, "a run in flight")
        assert call("one").headers[_REPLAYED] == "true"
        partner.release()
        assert slow.result().status_code == 200


def test_replay_needs_the_right_to_run(legs: Server, new_name: NewName) -> None:
    """A replay is a call like any other: anyone who may no longer run the model is not told its result."""
    name = new_name()
    call = asker(legs, legs.new_workspace(name))
    assert call().status_code == 200
    legs.cli("workspaces", "change", name, "--models", "none")
    wait_until(lambda: call().status_code == 403, "the change is seen")


def test_partners_link_is_replayed_within_its_window(partner: FakePartner, ask: Ask) -> None:
    """Within its window a result that names the partner's own links is told again, as it was."""
    partner.script(FAL, images("https://cdn.example/gone.png"))
    first, again = (ask(params={"model_provider": "fal"}) for _ in range(2))
    assert (again.content, again.headers[_REPLAYED]) == (first.content, "true")


@pytest.fixture
def strict_server(request: pytest.FixtureRequest, partner: FakePartner, tmp_path: Path) -> Iterator[Server]:
    """Return a server of its own: no window for links, at most a MiB kept for a key, and a deadline if told."""
    at_ease(partner)
    catalog = CatalogFolder(tmp_path / "catalog")
    fill_legs(catalog, partner.url)
    env = {
        **SETTINGS,
        **KEYS,
        "FAIRLEAD_REPLAY_LINKS_SECONDS": "0",
        "FAIRLEAD_REPLAY_LIMIT_MIB": "1",
        "FAIRLEAD_DEADLINE_SECONDS": getattr(request, "param", "60"),
    }
    with serving(tmp_path / "data", catalog=catalog.path, env=env, arguments=("--no-local-partner",)) as server:
        yield server
        partner.release()
        server.prove_settled()


def test_partners_link_is_a_conflict_after_its_window(strict_server: Server, partner: FakePartner) -> None:
    """After its window a result that names the partner's links is a conflict for good; one without is told again."""
    partner.script(FAL, images())
    call = asker(strict_server, strict_server.key)
    fal = {"params": {"model_provider": "fal"}}
    assert call("links", **fal).status_code == 200
    _conflict(call("links", **fal))
    assert [_REPLAYED in call("none").headers for _ in range(2)] == [False, True]
    assert len(partner.requests(FAL)) == 1


def test_result_beyond_the_cap_is_not_kept(strict_server: Server, partner: FakePartner) -> None:
    """A result beyond the cap answers the first call whole, and the key is then a conflict without a wait."""
    call = asker(strict_server, strict_server.key)
    for size, is_kept in ((1024 * 1024, True), (1024 * 1024 + 1, False)):
        partner.script("/bytes", reply(200, b"x" * size, "image/png"))
        assert len(call(f"of-{size}", model="fake/bytes-1", json={}).content) == size
        again = call(f"of-{size}", model="fake/bytes-1", json={})
        if is_kept:
            assert (len(again.content), again.headers[_REPLAYED]) == (size, "true")
        else:
            _conflict(again)
    assert len(partner.requests("/bytes")) == 2


@pytest.mark.req("R-24", "R-29")
@pytest.mark.parametrize("strict_server", ["0.8"], indirect=True)
def test_late_generation_is_collected_and_not_repeated(strict_server: Server, partner: FakePartner) -> None:
    """After a 504 the same key is first told to wait, and then collects what the partner was asked for once."""
    partner.script(NATIVE, partner.hold(reply(200, _LINKLESS)))
    call = asker(strict_server, strict_server.key)
    late = call("late")
    assert (late.status_code, late.json()["error_type"]) == (504, "deadline_exceeded")
    assert int(late.headers["retry-after"]) > 0
    _still_running(call("late"))
    partner.release()
    strict_server.idle()
    collected = call("late")
    assert (collected.status_code, collected.content) == (200, _LINKLESS)
    assert (collected.headers[_REPLAYED], collected.headers["x-service-credits-used"]) == ("true", "2.11")
    assert len(partner.requests(NATIVE)) == 1
    assert strict_server.charges(late.headers["x-service-request-id"]) == ["0.01"]


@pytest.mark.req("R-24")
@pytest.mark.parametrize("strict_server", ["0.8"], indirect=True)
def test_late_failure_is_told_as_itself(strict_server: Server, partner: FakePartner) -> None:
    """A run that fails after the deadline is told as that failure, and not started again."""
    partner.script(NATIVE, partner.hold(reply_json({"error": {"message": "no"}}, 400)), hang())
    call = asker(strict_server, strict_server.key)
    assert call("late").status_code == 504
    partner.release()
    strict_server.idle()
    told = call("late")
    assert (told.status_code, told.headers[_REPLAYED], told.json()["detail"]) == (400, "true", "no")
    assert len(partner.requests(NATIVE)) == 1


def test_caller_that_left_collects_its_result(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """Anyone who lost the connection gets the result with the same key."""
    call = asker(legs, api_key := legs.new_workspace(new_name()))
    partner.script(NATIVE, partner.hold(native("https://cdn.example/x.png")))
    sent = json.dumps({"prompt": "a"}).encode()
    headers = {"Idempotency_Key": "once", "Content_Type": "application/json"}
    legs.abandon("/v2/models/fake/many-1", api_key, sent, lambda: partner.requests(NATIVE), **headers)
    partner.release()
    legs.idle()
    assert call(content=sent).headers[_REPLAYED] == "true"
    assert len(partner.requests(NATIVE)) == 1
