"""Webhooks as rules: addresses, messages, signatures, secrets, and when a try is made again."""

import base64
import hashlib
import hmac
import ipaddress
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.accounts.callers import Caller, Patterns
from fairlead.domain.faults import Forbidden, InvalidInput
from fairlead.domain.runs.states import RunState
from fairlead.domain.runs.webhooks import (
    PAUSES_MS,
    TRIES_MAX,
    URL_MAX,
    EndedRun,
    IPAddress,
    Prospect,
    Try,
    after_try,
    is_of_own_network,
    message_of,
    refuse_managing_secret,
    refuse_url,
    secret_text,
    signed_headers,
    signing_numbers,
)
from fairlead.http_client.addresses import is_public
from fairlead.http_client.targets import read_origin

NOW: Final = 1_800_000_000_000
DAY: Final = 24 * 3600 * 1000
_ANY: Final = "0.0.0.0"  # noqa: S104 -- nothing is bound to it: a connection to it reaches this machine


def ended_run(**changes: Any) -> EndedRun:
    """Return a run that succeeded."""
    usual: dict[str, Any] = {
        "run_id": "run-1", "model_id": "acme/one", "state": RunState.SUCCEEDED, "reason": "completed",
        "finished_at": NOW + 5, "base_url": "https://router.example",
    }  # fmt: skip
    return EndedRun(**{**usual, **changes})


def everything(_: IPAddress) -> bool:
    """Allow any address."""
    return True


@pytest.mark.parametrize(
    "url",
    [
        "https://receiver.example", "http://receiver.example/hook", "HTTPS://Receiver.Example:8443/a/b?c=d&e=%20",
        "https://receiver.example?only=a-query", "https://93.184.216.34/x", "http://[2606:4700::1111]:80/x",
        "https://my_service.example./x", "https://1.example/x", "https://localhost.example/x", "http://a/'!*();@",
    ],
)  # fmt: skip
def test_public_web_address_is_taken(url: str) -> None:
    """Names and public addresses, http and https, with port, path and query."""
    assert refuse_url(url, is_public) is None


@pytest.mark.parametrize(
    "url",
    [
        "", "receiver.example", "/hook", "//receiver.example/x", "ftp://receiver.example/x", "https:///x", "https://",
        "https://user@receiver.example/x", "https://user:word@receiver.example/x", "https://receiver.example/#part",
        "https://receiver.example/a b", "https://receiver.example/a\\b", "https://receiver.example\\@other.example/",
        "https://receiver.example/\r\nHost: x", "https://receiver.example/\x00", "https://empfänger.example/x",
        "https://receiver.example:0/x", "https://receiver.example:65536/x", "https://receiver.example:/x",
        "https://receiver.example:8o/x", "https://-receiver.example/x", "https://receiver.example-/x",
        "https://[::1/x", "https://::1/x", "https://[fe80::1%25eth0]/x", "https://[1.2.3.4]/x", "https://[]/x",
        "https://1.2.3/x", "https://1.2.3.4.5/x", "https://93.184.216.034/x", "https://0x5db8d822/x",
        "https://1572395042/x", "https://receiver.7/x", "https://receiver.0x/x", f"https://{'a' * 254}/x",
        "https://receiver.example/" + "a" * URL_MAX,
    ],
)  # fmt: skip
def test_malformed_address_is_refused_with_a_reason(url: str) -> None:
    """What is not an absolute web address, smuggles a name or a line, or writes an address oddly; with a reason."""
    fault = refuse_url(url, everything)
    assert isinstance(fault, InvalidInput)
    assert fault.detail.startswith("webhook_url ")
    assert "receiver" not in fault.detail


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "10.0.0.1", "172.16.3.4", "192.168.0.1", "169.254.169.254", "100.64.0.1", "[::1]", "[fc00::1]",
        "[fe80::1]", "[::ffff:127.0.0.1]", "[64:ff9b::a00:1]", "localhost", "LOCALHOST.", "a.localhost",
        _ANY, "224.0.0.1", "127.0.0.1.",
    ],
)  # fmt: skip
def test_private_address_is_refused(host: str) -> None:
    """What shows that it is private by its number, or by the one name that always is, is refused at the submit."""
    assert isinstance(refuse_url(f"http://{host}/x", is_public), InvalidInput)


@given(st.from_regex(r"https?://[!-~]{1,40}", fullmatch=True))
def test_accepted_address_can_be_posted_to(url: str) -> None:
    """What is taken at the submit is an address to our HTTP client as well."""
    if refuse_url(url, everything) is None:
        read_origin(url)


@pytest.mark.parametrize(
    ("address", "is_own"),
    [
        ("127.0.0.1", True), ("10.9.8.7", True), ("172.31.0.1", True), ("192.168.1.1", True), ("100.64.0.1", True),
        ("::1", True), ("fd12::1", True), ("::ffff:10.0.0.1", True),
        ("169.254.169.254", False), ("::ffff:169.254.169.254", False), ("fe80::1", False), ("fd00:ec2::254", False),
        ("100.100.100.200", False), (_ANY, False), ("224.0.0.1", False), ("255.255.255.255", False),
        ("172.32.0.1", False), ("8.8.8.8", False), ("168.63.129.16", False), ("::", False), ("64:ff9b::a00:1", False),
    ],
)  # fmt: skip
def test_metadata_service_is_never_of_an_own_network(address: str, is_own: bool) -> None:  # noqa: FBT001 -- a table of cases
    """Private, shared and loopback addresses are; where a cloud answers with credentials, never."""
    assert is_of_own_network(ipaddress.ip_address(address)) is is_own


def test_success_message_holds_no_result() -> None:
    """A success names the run and where its result is, and holds none of it."""
    assert json.loads(message_of(ended_run())) == {
        "type": "run.completed",
        "timestamp": "2027-01-15T08:00:00.005Z",
        "data": {
            "request_id": "run-1",
            "model": "acme/one",
            "status": "COMPLETED",
            "status_url": "https://router.example/v2/models/acme/one/requests/run-1/status",
            "response_url": "https://router.example/v2/models/acme/one/requests/run-1",
        },
    }


@pytest.mark.parametrize(
    ("state", "reason", "error_type"),
    [
        (RunState.FAILED, "provider_error", "provider_error"),
        (RunState.FAILED, "cancelled", "cancelled"),
        (RunState.FAILED, "queue_timeout", "queue_timeout"),
        (RunState.LOST, "lost", "provider_error"),
    ],
)
def test_failure_message_has_a_type_and_a_bucket(state: RunState, reason: str, error_type: str) -> None:
    """Whatever was not a success has a type of its own, and a bucket that callers know."""
    told = json.loads(message_of(ended_run(state=state, reason=reason)))
    assert (told["type"], told["data"]["status"], told["data"]["error_type"]) == ("run.failed", "COMPLETED", error_type)


def test_signature_is_that_of_the_standard() -> None:
    """The worked example of the Standard Webhooks specification."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    expected = (
        "v1,"
        + base64.b64encode(
            hmac.new(secret, b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + body, hashlib.sha256).digest()
        ).decode()
    )
    assert expected == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    headers = signed_headers([secret], "p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers == {
        "Content-Type": "application/json",
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": expected,
    }


def test_both_secrets_sign_for_a_day_after_a_rotation() -> None:
    """For a day both secrets sign, the newest first; then only the new one."""
    assert signing_numbers(0, None, NOW) == (0,)
    assert signing_numbers(3, NOW, NOW) == (3, 2)
    assert signing_numbers(3, NOW, NOW + DAY - 1) == (3, 2)
    assert signing_numbers(3, NOW, NOW + DAY) == (3,)
    old, new = bytes(32), bytes([1]) * 32
    both = signed_headers([new, old], "run-1", 7, b"{}")["webhook-signature"].split(" ")
    assert both == [signed_headers([one], "run-1", 7, b"{}")["webhook-signature"] for one in (new, old)]


def test_secret_has_the_form_of_the_standard() -> None:
    """`whsec_` and base64 of 24 to 64 bytes."""
    assert secret_text(bytes(24)) == "whsec_" + "A" * 32
    for size in (23, 65):
        with pytest.raises(ValueError, match="24 to 64"):
            secret_text(bytes(size))


def test_limited_credential_does_not_see_the_secret() -> None:
    """Who may run some models only does not sign for all of them."""
    assert refuse_managing_secret(Caller("w", "w")) is None
    assert isinstance(refuse_managing_secret(Caller("w", "w", credential_models=Patterns(("acme/*",)))), Forbidden)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_accepted_message_is_never_posted_again(status: int) -> None:
    """Any 2xx is the end, at whichever try."""
    for number in (1, TRIES_MAX):
        assert after_try(number, Try(NOW, 5, status), NOW, 0.5) == Prospect(delivered_at=NOW)


def test_receiver_that_is_gone_is_never_asked_again() -> None:
    """410 ends it at once."""
    assert after_try(1, Try(NOW, 5, 410), NOW, 0.5) == Prospect(gave_up_at=NOW)


@pytest.mark.parametrize("done", [Try(NOW, 5, 500), Try(NOW, 5, 302), Try(NOW, 5, 404), Try(NOW, 5, error="too_slow")])
def test_failed_webhook_is_tried_eight_times_within_28_hours(done: Try) -> None:
    """Eight tries within 28 hours, redirects among what is not taken; then it is given up."""
    waits = [(after_try(number, done, NOW, 0).next_at or 0) - NOW for number in range(1, TRIES_MAX)]
    assert waits == list(PAUSES_MS)
    assert (TRIES_MAX, sum(waits)) == (8, (5 + 300 + 1800 + 7200 + 18000 + 36000 + 36000) * 1000)
    assert after_try(TRIES_MAX, done, NOW, 0) == Prospect(gave_up_at=NOW)


@given(number=st.integers(1, TRIES_MAX - 1), jitter=st.floats(0, 1))
def test_jitter_delays_a_try_by_at_most_a_tenth(number: int, jitter: float) -> None:
    """A try is never earlier than its pause, and at most a tenth later."""
    pause = PAUSES_MS[number - 1]
    next_at = after_try(number, Try(NOW, 5, 503), NOW, jitter).next_at
    assert next_at is not None
    assert pause <= next_at - NOW <= pause * 1.1
