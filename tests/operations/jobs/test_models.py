"""Partner nodes on a server without an API: what their models are run with, what that costs, what becomes of it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller, Patterns
from fairlead.domain.catalog.partner_bodies import LINK_WANTED
from fairlead.domain.faults import FaultError
from fairlead.engine.hosts.service import DeclinedError, ModelAnswer
from fairlead.identity.links import Links
from fairlead.operations.assets.results import AssetReader
from fairlead.operations.jobs.model_files import FILES_MAX, ModelFiles
from fairlead.operations.jobs.models import INTERRUPTED, ModelRunner, NodeCall
from fairlead.operations.jobs.patience import Patience
from fairlead.operations.runs.awaited_runs import AwaitedRuns
from fairlead.providers.answers import AnswerDecoder
from fairlead.storage.blobs.store import BlobsUnavailableError
from operations.queueing import gate_of
from operations.servers import BASE_URL, CENT, DAY_MS, DOLLAR, DONE, Guarded, Partner, Server, model_text
from storage.bookings import Books
from waiting import until

pytestmark = pytest.mark.req("C-11")

Start = Callable[..., Server]
JOB: Final = "0198f000-0000-7000-8000-00000000000a"
_LABELS: Final = '{"client":"acme"}'
WAV: Final = b"RIFF\x24\x00\x00\x00WAVEfmt " + b"\x00" * 28
PNG: Final = b"\x89PNG\r\n\x1a\n" + b"\x00" * 24
_PICTURES: Final = 'assets = { at = ["/images/*/url"] }'


@pytest.fixture
def folder(folder: Path) -> Path:
    """Return the folder of models with one that answers with bytes, and one whose answers name pictures."""
    (folder / "plain-bytes.toml").write_text(
        model_text("plain-bytes", "plain", "bytes").replace('measured = { answer = "/used" }\n', "")
    )
    (folder / "output.json").write_text(json.dumps({"properties": {"video_url": {"type": "string", "format": "uri"}}}))
    named = model_text("plain-named", "plain", "now", head='output_schema = "output.json"')
    (folder / "plain-named.toml").write_text(named)
    (folder / "plain-pictures.toml").write_text(model_text("plain-pictures", "plain", "now", head=_PICTURES))
    return folder


def reader_of(server: Server) -> AssetReader:
    """What finds the files of signed links."""
    return AssetReader(Links(bytes(32)), server.blobs, server.database, server.clock)


def runner_of(server: Server, *, backlog: int = 100, limit: int = 1 << 20) -> ModelRunner:
    """What runs models for nodes, wired as a server does it."""
    files = ModelFiles(
        reader_of(server), Links(bytes(32)), server.blobs, server.database, server.transport.fetch,
        lambda name, url: server.providers[name].may_follow(url, with_credential=False), server.clock,
        AnswerDecoder(server.readers), base_url=BASE_URL, limit=limit,
    )  # fmt: skip
    return ModelRunner(
        server.admitter, server.executor, server.collector, server.canceller, server.exchange, files, server.events,
        AwaitedRuns(), server.clock,
        Patience(server.seen.append), backlog=backlog, keys_kept_ms=DAY_MS, seconds=30,
    )  # fmt: skip


@asynccontextmanager
async def working(server: Server) -> AsyncIterator[None]:
    """Have a worker claim what waits meanwhile."""

    async def work() -> None:
        while True:
            for run_id, workspace_id, _ in await server.queue.find_released():
                execution = await server.queue.claim(run_id, workspace_id)
                if execution is not None:
                    await asyncio.shield(execution.task)
            await asyncio.sleep(0.005)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()


async def ask_for(
    server: Server,
    caller: Caller,
    model: str = "plain-now",
    body: Any = None,
    *,
    runner: ModelRunner | None = None,
    turn: int = 0,
    wanted: Callable[[], bool] = lambda: True,
) -> ModelAnswer:
    """Ask for a model for the node 7 of a job, with a worker at work."""
    runner = runner or runner_of(server)
    content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    async with working(server):
        return await runner.run(caller, NodeCall(JOB, "7", turn, f"acme/{model}", content, _LABELS), wanted)


def why_declined(run: Run, work: Coroutine[Any, Any, Any]) -> DeclinedError:
    """Why a model could not be run."""
    with pytest.raises(DeclinedError) as caught:
        run(work)
    return caught.value


@pytest.mark.parametrize("model", ["plain-now", "plain-later"])
def test_model_of_a_node_is_run_once_and_paid_by_the_key(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, model: str
) -> None:
    """Through the queue, held and charged like any other run of the workspace."""
    answer = run(ask_for(server, caller, model, {"n": 2}))
    assert json.loads(answer.body) == DONE
    assert answer.files == {}
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)
    (row,) = books.rows("SELECT model_id, key_id, state, labels FROM runs")
    assert row == {
        "model_id": f"acme/{model}", "key_id": caller.key_id, "state": "succeeded", "labels": _LABELS,
    }  # fmt: skip
    assert json.loads(partner.bodies[0])["n"] == 2


def test_job_that_is_executed_again_finds_its_run_and_pays_nothing_twice(
    start_server: Start, server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """The server dies while the partner works; another one has the job executed again."""
    gate = gate_of(partner)

    async def both() -> ModelAnswer:
        first = asyncio.create_task(ask_for(server, caller))
        await until(lambda: len(partner.calls) == 1)
        first.cancel()
        await asyncio.wait([first])
        gate.set()
        await server.executor.drain(5)
        return await ask_for(start_server_now, caller)

    start_server_now = start_server("server-2")
    answer = run(both())
    assert json.loads(answer.body) == DONE
    assert partner.calls == ["POST /now"]
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)


def test_another_turn_and_another_body_are_other_runs(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A node that calls a model twice, or makes something else of its inputs when it is executed again."""
    run(ask_for(server, caller, body={"n": 1}))
    run(ask_for(server, caller, body={"n": 1}))
    run(ask_for(server, caller, body={"n": 1}, turn=1))
    run(ask_for(server, caller, body={"n": 2}))
    assert len(partner.calls) == 3
    assert books.figures(caller.workspace_id) == (DOLLAR - 30 * CENT, 0, 0)


def test_model_that_waits_is_withdrawn_when_its_job_is_interrupted(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """It is never dispatched, and nothing is charged."""
    wanted = True

    async def interrupt() -> ModelAnswer:
        nonlocal wanted
        runner = runner_of(server)
        task = asyncio.create_task(runner.run(caller, NodeCall(JOB, "7", 0, "acme/plain-now", b"{}"), lambda: wanted))
        while not await server.queue.find_released():  # noqa: ASYNC110 -- nothing tells of it
            await asyncio.sleep(0.005)
        wanted = False
        return await task

    assert why_declined(run, interrupt()).exception_type == INTERRUPTED
    assert partner.calls == []
    (row,) = books.rows("SELECT state, reason, charge FROM runs")
    assert row == {"state": "failed", "reason": "cancelled", "charge": 0}
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)


def test_model_under_way_is_told_that_its_job_is_interrupted(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """The node does not wait for the partner's end; what the partner completes all the same is paid for."""
    gate = gate_of(partner)
    error = why_declined(run, ask_for(server, caller, wanted=lambda: not partner.calls))
    assert error.exception_type == INTERRUPTED
    assert books.rows("SELECT kind FROM run_events WHERE kind = 'cancel requested'")
    gate.set()
    run(server.executor.drain(5))
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)


def test_workspace_without_money_is_refused_before_the_partner_is_asked(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, books: Books, run: Run
) -> None:
    """402 of the router, InsufficientFundsError of the job (C-12)."""
    caller = new_caller(balance=5 * CENT)
    error = why_declined(run, ask_for(server, caller))
    assert error.exception_type == "InsufficientFundsError"
    assert error.message == "The model may cost 0.1 US dollars; the workspace has 0.05 US dollars left."
    assert partner.calls == []
    assert books.figures(caller.workspace_id) == (5 * CENT, 0, 0)


@pytest.mark.parametrize(
    ("model", "body", "words"),
    [
        ("plain-now", {"n": 0}, "n: 0 is less than the minimum of 1"),
        ("plain-now", b"[]", "The request body must be a JSON object."),
        ("unheard", {}, "There is no model acme/unheard."),
        ("plain-now", {"x": LINK_WANTED + "nonsense"}, "A file that is to become a link must be a data URI in base64."),
        ("plain-now", {"x": LINK_WANTED + "data:image/png;base64,%"}, "A file that is to become a link is not base64."),
    ],
)
def test_refusal_by_the_router_is_a_validation_error_in_its_words(
    server: Server, caller: Caller, partner: Partner, run: Run, model: str, body: Any, words: str
) -> None:
    """The user of a node mends it as a caller of the router would."""
    error = why_declined(run, ask_for(server, caller, model, body))
    assert (error.exception_type, error.message) == ("ValidationError", words)
    assert partner.calls == []


def test_model_the_key_is_not_entitled_to_is_refused(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, run: Run
) -> None:
    """What the router refuses to the key, its nodes cannot do either."""
    caller = new_caller()
    limited = Caller(caller.workspace_id, caller.workspace, caller.key_id, credential_models=Patterns(("other/*",)))
    error = why_declined(run, ask_for(server, limited))
    assert (error.exception_type, error.message) == (
        "ValidationError", "This credential is not entitled to acme/plain-now."
    )  # fmt: skip
    assert partner.calls == []


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (451, "ContentPolicyError", "The provider refused this request on content-policy grounds."),
        (501, "ProviderError", None),
    ],
)
def test_failure_of_a_partner_is_the_error_of_the_node_and_costs_nothing(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, status: int, kind: str, words: str | None
) -> None:
    """Each with a name of its own (C-12)."""
    partner.statuses["/now"] = status
    error = why_declined(run, ask_for(server, caller))
    assert error.exception_type == kind
    assert words is None or error.message == words
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)


def test_model_that_answers_with_bytes_gives_a_file(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """It cannot be queued, and is charged and told again like any other."""
    partner.answers["/bytes"] = WAV
    first, again = run(ask_for(server, caller, "plain-bytes")), run(ask_for(server, caller, "plain-bytes"))
    for answer in (first, again):
        assert answer.body == b""
        assert answer.content_types == {"": "audio/wav"}
        assert answer.files[""].read_bytes() == WAV
    assert partner.calls == ["POST /bytes"]
    assert books.figures(caller.workspace_id)[1:] == (0, 0)


def test_bytes_that_are_under_way_are_waited_for_by_a_job_that_is_executed_again(
    start_server: Start, server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """The router says that the run is still running: the node asks again."""
    partner.answers["/bytes"] = WAV
    gate = gate_of(partner)
    other = start_server("server-2")

    async def both() -> ModelAnswer:
        first = asyncio.create_task(ask_for(server, caller, "plain-bytes"))
        await until(lambda: len(partner.calls) == 1)
        first.cancel()
        second = asyncio.create_task(ask_for(other, caller, "plain-bytes"))
        await asyncio.sleep(0)
        gate.set()
        return await second

    assert run(both()).files[""].read_bytes() == WAV
    assert partner.calls == ["POST /bytes"]


def test_bytes_of_a_job_that_is_interrupted_are_not_waited_for(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """The run goes on to its end, as one whose caller has left."""
    partner.answers["/bytes"] = WAV
    gate = gate_of(partner)
    error = why_declined(run, ask_for(server, caller, "plain-bytes", wanted=lambda: not partner.calls))
    assert error.exception_type == INTERRUPTED
    gate.set()
    run(server.executor.drain(5))


def test_full_backlog_delays_a_node(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """A node among many of its workspace gets its turn instead of an error."""
    gate = gate_of(partner)
    runner = runner_of(server, backlog=1)

    async def both() -> list[ModelAnswer]:
        async with working(server):
            calls = [
                runner.run(caller, NodeCall(JOB, "7", turn, "acme/plain-now", b"{}"), lambda: True) for turn in range(3)
            ]
            gathered = asyncio.gather(*calls)
            gate.set()
            return await gathered

    assert len(run(both())) == 3
    assert len(partner.calls) == 3


def test_run_that_begins_while_the_database_is_away_is_made_once(
    server: Server, caller: Caller, partner: Partner, guarded: Guarded, books: Books, run: Run
) -> None:
    """A refusal to write it and a commit that was not confirmed: the node asks again, and finds its run by the key."""

    async def ask() -> ModelAnswer:
        guarded.refused_writes = guarded.lost_answers = 1
        return await ask_for(server, caller)

    assert json.loads(run(ask()).body) == DONE
    assert partner.calls == ["POST /now"]
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)


def test_result_that_cannot_be_kept_right_now_is_kept_later(
    server: Server, caller: Caller, partner: Partner, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of files that is away is not the provider's fault, and does not fail the node."""
    partner.answers["/clip"] = WAV
    link = f"{partner.base_url}/clip"
    partner.answers["/now"] = {**DONE, "video_url": link}
    local_path, refusals = server.blobs.local_path, [BlobsUnavailableError("full")]

    async def refusing(name: str) -> Path:
        if refusals:
            raise refusals.pop()
        return await local_path(name)

    monkeypatch.setattr(server.blobs, "local_path", refusing)
    assert run(ask_for(server, caller, "plain-named")).files[link].read_bytes() == WAV
    assert refusals == []


def test_results_that_were_copied_come_as_files_out_of_the_store(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """Links of ours are never asked for over the network."""
    partner.answers["/picture"] = PNG
    link = f"{partner.base_url}/picture"
    partner.answers["/now"] = {**DONE, "images": [{"url": link}]}
    answer = run(ask_for(server, caller, "plain-pictures"))
    (named,) = [image["url"] for image in json.loads(answer.body)["images"]]
    assert named.startswith(f"{BASE_URL}/assets/")
    assert answer.files[named].read_bytes() == PNG
    assert answer.content_types == {named: "image/png"}
    assert partner.calls == ["POST /now", "GET /picture"]


def test_results_that_were_not_copied_are_downloaded(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """A model need not list its links for its node to work."""
    partner.answers["/clip"] = WAV
    link = f"{partner.base_url}/clip"
    partner.answers["/now"] = {**DONE, "video_url": link}
    answer = run(ask_for(server, caller, "plain-named"))
    assert answer.files[link].read_bytes() == WAV
    assert json.loads(answer.body)["video_url"] == link


@pytest.mark.parametrize(("status", "limit"), [(404, 1000), (200, 10)])
def test_unavailable_result_is_an_error_that_hides_possible_secrets(
    server: Server, caller: Caller, partner: Partner, run: Run, status: int, limit: int
) -> None:
    """Gone, or larger than assets may be; a query may be a credential."""
    partner.answers["/clip"], partner.statuses["/clip"] = WAV, status
    partner.answers["/now"] = {**DONE, "video_url": f"{partner.base_url}/clip?token=hidden"}
    error = why_declined(run, ask_for(server, caller, "plain-named", runner=runner_of(server, limit=limit)))
    assert error.exception_type == "ProviderError"
    assert "/clip" in error.message
    assert "hidden" not in error.message


def test_link_outside_the_partners_hosts_is_not_followed(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """An answer must not make us ask another host for anything, least of all one of our own network."""
    partner.answers["/now"] = {**DONE, "images": [{"url": "http://127.0.0.1:1/secret"}]}
    error = why_declined(run, ask_for(server, caller, "plain-pictures"))
    assert error.exception_type == "ProviderError"
    assert error.message == "The provider's link http://127.0.0.1/secret leads where none of its may."


def test_forged_link_of_ours_gives_no_file(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """Only a signature of ours opens an asset, no matter who writes the link into an answer."""
    query = "expires=9999999999&disposition=inline&name=a.png&signature=forged"
    partner.answers["/now"] = {**DONE, "images": [{"url": f"{BASE_URL}/assets/other?{query}"}]}
    assert why_declined(run, ask_for(server, caller, "plain-pictures")).exception_type == "ProviderError"


def test_answer_with_too_many_files_is_refused(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """A bound on what one answer can make us fetch."""
    links = [{"url": f"https://a.example/{number}"} for number in range(FILES_MAX + 1)]
    runner = runner_of(server)
    partner.answers["/now"] = {**DONE, "images": links}
    assert "more than 64 files" in why_declined(run, ask_for(server, caller, "plain-pictures", runner=runner)).message


def test_picture_wanted_as_a_link_is_sent_as_a_signed_link(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """It is signed, is good for two days, and belongs to the workspace."""
    text = LINK_WANTED + "data:image/png;base64," + base64.b64encode(PNG).decode()
    run(ask_for(server, caller, body={"image": text, "more": [{"url": text}]}))
    sent = json.loads(partner.bodies[0])
    assert sent["image"] == sent["more"][0]["url"]
    assert sent["image"].startswith(f"{BASE_URL}/assets/")
    parts = urlsplit(sent["image"])
    found = run(reader_of(server).find(parts.path.rpartition("/")[2], **dict(parse_qsl(parts.query))))
    assert (found.content_type, found.size, found.seconds_left) == ("image/png", len(PNG), 48 * 3600)
    server.now_ns += 49 * 3600 * 10**9
    with pytest.raises(FaultError):
        run(reader_of(server).find(parts.path.rpartition("/")[2], **dict(parse_qsl(parts.query))))


def test_picture_larger_than_assets_may_be_is_refused(server: Server, caller: Caller, run: Run) -> None:
    """Before anything is admitted."""
    text = LINK_WANTED + "data:image/png;base64," + base64.b64encode(PNG * 100).decode()
    error = why_declined(run, ask_for(server, caller, body={"image": text}, runner=runner_of(server, limit=1000)))
    assert (error.exception_type, error.message) == ("ValidationError", "A file has more than 1000 bytes.")


def test_end_of_a_run_is_found_although_the_database_was_away_meanwhile(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """A node does not lose a result that is paid for because one look at the books failed."""
    gate = gate_of(partner)

    async def away() -> ModelAnswer:
        task = asyncio.create_task(ask_for(server, caller))
        await until(lambda: len(partner.calls) == 1)
        server.database.refusals = 1
        gate.set()
        return await task

    assert json.loads(run(away()).body) == DONE
