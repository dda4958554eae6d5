"""Who is let in without a credential: calls to known hosts, and readers of the metrics (docs/operating.md)."""

from ipaddress import ip_network
from typing import Any, Final

import pytest

from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.hosts import KnownHosts
from fairlead.api.operator import MetricsAccess
from fairlead.domain.faults import FaultError, Forbidden, Unauthorized
from fairlead.server.settings import BadSettingError, read_settings

_LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_TOKEN: Final = "a-token-of-sixteen"


def scope_of(host: str | None = "localhost:8080", client: str = "127.0.0.1", **headers: str) -> dict[str, Any]:
    """A call as the server sees it; header names with underscores for dashes."""
    sent = [(b"host", host.encode())] if host is not None else []
    sent += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"scheme": "http", "server": ("127.0.0.1", 8080), "client": (client, 4242), "headers": sent}


def is_known(scope: dict[str, Any], hosts: KnownHosts) -> bool:
    """Whether a call names a known host."""
    try:
        hosts.check(scope)
    except FaultError as error:
        return not isinstance(error.fault, Forbidden)
    return True


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("localhost.", True),
        ("editor.localhost:80", True),
        ("127.0.0.1:8080", True),
        ("127.9.9.9", True),
        ("[::1]:8080", True),
        ("[::ffff:127.0.0.1]", True),
        ("studio.example:8443", True),
        ("render.lan", True),
        ("render.lan:8080", True),
        ("studio.example", False),
        ("attacker.example", False),
        ("127.0.0.1.attacker.example", False),
        ("localhost.attacker.example", False),
        ("notlocalhost", False),
        ("192.168.1.5:8080", False),
        ("[2001:db8::1]", False),
        ("localhost@attacker.example", False),
        ("", False),
        (None, False),
    ],
)
def test_only_known_hosts_are_answered(host: str | None, *, expected: bool) -> None:
    """Loopback names and addresses, the public URL's host, and those of the setting; nothing that looks like them."""
    hosts = KnownHosts(BaseUrls("https://studio.example:8443/api"), frozenset({"render.lan"}))
    assert is_known(scope_of(host), hosts) is expected


@pytest.mark.req("S-02")
def test_trusted_proxy_names_the_host() -> None:
    """Behind a trusted proxy the host is the one it was called by, not the one it calls us by."""
    hosts = KnownHosts(BaseUrls(None, (ip_network("10.0.0.0/8"),)), frozenset())
    assert not is_known(scope_of(client="10.0.0.1", x_forwarded_host="attacker.example"), hosts)
    assert is_known(scope_of("attacker.example", client="10.0.0.1", x_forwarded_host="localhost"), hosts)
    assert not is_known(scope_of("attacker.example", client="10.9.0.1"), hosts)
    assert not is_known(scope_of("attacker.example", client="192.0.2.1", x_forwarded_host="localhost"), hosts)


def refusal(access: MetricsAccess, scope: dict[str, Any]) -> type | None:
    """Why the metrics are refused; None where they are shown."""
    try:
        access.check(scope)
    except FaultError as error:
        return type(error.fault)
    return None


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    ("public", "proxies", "client", "headers", "expected"),
    [
        (None, (), "127.0.0.1", {}, None),
        (None, (), "::1", {}, None),
        (None, (), "::ffff:127.0.0.1", {}, None),
        (None, (), "192.0.2.7", {}, Forbidden),
        (None, (), "192.0.2.7", {"x_forwarded_for": "127.0.0.1"}, Forbidden),
        ("http://localhost", (), "127.0.0.1", {}, Forbidden),
        ("http://localhost", ("127.0.0.1/32",), "127.0.0.1", {}, Forbidden),
        ("http://localhost", ("127.0.0.1/32",), "127.0.0.1", {"x_forwarded_for": "192.0.2.7"}, Forbidden),
        (None, ("127.0.0.1/32",), "127.0.0.1", {"x_forwarded_for": "127.0.0.2, 192.0.2.7"}, Forbidden),
        (None, ("127.0.0.1/32",), "127.0.0.1", {"x_forwarded_for": "192.0.2.7, 127.0.0.2"}, None),
        (None, ("127.0.0.1/32",), "127.0.0.1", {"x_forwarded_for": "nonsense"}, Forbidden),
        (None, ("127.0.0.1/32",), "127.0.0.1", {"forwarded": "for=192.0.2.7"}, Forbidden),
        (None, ("127.0.0.1/32",), "127.0.0.1", {"forwarded": 'for="[::1]"'}, None),
        (None, ("192.0.2.0/24",), "127.0.0.1", {}, None),
    ],
)
def test_metrics_are_for_the_machine_itself(
    public: str | None, proxies: tuple[str, ...], client: str, headers: dict[str, str], expected: type | None
) -> None:
    """Without a token only callers whose own address is allowed read them, no matter who stands between."""
    base_urls = BaseUrls(public, tuple(ip_network(one) for one in proxies))
    access = MetricsAccess(_LOOPBACK, KnownHosts(base_urls))
    assert refusal(access, scope_of(client=client, **headers)) is expected


@pytest.mark.req("S-02")
def test_metrics_are_refused_to_a_rebound_name() -> None:
    """A page of another site, whose name leads here, reads nothing."""
    access = MetricsAccess(_LOOPBACK, KnownHosts(BaseUrls()))
    assert refusal(access, scope_of("attacker.example")) is Forbidden


@pytest.mark.req("S-02")
def test_metrics_token_opens_them_to_who_has_it() -> None:
    """With a token configured only the whole token counts, whatever the address and the host."""
    access = MetricsAccess(_LOOPBACK, KnownHosts(BaseUrls("https://studio.example")), _TOKEN)
    assert refusal(access, scope_of()) is Unauthorized
    for wrong in ("", "Bearer", f"Bearer {_TOKEN[:-1]}", f"Bearer {_TOKEN}x", _TOKEN, f"Basic {_TOKEN}", "Bearer é"):
        assert refusal(access, scope_of(authorization=wrong)) is Unauthorized
    assert refusal(access, scope_of("anything.example", "192.0.2.7", authorization=f"Bearer {_TOKEN}")) is None


@pytest.mark.req("S-02", "S-10")
def test_settings_of_access_are_read_and_hidden() -> None:
    """Hosts are names without ports; the token is never shown."""
    settings = read_settings({}, allowed_hosts="Render.LAN, 192.168.1.5,::1", metrics_token=_TOKEN)
    assert settings.allowed_hosts == {"render.lan", "192.168.1.5", "::1"}
    assert _TOKEN not in repr(settings)
    for bad in ("http://a", "a:80", "a,,b", "*"):
        with pytest.raises(BadSettingError, match="FAIRLEAD_ALLOWED_HOSTS"):
            read_settings({}, allowed_hosts=bad)
    with pytest.raises(BadSettingError, match="FAIRLEAD_METRICS_TOKEN"):
        read_settings({}, metrics_token="short")
