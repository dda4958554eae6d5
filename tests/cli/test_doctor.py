"""What `fairlead doctor` says of engine hosts, and with the metrics of pools for which nobody works (M-05)."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from conftest import Run
from fairlead.cli import commands
from fairlead.clock import Clock
from fairlead.domain.jobs.entries import Submission
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod, BudgetScope
from fairlead.domain.work.pools import WorkedPools
from fairlead.observing.installation import OTHER_POOLS, PoolSeen
from fairlead.operations.overview import Overview
from fairlead.storage.db.database import Database
from fairlead.storage.jobs import jobs
from fairlead.storage.jobs.entries import write_job_entries
from fairlead.storage.ledger.budgets import NewBudget, create_budget
from fairlead.storage.work.table import announce_server
from operations.servers import SCHEMA, model_text
from storage.bookings import LAB, NOW, Books

pytestmark = pytest.mark.req("M-05")

_SILENT_MS = 20_000
Finding = Callable[..., dict[str, Any]]


@pytest.fixture
def books(database: Database, run: Run) -> Books:
    """Return books with a workspace that has slots for everything."""
    books = Books(database, run)
    books.open(jobs_limit=100)
    return books


@pytest.fixture
def found(database_url: str, tmp_path: Path) -> Finding:
    """Return a function that says what the command finds, of pools where nothing else is named."""

    def find(check: str = "pools") -> dict[str, Any]:
        words = ["doctor", "--json", "--data", str(tmp_path), "--database", database_url]
        told = CliRunner().invoke(commands, words, env={"FAIRLEAD_ENGINE": "false"}).stdout
        return _only(told, check)

    return find


def _only(told: str, check: str) -> dict[str, Any]:
    (finding,) = [one for one in json.loads(told) if one["check"] == check]
    return dict(finding)


def _release(books: Books, *pools: str) -> None:
    document = jobs.deflate(b"{}")
    entries = [
        Submission(f"job-{number}", LAB, document, document, "[]", 1, NOW, 100, pool=pool)
        for number, pool in enumerate(pools)
    ]
    books.do(lambda c: write_job_entries(c, entries))


def _announce(books: Books, server_id: str, pools: WorkedPools) -> None:
    now = Clock().now_ms() + 10_000
    books.do(partial(announce_server, server_id=server_id, now=now, forget_before=0, pools=pools))


def test_doctor_names_rate_cards_that_are_to_be_checked(tmp_path: Path) -> None:
    """Cards past their days make a warning, with their number and some of their names; derived ones are only told."""
    models = tmp_path / "models"
    models.mkdir()
    for number in range(7):
        dates = 'source = "a"\nchecked = 2026-01-01\ncheck_by = 2026-02-01\n' if number else ""
        text = model_text(f"paint-{number}", "local", "image")
        (models / f"{number}.toml").write_text(text.replace("effective", f"derived = true\n{dates}effective"))
    (models / "input.json").write_text(json.dumps(SCHEMA))
    words = ["doctor", "--json", "--data", str(tmp_path)]
    env = {"FAIRLEAD_ENGINE": "false", "FAIRLEAD_CATALOG": str(tmp_path)}
    told = json.loads(CliRunner().invoke(commands, words, env=env).stdout)
    (finding,) = [one for one in told if one["check"] == "rate cards"]
    assert finding["result"] == "warning", told
    told_of = re.search(
        r"(\d+) past the day by which .*\(acme/paint-1 at local,.* more\); (\d+) derived", finding["detail"]
    )
    assert told_of is not None, "the cards that ship come after those of this catalog, and may be as old"
    assert int(told_of[1]) >= 6
    assert int(told_of[2]) >= 7


def test_doctor_names_pools_that_nobody_works_for(books: Books, found: Finding) -> None:
    """A pool is named while work waits in it and no server that is alive executes that kind of work there."""
    assert (found()["result"], found()["detail"]) == ("ok", "no server or worker is running")
    _release(books, "gpu", "gpu", "typo")
    _announce(books, "api", WorkedPools(runs=("default", "gpu"), jobs=("default",)))
    told = found()
    assert told["result"] == "warning"
    assert told["detail"].startswith("work waits in pools that nobody works for: gpu (jobs: 2), typo (jobs: 1); start")
    _announce(books, "worker", WorkedPools(("gpu", "typo"), ("gpu", "typo")))
    assert (found()["result"], found()["detail"]) == ("ok", "every pool in which work waits has a server or worker")


def test_doctor_names_a_few_pools_of_many(books: Books, found: Finding) -> None:
    """Owners of deployments choose the names, and there may be any number of them."""
    _release(books, *(f"pool-{number}" for number in range(8)))
    _announce(books, "api", WorkedPools())
    assert "pool-4 (jobs: 1) and 3 more; start a worker" in found()["detail"]


def test_pools_without_a_name_of_an_operator_are_one_series(
    books: Books, database: Database, run: Run, tmp_path: Path
) -> None:
    """However many names deployments bring, the metrics have those of rules and servers, and one for all others."""
    _release(books, "gpu", *(f"pool-{number}" for number in range(8)), "spare")
    _announce(books, "worker", WorkedPools(("default", "spare"), ("default", "spare")))
    overview = Overview(database, Clock(), tmp_path, _SILENT_MS, ("gpu",))
    seen = run(overview.look())
    run(overview.close())
    assert [one for one in seen.pools if one.kind == "jobs"] == [
        PoolSeen("jobs", "default", 0, 0),
        PoolSeen("jobs", "gpu", 1, 1),
        PoolSeen("jobs", "spare", 1, 0),
        PoolSeen("jobs", OTHER_POOLS, 8, 8),
    ]
    assert {one.waiting for one in seen.pools if one.kind == "runs"} == {0}


@pytest.mark.req("M-07")
def test_doctor_names_time_zones_of_budgets_that_this_machine_does_not_know(books: Books, found: Finding) -> None:
    """Another server took them; here their periods begin by UTC."""
    new = NewBudget(
        id="budget", workspace_id=LAB, scope=BudgetScope.WORKSPACE, subject="", budget=Budget(1, BudgetPeriod.DAY),
        created_at=NOW,
    )  # fmt: skip
    books.do(lambda c: create_budget(c, new, NOW))
    assert found("time zones")["result"] == "ok"
    books.sql("UPDATE budgets SET time_zone = 'Mars/Olympus'")
    told = found("time zones")
    assert told["result"] == "problem"
    assert "budgets name Mars/Olympus" in told["detail"]


@pytest.mark.req("T-05")
@pytest.mark.parametrize(
    ("env", "detail"),
    [
        ({}, "2, and 1 more for workspaces that have none while all are held; up to 12288 MiB of memory together"),
        (
            {"FAIRLEAD_ENGINE_EXTRA_HOSTS": "0", "FAIRLEAD_ENGINE_MEMORY_MIB": "0"},
            "2, and 0 more for workspaces that have none while all are held; without a bound of their memory",
        ),
        ({"FAIRLEAD_ENGINE": "false"}, "none"),
    ],
)
def test_doctor_says_what_engine_hosts_may_take_together(tmp_path: Path, env: dict[str, str], detail: str) -> None:
    """Their number with the extra ones, and the memory of all of them."""
    told = CliRunner().invoke(commands, ["doctor", "--json", "--data", str(tmp_path)], env=env).stdout
    assert {"check": "engine hosts", "result": "ok", "detail": detail} in json.loads(told)


@pytest.mark.req("R-05")
@pytest.mark.parametrize(
    ("env", "result", "words"),
    [
        ({}, "ok", "begin with http://127.0.0.1:8080"),
        ({"FAIRLEAD_HOST": "0.0.0.0"}, "warning", "such as http://0.0.0.0:8080"),  # noqa: S104 -- is not listened on
        ({"FAIRLEAD_HOST": "::1"}, "ok", "begin with http://[::1]:8080"),
        ({"FAIRLEAD_PUBLIC_BASE_URL": "http://media.example"}, "warning", "set FAIRLEAD_PUBLIC_BASE_URL"),
        ({"FAIRLEAD_PUBLIC_BASE_URL": "http://localhost:9000"}, "ok", "begin with http://localhost:9000"),
        ({"FAIRLEAD_PUBLIC_BASE_URL": "https://media.example"}, "ok", "begin with https://media.example"),
        ({"FAIRLEAD_HOST": "0.0.0.0", "FAIRLEAD_TRUSTED_PROXIES": "10.0.0.0/8"}, "ok", "trusted proxies"),  # noqa: S104 -- as above
    ],
)
def test_doctor_warns_of_links_that_are_not_https(tmp_path: Path, env: dict[str, str], result: str, words: str) -> None:
    """Callers on this machine may be given http, others may not."""
    told = CliRunner().invoke(
        commands, ["doctor", "--json", "--data", str(tmp_path)], env={"FAIRLEAD_ENGINE": "false", **env}
    )
    finding = _only(told.stdout, "links")
    assert finding["result"] == result
    assert words in finding["detail"]
