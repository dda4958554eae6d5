"""What `fairlead doctor` and the reading of settings say of NATS (M-04)."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli import commands
from fairlead.server.settings import BadSettingError, read_settings
from nats_servers import NatsServer

pytestmark = pytest.mark.req("M-04")


def _messaging(data: Path, url: str) -> dict[str, str]:
    env = {"FAIRLEAD_MESSAGING": url, "FAIRLEAD_ENGINE": "false"}
    said = CliRunner().invoke(commands, ["doctor", "--data", str(data), "--json"], env=env).stdout
    assert "very-secret" not in said
    (finding,) = [finding for finding in json.loads(said) if finding["check"] == "messaging"]
    return dict(finding)


def test_doctor_tries_the_nats_it_is_given(tmp_path: Path, nats: NatsServer) -> None:
    """It says how far away it is; one that is missing is a warning, as servers work without it."""
    there = _messaging(tmp_path, nats.url)
    assert there["result"] == "ok"
    assert f"127.0.0.1:{nats.port}" in there["detail"]
    missing = _messaging(tmp_path, "nats://fairlead:very-secret@127.0.0.1:1")
    assert missing["result"] == "warning"
    assert "127.0.0.1" in missing["detail"]


@pytest.mark.parametrize(
    "text",
    [
        "http://nats.example", "nats://", "nats://host/path", "nats://host:port", "nats://a:very-secret/b@host",
        "nats://a,tls://b", "nats://a:very-secret@one,nats://b:very-secret@two",
    ],
)  # fmt: skip
def test_addresses_that_are_none_of_nats_are_refused(text: str) -> None:
    """With a sentence that repeats no password."""
    with pytest.raises(BadSettingError) as caught:
        read_settings({"FAIRLEAD_MESSAGING": text})
    assert str(caught.value).startswith("FAIRLEAD_MESSAGING: ")
    assert "very-secret" not in str(caught.value)


def test_servers_of_one_nats_may_be_several() -> None:
    """With commas between them, and one user."""
    urls = ("nats://a:b@one:4222", "nats://two")
    assert read_settings({"FAIRLEAD_MESSAGING": ", ".join(urls)}).messaging == urls
