"""What somebody meets who starts for the first time: typing errors in settings, another Python, tiers of one's own."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import Run
from fairlead.cli import commands
from fairlead.clock import Clock
from fairlead.domain.jobs.subscriptions import first_of
from fairlead.operations.accounts.workspaces import bootstrap, list_workspaces
from fairlead.server.installation import provider_files, strange_variables
from fairlead.server.settings import BadSettingError, read_settings
from fairlead.storage.db.database import Database
from form.sources import ROOT
from servers import command, serving


def test_variable_that_is_no_setting_is_reported_with_what_was_probably_meant() -> None:
    """Names of settings, of providers and of their options; what is empty counts as not set."""
    environment = {
        "FAIRLEAD_DRAIN_SECOND": "3",
        "FAIRLEAD_NOTHING_LIKE_IT": "3",
        "FAIRLEAD_DRIAN_SECONDS": "",
        "FAIRLEAD_PORT": "8080",
        "FAIRLEAD_PROVIDER_BFL_KEY": "good",
        "FAIRLEAD_PROVIDER_BFL_KEY_2": "good",
        "FAIRLEAD_PROVIDER_BFL_KEY_2_WEIGHT": "3",
        "FAIRLEAD_PROVIDER_BFL_BASE_URL": "http://127.0.0.1",
        "FAIRLEAD_PROVIDER_BFL_KYE": "bad",
        "FAIRLEAD_PROVIDER_BLF_KEY": "bad",
    }
    assert strange_variables(environment, provider_files(read_settings({}))) == [
        ("FAIRLEAD_DRAIN_SECOND", "FAIRLEAD_DRAIN_SECONDS"),
        ("FAIRLEAD_NOTHING_LIKE_IT", None),
        ("FAIRLEAD_PROVIDER_BFL_KYE", "FAIRLEAD_PROVIDER_BFL_KEY"),
        ("FAIRLEAD_PROVIDER_BLF_KEY", "FAIRLEAD_PROVIDER_BFL_KEY"),
    ]


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("PORT", "eighty", "FAIRLEAD_PORT: must be a whole number, not 'eighty'"),
        ("QUEUE_HOURS", "one day", "FAIRLEAD_QUEUE_HOURS: must be a number, not 'one day'"),
        ("REQUESTS_PER_DAY", "-5", "FAIRLEAD_REQUESTS_PER_DAY: must be between 0 and 1000000000"),
        ("DRAIN_SECONDS", "nan", "FAIRLEAD_DRAIN_SECONDS: must be between 0 and 3600"),
    ],
)
def test_value_that_cannot_be_used_is_told_with_its_variable(variable: str, text: str, told: str) -> None:
    """The message is in our words, not in those of Python."""
    with pytest.raises(BadSettingError) as raised:
        read_settings({f"FAIRLEAD_{variable}": text})
    assert str(raised.value) == told


@pytest.mark.req("C-13")
def test_workspace_without_a_tier_has_one_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Database, run: Run
) -> None:
    """The first workspace of an installation, and any that is made without a word about it."""
    for text, tier in (("pro=2,big=9", ("pro", 2)), ("small=1,large=7", ("large", 7))):
        assert first_of(read_settings({"FAIRLEAD_SUBSCRIPTIONS": text}).subscriptions) == tier
    assert run(bootstrap(database, "flk_", ("large", 7), Clock())) is not None
    (first,) = run(list_workspaces(database))
    assert (first["subscription"], first["jobs_limit"]) == ("large", 7)
    monkeypatch.setenv("FAIRLEAD_SUBSCRIPTIONS", "small=1,large=7")
    data = ("--data", str(tmp_path))
    command("migrate", *data)
    command("workspaces", "create", "lab", *data)
    made = command("workspaces", "list", "--json", "--data", str(tmp_path))
    assert [(row["subscription"], row["jobs_limit"]) for row in made if row["name"] == "lab"] == [("large", 7)]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_says_which_python_is_needed(tmp_path: Path) -> None:
    """An older one, or none at all: nothing is made, and the way out is named."""
    older = tmp_path / "python3"
    older.write_text('#!/bin/sh\ntest "$1" = --version && echo "Python 3.10.12" && exit 0\nexit 1\n')
    older.chmod(0o755)
    for python, told in ((str(older), "Python 3.10.12"), ("no-such-python", "not there")):
        done = subprocess.run(
            ["make", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}", "demo"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert f"Fairlead needs Python 3.11 or newer; {python} is {told}." in done.stderr
        assert "make demo PYTHON=python3.11" in done.stderr
        assert not (tmp_path / "venv").exists()


def test_doctor_reports_a_variable_that_is_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the log of a server is not available."""
    monkeypatch.setenv("FAIRLEAD_QUEUE_PLACE", "3")
    told = CliRunner().invoke(commands, ["doctor", "--data", str(tmp_path), "--json"]).stdout
    assert [row["detail"] for row in json.loads(told) if row["check"] == "settings"] == [
        "FAIRLEAD_QUEUE_PLACE is not a setting; FAIRLEAD_QUEUE_PLACES is one"
    ]


def test_markup_of_an_unknown_name_is_reported_with_what_was_probably_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of models and of providers; nothing is said of those that there are, or of `*`."""
    text = "*=5,openai=3,opnai=4,bfl/flux-2-pro=1,bfl/flux-2-pr0=1,nothing-like-it=2"
    monkeypatch.setenv("FAIRLEAD_MARKUP", text)
    told = CliRunner().invoke(commands, ["doctor", "--data", str(tmp_path), "--json"]).stdout
    (detail,) = [row["detail"] for row in json.loads(told) if row["check"] == "catalog"]
    assert detail.split("; FAIRLEAD_MARKUP names ") == [
        "FAIRLEAD_MARKUP names opnai, which is neither a model nor a provider; openai is one",
        "bfl/flux-2-pr0, which is neither a model nor a provider; bfl/flux-2-pro is one",
        "nothing-like-it, which is neither a model nor a provider",
    ]


def test_server_reports_unknown_names_at_its_start(tmp_path: Path) -> None:
    """A variable that is not a setting, and a markup of what is not a model or provider, each with what was meant."""
    env = {"FAIRLEAD_QUEUE_PLACE": "3", "FAIRLEAD_MARKUP": "*=5,openai=3,opnai=4,nothing-like-it=2"}
    with serving(tmp_path / "data", env=env, arguments=("--no-local-partner",)) as server:
        (setting,) = server.logged_events("SettingUnknown")
        assert (setting["variable"], setting["meant"]) == ("FAIRLEAD_QUEUE_PLACE", "FAIRLEAD_QUEUE_PLACES")
        told = [(entry["name"], entry["meant"]) for entry in server.logged_events("MarkupUnknown")]
        assert told == [("opnai", "openai"), ("nothing-like-it", None)]
        assert {entry["level"] for entry in server.logged_events("MarkupUnknown")} == {"warning"}
