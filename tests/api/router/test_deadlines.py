"""The deadline of a synchronous call, on a server that holds calls for less than a second (R-24, R-29)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from api.conftest import SETTINGS, fill
from fake_partner import CatalogFolder, FakePartner, reply, reply_json
from servers import Server, serving


@pytest.fixture(scope="module")
def _impatient(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("impatient")
    catalog = CatalogFolder(folder / "catalog")
    fill(catalog, shared_partner.url)
    settings = {**SETTINGS, "FAIRLEAD_DEADLINE_SECONDS": "0.8"}
    arguments = ("--no-local-partner",)
    with serving(folder / "data", catalog=catalog.path, env=settings, arguments=arguments) as server:
        yield server


@pytest.fixture
def impatient(_impatient: Server, partner: FakePartner) -> Iterator[Server]:
    """Return a server that holds no call for long; its books are proven after each test."""
    yield _impatient
    partner.release()
    _impatient.prove_settled()


@pytest.mark.req("R-22", "R-24", "R-29")
@pytest.mark.parametrize(("model", "answered"), [("json", None), ("task", "200")])
def test_caller_is_answered_at_the_deadline_and_the_run_goes_on(
    impatient: Server, partner: FakePartner, model: str, answered: str | None
) -> None:
    """At its own bound the router answers 504 `deadline_exceeded` with a wait; the run goes on and is billed."""
    partner.script("/json", partner.hold(reply(200, b"{}")))
    partner.script("/tasks", reply_json({"id": "t"}))
    partner.script("/tasks/t", partner.hold(reply_json({"state": "done"})))
    response = impatient.client.post(f"/v2/models/fake/{model}-1", json={})
    assert response.status_code == 504
    assert response.json() == {
        "detail": "The run did not end within 0.8 seconds. It goes on; nothing was rejected.",
        "error_type": "deadline_exceeded",
    }
    assert response.headers["retry-after"] == "5"
    assert response.headers.get("x-service-upstream-status") == answered
    run_id = response.headers["x-service-request-id"]
    assert (impatient.charges(run_id), impatient.workspace()["in_flight"]) == ([], 1)
    partner.release()
    impatient.idle()
    assert impatient.charges(run_id) == ["0.01"]


@pytest.mark.req("R-24")
def test_late_failure_is_not_billed(impatient: Server, partner: FakePartner) -> None:
    """A run that fails after its caller was sent away gives its hold back."""
    partner.script("/json", partner.hold(reply(500)))
    response = impatient.client.post("/v2/models/fake/json-1", json={})
    assert response.json()["error_type"] == "deadline_exceeded"
    partner.release()
    impatient.idle()
    assert impatient.charges(response.headers["x-service-request-id"]) == []


@pytest.mark.req("R-24")
def test_passed_deadline_is_counted(impatient: Server, partner: FakePartner) -> None:
    """Passed deadlines are counted, and such a caller is not counted as one that left."""
    partner.script("/json", partner.hold(reply(200, b"{}")))
    before = impatient.metric("fairlead_events_total", kind="DeadlinePassed")
    left = impatient.metric("fairlead_callers_left_total")
    impatient.client.post("/v2/models/fake/json-1", json={})
    assert impatient.metric("fairlead_events_total", kind="DeadlinePassed") == before + 1
    partner.release()
    impatient.idle()
    assert impatient.metric("fairlead_callers_left_total") == left
