"""Signatures over requests agree with the examples their vendors publish."""

from typing import Final

from msgspec.structs import replace

from fairlead.providers.request_signatures import OutgoingRequest, tc3_headers

# The example of "Signature v3" in the Tencent Cloud API reference, whose key is not a key of anybody.
_REQUEST: Final = OutgoingRequest(
    "POST",
    "https://cvm.tencentcloudapi.com/",
    "application/json; charset=utf-8",
    rb'{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}',
)
_ID: Final = "AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE"
_KEY: Final = "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE"
_NOW: Final = 1_551_113_065


def _sign(request: OutgoingRequest, now: float = _NOW, key: str = _KEY) -> str:
    return tc3_headers(request, secret_id=_ID, secret_key=key, service="cvm", now=now)["Authorization"]


def test_tc3_signature_is_that_of_the_published_example() -> None:
    """Tencent's own example: request, key and time give the signature that its reference prints."""
    headers = tc3_headers(_REQUEST, secret_id=_ID, secret_key=_KEY, service="cvm", now=_NOW + 0.9)
    assert headers == {
        "Authorization": "TC3-HMAC-SHA256 Credential=AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE/2019-02-25/cvm/tc3_request, "
        "SignedHeaders=content-type;host, Signature=72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168",
        "X-TC-Timestamp": "1551113065",
    }


def test_tc3_signature_covers_every_part_of_the_request() -> None:
    """Another method, host, port, path, query, type, body, key or time gives another signature."""
    others = [
        replace(_REQUEST, method="PUT"),
        replace(_REQUEST, url="https://ai3d.tencentcloudapi.com/"),
        replace(_REQUEST, url="https://cvm.tencentcloudapi.com:8443/"),
        replace(_REQUEST, url="https://cvm.tencentcloudapi.com/other"),
        replace(_REQUEST, url="https://cvm.tencentcloudapi.com/?a=b"),
        replace(_REQUEST, content_type="application/json"),
        replace(_REQUEST, content_type=None),
        replace(_REQUEST, body=b"{}"),
    ]
    signatures = [_sign(request) for request in (_REQUEST, *others)]
    signatures += [_sign(_REQUEST, now=_NOW + 1), _sign(_REQUEST, key="another-key")]
    assert len({text.rpartition("=")[2] for text in signatures}) == len(signatures)


def test_tc3_signature_is_the_same_for_spellings_of_one_address() -> None:
    """The scheme's own port and a missing path are what they stand for."""
    assert _sign(replace(_REQUEST, url="https://cvm.tencentcloudapi.com:443")) == _sign(_REQUEST)
