"""The form of the end-to-end suite in which each server is an installation of many (`--cluster`), and a part of it.

All of it is run by `make cluster-test`.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import httpx
from websockets.sync.client import connect

from cluster.form import ManyServers
from databases import Postgres
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from form.sources import ROOT
from nats_servers import NatsServer
from s3_store import S3Server
from servers import Order, metric_of, wait_until

_PART: Final = (
    "test_workflows.py::test_picture_is_uploaded_scaled_and_downloaded",
    "test_workflows.py::test_partner_node_is_run_through_the_router_and_paid_once",
    "test_workflows.py::test_jobs_are_cancelled_waiting_and_running",
    "test_replays.py::test_accepted_task_is_made_once",
)
"""Files, sockets, jobs and their charges; takeover and idempotency keys."""
_PATH: Final = "/v2/models/fake/json-1"


def test_part_of_the_end_to_end_suite_passes_on_many_servers() -> None:
    """What a test does at one server, it reads at the other; a worker executes what is queued."""
    tests = [str(ROOT / "tests" / "end_to_end" / one) for one in _PART]
    env = {name: value for name, value in os.environ.items() if name != "COVERAGE"}
    options = ("-q", "--cluster", "-p", "no:cacheprovider")
    words = [sys.executable, "-m", "pytest", *options, *tests]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:]


def test_calls_and_sockets_go_to_the_servers_by_turns(
    tmp_path: Path, postgres: Postgres, nats: NatsServer, s3_server: S3Server, partner: FakePartner
) -> None:
    """Also those of one client, which keeps its connection where it may; what is queued is executed by the worker."""
    partner.script("/json", reply(200, b'{"made":1}'))
    catalog = CatalogFolder(tmp_path / "catalog")
    catalog.add_provider(partner.url)
    catalog.add_model("fake/json-1")
    env = {"FAIRLEAD_PROVIDER_FAKE_KEY": SECRET, "FAIRLEAD_ENGINE": "true", "FAIRLEAD_ENGINE_HOSTS": "1"}
    order = Order(tmp_path / "data", catalog=catalog.path, env=env, arguments=("--no-local-partner",))
    many = ManyServers(postgres, nats, s3_server).install(order)
    try:
        with httpx.Client(base_url=many.url, headers={"X-API-Key": str(many.first_key)}, timeout=60) as client:
            request = client.post(f"{_PATH}/requests", json={}).json()["request_id"]
            status = f"{_PATH}/requests/{request}/status"
            wait_until(lambda: client.get(status).json()["status"] == "COMPLETED", "the end of a run")
            assert client.get(status).json()["status"] == "COMPLETED"
            assert [_read(url, "fairlead_http_requests_total") > 0 for url in many.operator_urls[:2]] == [True, True]
            assert [_read(url, "fairlead_queue_seconds_count") for url in many.operator_urls] == [0, 0, 1]
            address = f"{many.url.replace('http', 'ws', 1)}/ws?token={many.first_key}"
            with connect(f"{address}&clientId=a"), connect(f"{address}&clientId=b"):
                sockets = [_read(url, "fairlead_connections_open", kind="websocket") for url in many.operator_urls]
            assert sockets == [1, 1, 0]
    finally:
        statuses = many.stop(signal.SIGTERM)
    assert statuses == [0, 0, 0]


def _read(url: str, name: str, **labels: str) -> float:
    return metric_of(httpx.get(f"{url}/metrics").text, name, **labels)
