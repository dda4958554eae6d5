"""Trials of models: which are made, what they may cost together, and what of them is recorded."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import fairlead
from conftest import Run
from fairlead.domain.accounts.rights import SERVER
from fairlead.operations.model_trials import (
    ModelTrials,
    ProviderNotReadyError,
    Trial,
    TrialResult,
    list_verifications,
)
from operations.servers import BASE_URL, CENT, DOLLAR, DONE, Partner, Server, leg_text, model_text
from storage.bookings import Books

_OUTPUT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
Try = Callable[..., dict[str, Trial]]


@pytest.fixture
def folder(folder: Path) -> Path:
    """Return a folder with models whose answers have a schema; two are of a partner without a key in it."""
    (folder / "output.json").write_text(json.dumps(_OUTPUT))
    for path in folder.glob("*-later.toml"):
        path.unlink()
    head = 'output_schema = "output.json"\n'
    (folder / "a-first.toml").write_text(model_text("a-first", "plain", "now", head=head))
    (folder / "b-bytes.toml").write_text(model_text("b-bytes", "plain", "bytes", more=leg_text("spare", price="0.05")))
    picture = {"type": "object", "properties": {"image": {"type": "string"}}, "required": ["image"]}
    (folder / "picture.json").write_text(json.dumps(picture))
    text = model_text("c-picture", "plain", "now", head=head)
    (folder / "c-picture.toml").write_text(text.replace("input.json", "picture.json"))
    return folder


@pytest.fixture
def trials(server: Server) -> Callable[..., ModelTrials]:
    """Return a function that makes trials of a server's parts."""

    def make(*, is_simulated: bool = False) -> ModelTrials:
        return ModelTrials(
            server.database, server.catalog, server.authenticator, server.admitter, server.executor, server.exchange,
            server.clock, {name: one.base_url for name, one in server.providers.items()}, BASE_URL,
            is_simulated=is_simulated,
        )  # fmt: skip

    return make


@pytest.fixture
def try_all(trials: Callable[..., ModelTrials], run: Run) -> Try:
    """Return a function that tries the models of a provider, by default of `plain`."""

    def make(
        provider: str = "plain", spend: int = DOLLAR, bodies: Mapping[str, object] = {}, *, is_simulated: bool = False
    ) -> dict[str, Trial]:
        async def every() -> dict[str, Trial]:
            made = trials(is_simulated=is_simulated)
            caller = await made.open_workspace("trials", SERVER)
            return {one.model_id: one async for one in made.try_models(caller, provider, spend, bodies)}

        found: dict[str, Trial] = run(every())
        return found

    return make


@pytest.fixture
def partner(partner: Partner) -> Partner:
    """Return a partner that answers a picture's words, and a sound."""
    partner.answers |= {"/now": DONE, "/bytes": b"RIFF"}
    return partner


def test_model_that_does_what_its_files_say_is_recorded(
    try_all: Try, server: Server, partner: Partner, books: Books, run: Run
) -> None:
    """By an ordinary run of a workspace that is made for it: with the time, the version, and where it was called."""
    trial = try_all()["acme/a-first"]
    assert (trial.result, trial.detail) == (TrialResult.VERIFIED, None)
    assert trial.least == trial.most == trial.charge == 10 * CENT
    found = {one.model_id: one for one in run(list_verifications(server.database))}["acme/a-first"]
    assert (found.version, found.address, found.charge) == (fairlead.__version__, partner.base_url, 10 * CENT)
    assert (found.run_id, found.verified_at) == (trial.run_id, server.clock.now_ms())
    assert ("post", -10 * CENT, -10 * CENT) in books.entries()
    try_all()  # in the workspace that there is by now
    assert len(run(list_verifications(server.database, "acme/a-first"))) == 1


def test_nothing_is_recorded_of_a_simulated_vendor(try_all: Try, server: Server, run: Run) -> None:
    """No vendor was called, so no model was verified."""
    assert try_all(is_simulated=True)["acme/a-first"].result is TrialResult.VERIFIED
    assert run(list_verifications(server.database)) == []


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        pytest.param({"data": 4, "used": 1}, "the answer differs at /data", id="answer"),
        pytest.param({"data": "x", "used": 3}, "0.3 dollars by the answer, 0.1 to 0.1 expected", id="price"),
        pytest.param({"data": "x", "used": 0}, "0 dollars by the answer, 0.1 to 0.1 expected", id="cheaper"),
    ],
)
def test_difference_is_told_and_not_recorded(
    try_all: Try, partner: Partner, server: Server, run: Run, answer: object, detail: str
) -> None:
    """An answer of another form, more reported than was held for, or less than was promised."""
    partner.answers["/now"] = answer
    trial = try_all()["acme/a-first"]
    assert trial.result is TrialResult.DIFFERS
    assert trial.detail is not None
    assert trial.detail.startswith(detail)
    assert [one for one in run(list_verifications(server.database)) if one.model_id == "acme/a-first"] == []


def test_bound_is_never_passed(try_all: Try, partner: Partner) -> None:
    """A model that may cost more than is left is not tried; a failed run may be billed, and counts as if it were."""
    partner.statuses["/now"] = 500
    made = try_all(spend=25 * CENT)
    assert [(one.result, one.charge) for one in made.values()] == [
        (TrialResult.FAILED, 0),
        (TrialResult.VERIFIED, 10 * CENT),
        (TrialResult.NOT_TRIED, 0),
        (TrialResult.NOT_TRIED, 0),
    ]
    assert made["acme/plain-now"].detail == "it may cost 0.1 dollars, and 0.05 are left"
    assert partner.calls == ["POST /now", "POST /bytes"]


def test_body_is_made_of_the_schema_or_given(try_all: Try, partner: Partner) -> None:
    """The cheapest that the schema allows; a picture cannot be made up, and is given by the operator."""
    trial = try_all()["acme/c-picture"]
    assert (trial.result, trial.run_id) == (TrialResult.NOT_TRIED, None)
    assert trial.detail == "no body can be made: /image takes what a schema cannot tell; give one with --bodies"
    given = {"acme/c-picture": {"image": "https://example.com/a.png"}, "acme/a-first": {"n": "many"}}
    made = try_all(bodies=given)
    assert made["acme/c-picture"].result is TrialResult.VERIFIED
    assert (made["acme/a-first"].result, made["acme/a-first"].run_id) == (TrialResult.NOT_TRIED, None)
    assert b'{"image":"https://example.com/a.png"}' in partner.bodies


def test_leg_elsewhere_is_tried_there(try_all: Try, server: Server, partner: Partner, run: Run) -> None:
    """A model is verified at the provider that was called, and nowhere else."""
    made = try_all("spare")
    assert {name: one.result for name, one in made.items()} == {"acme/b-bytes": TrialResult.VERIFIED}
    assert partner.calls == ["POST /spare/now"]
    assert [(one.model_id, one.provider) for one in run(list_verifications(server.database))] == [
        ("acme/b-bytes", "spare")
    ]


@pytest.mark.parametrize(("provider", "why"), [("nobody", "there is no provider"), ("locked", "has no key here")])
def test_provider_that_cannot_be_called_is_told(
    start_server: Callable[..., Server], run: Run, provider: str, why: str
) -> None:
    """Before anything is tried."""
    server = start_server("server-2", {})
    made = ModelTrials(
        server.database, server.catalog, server.authenticator, server.admitter, server.executor, server.exchange,
        server.clock, {name: one.base_url for name, one in server.providers.items()}, BASE_URL, is_simulated=False,
    )  # fmt: skip

    async def every() -> None:
        caller = await made.open_workspace("trials", SERVER)
        async for _ in made.try_models(caller, provider, DOLLAR, {}):
            pass

    with pytest.raises(ProviderNotReadyError, match=why):
        run(every())
