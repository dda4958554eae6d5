"""A deployment's own pool: its jobs are executed there, whatever the rules of the installation say (M-05)."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from api.jobs.callers import JobsCaller, refusal_of
from api.jobs.conftest import ENGINE
from api.jobs.test_deployments import make_ready, send
from cases import for_each
from servers import serving

pytestmark = pytest.mark.req("M-05")

_DEPLOYMENTS: Final = "/api/v2/deployments"


def _graph(class_type: str, value: object) -> dict[str, Any]:
    return {
        "1": {"class_type": class_type, "inputs": {"value": value}},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    }


_OF_THE_RULE: Final = _graph("PrimitiveInt", 1)
_OF_NO_RULE: Final = _graph("PrimitiveFloat", 1.5)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobsCaller]:
    """Return a caller of a server that works for `default`, with a rule for a pool that nobody works for."""
    env = {**ENGINE, "FAIRLEAD_POOLS": "elsewhere=class:PrimitiveInt"}
    data = tmp_path_factory.mktemp("pools") / "data"
    with serving(data, env=env, arguments=("--no-local-partner",)) as server:
        yield JobsCaller(server, "default", server.key)


@pytest.fixture
def caller(installation: JobsCaller) -> Iterator[JobsCaller]:
    """Return the caller, no job of which is left behind."""
    yield installation
    installation.stops()


def _send(caller: JobsCaller, id_: str, graph: dict[str, Any]) -> str:
    answer = send(caller, id_, graph)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_pool_of_a_deployment_comes_before_the_rules(caller: JobsCaller) -> None:
    """By the rules nobody executes the graph; at a deployment of the pool `default` it is executed."""
    one = make_ready(caller, node_packs=[], pool="default")
    assert one["pool"] == "default"
    bare = caller.submit(_OF_THE_RULE)["id"]
    caller.reaches(_send(caller, one["id"], _OF_THE_RULE), "succeeded")
    assert caller.job(bare)["status"] == "queued"


def test_job_stays_in_the_pool_that_its_deployment_had(caller: JobsCaller) -> None:
    """A deployment's pool is changed for later jobs, and taken away: the rules decide again."""
    one = make_ready(caller, node_packs=[])
    path = one["urls"]["self"]
    assert one["pool"] is None
    changed = caller.ask("PATCH", path, json={"pool": "spare"})
    assert (changed.status_code, changed.json()["pool"]) == (200, "spare")
    assert [each["pool"] for each in caller.get(_DEPLOYMENTS)["deployments"] if each["id"] == one["id"]] == ["spare"]
    waiting = _send(caller, one["id"], _OF_NO_RULE)
    assert caller.ask("PATCH", path, json={"pool": None}).json()["pool"] is None
    caller.reaches(_send(caller, one["id"], _OF_NO_RULE), "succeeded")
    of_the_rule = _send(caller, one["id"], _OF_THE_RULE)
    assert [caller.job(job)["status"] for job in (waiting, of_the_rule)] == ["queued", "queued"]


@for_each(
    ("body", "told"),
    [
        ({}, "JSON such as"), ([], "JSON such as"), ({"pool": 1}, "JSON such as"),
        ({"pool": ""}, "A pool must be 1 to 32 of a-z"), ({"pool": "GPU"}, "not 'GPU'"), ({"pool": "gpu-"}, "a dash"),
        ({"pool": "x" * 33}, "1 to 32"),
    ],
)  # fmt: skip
def test_malformed_pool_of_a_deployment_is_refused(caller: JobsCaller, body: Any, told: str) -> None:
    """A sentence says what is wrong; nothing is changed, and nothing is made."""
    path = make_ready(caller, node_packs=[], pool="gpu")["urls"]["self"]
    before = caller.get(_DEPLOYMENTS)
    answers = [caller.ask("PATCH", path, json=body)]
    if isinstance(body, dict) and body:
        answers.append(caller.ask("POST", _DEPLOYMENTS, json={"name": "other", **body}))
    for answer in answers:
        assert refusal_of(answer) == (422, "invalid_request")
        assert told in answer.json()["error"]["message"]
    assert caller.get(_DEPLOYMENTS) == before
