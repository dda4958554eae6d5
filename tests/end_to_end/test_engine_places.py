"""Long jobs of one workspace keep no other workspace's jobs waiting, whatever keys they are submitted with."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest

from end_to_end.test_workflows import PACKS
from end_to_end.workflow_clients import WorkflowClient, graph_showing
from servers import Server, serving, wait_until

_ENV: Final = {
    "FAIRLEAD_ENGINE": "true",
    "FAIRLEAD_NODE_PACKS": str(PACKS),
    "FAIRLEAD_ENGINE_MEMORY_MIB": "1500",
    "FAIRLEAD_ENGINE_HOSTS": "1",
}
_TOO_LONG: Final = graph_showing("Slowly", value=36_000)
"""An hour, for which no test waits."""
_SHORT: Final = graph_showing("PrimitiveInt", value=1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Return a server that executes one job at a time, and an extra one."""
    with serving(tmp_path / "data", env=_ENV) as running:
        yield running


def _begin_long_job(client: WorkflowClient) -> str:
    job = client.submit(_TOO_LONG)
    wait_until(lambda: client.status(job) == "in_progress", f"the start of {job}")
    return job


def _cancel(client: WorkflowClient, job: str) -> None:
    assert client.http.post(f"/api/jobs/{job}/cancel").is_success
    assert client.wait_for_end(job)["status"] == "cancelled"


@pytest.mark.req("T-05")
def test_workspace_without_a_job_is_served_while_another_holds_all_places(server: Server) -> None:
    """It gets an extra host, and the next free place goes to who holds none, not to who has waited for the longest."""
    with ExitStack() as stack:

        def connect(name: str, key: str | None = None) -> WorkflowClient:
            client = WorkflowClient(server, key or server.new_workspace(name), name)
            stack.enter_context(closing(client.http))
            return client

        holder, other, third = connect("holder"), connect("other"), connect("third")
        again = connect("holder", server.cli("keys", "create", "holder", "--models", "all", "--json")["key"])
        long = _begin_long_job(holder)
        waiting = [client.submit(_TOO_LONG) for client in (holder, again)]
        assert other.run(_SHORT)["status"] == "completed"
        assert other.run(_SHORT)["status"] == "completed"
        in_extra = _begin_long_job(third)
        late = other.submit(_SHORT)
        assert other.status(late) == "pending"
        _cancel(third, in_extra)
        assert other.wait_for_end(late)["status"] == "completed"
        assert [holder.status(job) for job in (long, *waiting)] == ["in_progress", "pending", "pending"]
        _cancel(holder, long)
        wait_until(lambda: holder.status(waiting[0]) == "in_progress", "the start of the next job")
        assert holder.status(waiting[1]) == "pending"
