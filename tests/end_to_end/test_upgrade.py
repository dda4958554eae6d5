"""The version before works on the schema of this one: servers are replaced, or put back, without a failed call."""

import json
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
import pytest

from databases import Postgres
from end_to_end.balancing import Balancer, is_ready
from end_to_end.workflow_clients import graph_showing
from fairlead.storage.db.migrate import HEAD
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from form.sources import ROOT
from servers import Server, command, environment, serving, wait_until

pytestmark = pytest.mark.single_server("it makes an installation of its own")

PREVIOUS: Final = "dd9fbbb68722963e2d2f410718eaf28caddcad79"
"""The last commit of the version before, whose schema is 0024."""
_SCHEMA: Final = "0024"
_ENV: Final = {
    "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
    "FAIRLEAD_ENGINE": "true",
    "FAIRLEAD_ENGINE_HOSTS": "1",
    "FAIRLEAD_SUBSCRIPTIONS": "pro=-1",
}
_PAUSE: Final = {"FAIRLEAD_DRAIN_PAUSE_SECONDS": "600"}
"""It is ended by a second signal, as soon as the balancer has noticed."""
_PLAIN: Final = ("--no-local-partner",)
_MODEL: Final = "/v2/models/fake/json-1"


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """Return how the command of the version before is called: its source, out of history, on today's libraries."""
    folder = tmp_path_factory.mktemp("previous")
    archive = subprocess.run(["git", "archive", PREVIOUS, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the source of the version before is not here: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    packages = next((folder / "venv" / "lib").glob("python*/site-packages"))
    # What these paths lead to is not read for further paths, so that this version is not among them.
    (packages / "previous.pth").write_text(f"{folder / 'src'}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return (str(folder / "venv" / "bin" / "python"), "-m", "fairlead")


class _Load:
    """Calls of every kind that callers make, and the ids of what is to end some time after its call."""

    def __init__(self) -> None:
        self.runs = 0
        self.queued: list[str] = []
        self.jobs: list[str] = []

    def run(self, client: httpx.Client) -> int:
        """Make a synchronous run."""
        status = client.post(_MODEL, json={}).status_code
        self.runs += status == 200
        return status

    def queue(self, client: httpx.Client) -> int:
        """Have a run queued."""
        answer = client.post(f"{_MODEL}/requests", json={})
        self.queued.append(answer.json().get("request_id"))
        time.sleep(0.2)
        return answer.status_code

    def submit(self, client: httpx.Client) -> int:
        """Submit a workflow."""
        answer = client.post("/api/prompt", json={"prompt": graph_showing("PrimitiveInt", value=len(self.jobs))})
        self.jobs.append(answer.json().get("prompt_id"))
        time.sleep(1)
        return answer.status_code

    def ends(self, client: httpx.Client) -> set[str]:
        """How what was queued and submitted has ended by now, or that it has not."""
        runs = {client.get(f"{_MODEL}/requests/{id_}/status").json()["status"] for id_ in self.queued}
        return runs | {client.get(f"/api/job/{id_}/status").json()["status"] for id_ in self.jobs}


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """Return the URL of a database that no version has made anything in."""
    name = postgres.create_bare()
    yield postgres.url(name)
    postgres.drop(name)


@pytest.mark.req("M-03")
def test_upgrade_under_load_fails_no_call(
    tmp_path: Path, database: str, catalog: CatalogFolder, partner: FakePartner, previous: Sequence[str]
) -> None:
    """The schema is brought up to date under a server of the version before, then one of this version takes its place.

    Every call is answered, what was queued and submitted ends, and each run is charged once.
    """
    partner.script("/json", reply(200, b'{"made":1}'))
    load = _Load()
    balancer = Balancer(load.run, load.queue, load.submit)

    def start(program: Sequence[str] | None, **more: str) -> Server:
        server = stack.enter_context(
            serving(
                tmp_path / "data", database=database, catalog=catalog.path, env={**_ENV, **more}, arguments=_PLAIN,
                program=program,
            )
        )  # fmt: skip
        balancer.add(server)
        return server

    with ExitStack() as stack:
        old = start(previous, **_PAUSE)
        with balancer.balancing():
            balancer.wait_for_calls()
            migrated = command("migrate", "--data", str(tmp_path / "data"), "--database", database, "--json")
            assert migrated == {"before": _SCHEMA, "now": HEAD, "servers_stranded": 0}
            balancer.wait_for_calls()
            assert httpx.get(f"{old.url}/readyz").json()["status"] == "ready"
            new = start(None)
            wait_until(lambda: new.metric("fairlead_runs_total") > 0, "calls of the new server")
            old.process.send_signal(signal.SIGTERM)
            balancer.wait_until_noticed(old)
            balancer.wait_for_calls()  # those that were about to call it have done so
            old.process.send_signal(signal.SIGTERM)
            assert old.process.wait(60) == 0
            balancer.wait_for_calls()
        assert {status for status in balancer.answers if status not in (200, 201)} == set()
        wait_until(lambda: load.ends(new.client) == {"COMPLETED", "completed"}, "the end of all")
        new.prove_settled()
        posted = [row for row in new.ledger() if row["kind"] == "post"]
        assert len({row["run_id"] for row in posted}) == len(posted) == load.runs + len(load.queued)
        assert load.jobs


def test_version_before_can_be_put_back(
    tmp_path: Path, catalog: CatalogFolder, partner: FakePartner, previous: Sequence[str]
) -> None:
    """Its commands and its servers work on what this version has made, and this one on what it has made then."""
    partner.script("/json", reply(200, b'{"made":1}'))
    data = tmp_path / "data"
    for program in (None, previous, None):
        env = {**_ENV, "FAIRLEAD_ENGINE": "false"}
        with serving(data, catalog=catalog.path, env=env, arguments=_PLAIN, program=program) as server:
            assert is_ready(server.url)
            assert server.client.post(_MODEL, json={}).status_code == 200
    listed = [*previous, "workspaces", "list", "--json", "--data", str(data)]
    done = subprocess.run(listed, capture_output=True, text=True, check=True, env=environment())
    assert [row["balance"] for row in json.loads(done.stdout)] == ["-0.03"]
