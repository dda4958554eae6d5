"""Holds that an operator bounds by what runs usually cost (D-28), with simulated vendors."""

from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from servers import Server, serving

pytestmark = pytest.mark.req("X-02")

_LARGE: Final = {
    "prompt": "Make it night",
    "input_image": "https://example.com/media/picture.png",
    "width": 2048,
    "height": 2048,
}
"""Four megapixels, and one given: the vendor tells 9 cents when it takes the work, and 4.5 are usual."""


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server on which no hold passes the typical price, but for the least that a run can cost."""
    data = tmp_path_factory.mktemp("bounded") / "data"
    env = {"FAIRLEAD_HOLD_TYPICAL_TIMES": "1"}
    with serving(data, env=env, arguments=("--simulate", "--no-local-partner")) as server:
        yield server
        server.prove_settled()


def _ask(server: Server, workspace: str, money: str, model: str, body: dict[str, Any]) -> httpx.Response:
    """Call a model as a new prepaid workspace with so much money."""
    key = server.new_workspace(workspace, "--billing", "prepaid", credit=money)
    return server.client.post(f"/v2/models/{model}", json=body, headers={"X-API-Key": key}, timeout=30)


def _changes(server: Server, workspace: str) -> list[tuple[str, str, str]]:
    rows = server.ledger(workspace)
    return [(row["kind"], row["balance_change"], row["held_change"]) for row in rows if row["run_id"]]


def test_cost_that_is_told_with_the_submit_raises_the_hold(bounded: Server) -> None:
    """The ledger has the hold, its raise, and a charge of both."""
    answer = _ask(bounded, "raised", "1", "bfl/flux-2-pro", _LARGE)
    assert answer.status_code == 200, answer.text
    assert _changes(bounded, "raised") == [("hold", "0", "0.045"), ("raise", "0", "0.045"), ("post", "-0.09", "-0.09")]


def test_run_whose_raise_the_balance_refuses_is_finished_for_its_hold(bounded: Server) -> None:
    """Six cents pay the hold and not the rest, which is the operator's and counted as such."""
    before = bounded.metric("fairlead_uncharged_dollars_total")
    answer = _ask(bounded, "refused", "0.06", "bfl/flux-2-pro", _LARGE)
    assert answer.status_code == 200, answer.text
    assert _changes(bounded, "refused") == [("hold", "0", "0.045"), ("post", "-0.045", "-0.045")]
    assert bounded.metric("fairlead_uncharged_dollars_total") - before == pytest.approx(0.045)


def test_text_without_a_limit_needs_no_money_for_the_longest_answer(bounded: Server) -> None:
    """Ten cents pay an answer whose most is above a dollar; the estimate keeps telling that."""
    body = {"messages": [{"role": "user", "content": "Say hello."}]}
    answer = _ask(bounded, "writing", "0.10", "openai/gpt-5.6-sol", body)
    assert answer.status_code == 200, answer.text
    told = bounded.client.post("/v2/models/openai/gpt-5.6-sol/estimate", json=body).json()
    assert float(told["typical_amount"]) < float("0.1")
    assert float(told["max_amount"]) > 1
