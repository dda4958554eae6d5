"""Ports for servers of tests: free, different, and never those that the system gives out."""

import random
import socket

import pytest

from ports import free_ports


def test_ports_are_free_and_different() -> None:
    """Servers can listen on all of them at once."""
    chosen = free_ports(8)
    servers = [socket.create_server(("127.0.0.1", port)) for port in chosen]
    for server in servers:
        server.close()
    assert len(set(chosen)) == len(chosen)


def test_system_gives_them_to_nobody() -> None:
    """A process that asks for any port gets another one."""
    chosen = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] > max(chosen)


def test_taken_port_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port on which a server listens is not chosen."""
    taken, other = free_ports(2)
    monkeypatch.setattr(random, "sample", lambda *_: [taken, other, other])
    with socket.create_server(("127.0.0.1", taken)):
        assert free_ports(1) == [other]
