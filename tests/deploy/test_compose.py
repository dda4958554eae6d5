"""`deploy/compose`: a whole installation whose parts know each other, and a balancer that asks each server."""

import re
import socket
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from deploy.kit import DEPLOY, assert_is_command, read_yaml
from haproxy import find_haproxy
from nats_servers import running_nats
from ports import free_ports

_FOLDER: Final = DEPLOY / "compose"
_FILE: Final[dict[str, Any]] = read_yaml(_FOLDER / "compose.yaml")
_SERVICES: Final[dict[str, dict[str, Any]]] = _FILE["services"]
_OURS: Final = {name: service for name, service in _SERVICES.items() if service["image"] == "fairlead:local"}
_KEYS: Final = frozenset(
    {
        "build", "cap_drop", "command", "configs", "depends_on", "entrypoint", "environment", "healthcheck", "image",
        "networks", "ports", "read_only", "restart", "security_opt", "stop_grace_period", "tmpfs", "volumes",
    }
)  # fmt: skip
"""Those of the Compose specification that this file uses; a misspelled one would be refused by Compose."""


def test_installation_is_whole() -> None:
    """Three servers, two workers, and everything they need; only the balancer can be reached from elsewhere."""
    assert set(_SERVICES) == {
        "balancer", "server1", "server2", "server3", "worker1", "worker2", "migrate", "postgres", "nats", "s3",
        "bucket",
    }  # fmt: skip
    assert [name for name, service in _SERVICES.items() if "ports" in service] == ["balancer"]
    assert {key for service in _SERVICES.values() for key in service} <= _KEYS


@pytest.mark.parametrize("name", _OURS)
def test_service_starts_a_command_that_exists(name: str) -> None:
    """With options that it has, as a user without capabilities, and with a longer grace than its stop takes."""
    service = _OURS[name]
    assert_is_command(service["command"])
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    settings = service["environment"]
    stop = int(settings["FAIRLEAD_DRAIN_PAUSE_SECONDS"]) + int(settings["FAIRLEAD_DRAIN_SECONDS"])
    assert int(service["stop_grace_period"].removesuffix("s")) > stop
    (folder, *_) = [one.split(":")[1] for one in service["volumes"]]
    assert folder == "/var/lib/fairlead"


def test_parts_name_parts_that_exist() -> None:
    """Services that others wait for, volumes, networks and files; two servers share no data directory."""
    for service in _SERVICES.values():
        needs = service.get("depends_on", {})
        assert set(needs) <= set(_SERVICES)
        for name, how in needs.items():
            checked = "healthcheck" in _SERVICES[name] or name in _OURS
            assert checked or how["condition"] != "service_healthy"
        volumes = [one.split(":")[0] for one in service.get("volumes", ())]
        assert all((_FOLDER / one).exists() if one.startswith("./") else one in _FILE["volumes"] for one in volumes)
        assert set(service["networks"]) <= set(_FILE["networks"])
    own = [service["volumes"][0].split(":")[0] for service in _OURS.values()]
    assert len(set(own)) == len(own)


def test_variables_are_in_the_example() -> None:
    """Compose asks for nothing else."""
    used = set(re.findall(r"\$\{([A-Z0-9_]+)", (_FOLDER / "compose.yaml").read_text(encoding="utf-8")))
    assert (
        set(re.findall(r"^([A-Z0-9_]+)=", (_FOLDER / "env.example").read_text(encoding="utf-8"), re.MULTILINE)) == used
    )


def test_balancer_asks_every_server_whether_it_takes_work() -> None:
    """It notices a server that drains within the pause that the server makes, and outlasts every call."""
    text = (_FOLDER / "haproxy.cfg").read_text(encoding="utf-8")
    assert re.findall(r"^\s+server (\S+) (\S+):8080$", text, re.MULTILINE) == [
        (name, name) for name in _SERVICES if name.startswith("server")
    ]
    interval, falls = re.findall(r"inter (\d+)s fall (\d+)", text)[0]
    pause = int(_SERVICES["server1"]["environment"]["FAIRLEAD_DRAIN_PAUSE_SECONDS"])
    assert int(interval) * int(falls) < pause
    assert "uri /readyz" in text
    (timeout,) = re.findall(r"timeout server (\d+)s", text)
    assert int(timeout) > 600


def test_messenger_takes_nobody_without_the_credential(tmp_path: Path) -> None:
    """NATS takes the file with which Compose starts it, and refuses whoever does not know its password."""
    text = _FILE["configs"]["nats"]["content"].replace("${NATS_PASSWORD:?set it in .env}", "0f1e")
    (port,) = free_ports(1)
    text = text.replace("0.0.0.0:4222", f"127.0.0.1:{port}").replace("127.0.0.1:8222", "127.0.0.1:-1")
    (tmp_path / "nats.conf").write_text(text, encoding="utf-8")
    with running_nats(["-c", str(tmp_path / "nats.conf")]) as nats:
        assert _greet(nats.port, {}) == b"-ERR 'Authorization Violation'\r\n"
        assert _greet(nats.port, {"user": "fairlead", "pass": "0f1e"}) == b"PONG\r\n"
    settings = _SERVICES["server1"]["environment"]
    assert settings["FAIRLEAD_MESSAGING"].startswith("nats://fairlead:${NATS_PASSWORD")


def _greet(port: int, options: dict[str, str]) -> bytes:
    """Connect to NATS, and return what it says to that."""
    with closing(socket.create_connection(("127.0.0.1", port), 30)) as connection, connection.makefile("rb") as lines:
        lines.readline()
        connection.sendall(b"CONNECT " + msgspec.json.encode({**options, "verbose": False}) + b"\r\nPING\r\n")
        return lines.readline()


def test_haproxy_takes_its_configuration(tmp_path: Path) -> None:
    """The balancer itself finds it valid; the servers are at names that this machine does not know."""
    haproxy = find_haproxy()
    text = re.sub(r"server(\d):8080", r"127.0.0.1:808\1", (_FOLDER / "haproxy.cfg").read_text(encoding="utf-8"))
    (tmp_path / "haproxy.cfg").write_text(text, encoding="utf-8")
    check = [haproxy, "-c", "-f", "haproxy.cfg"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
