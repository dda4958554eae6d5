"""The one error shape: {"error": {"code", "message", "param"}}, and every way to get it."""

from typing import Any

import httpx
import pytest

JSON = {"content-type": "application/json"}


def refusal_of(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Check the shape of an error and return its status, code and field."""
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "param"}
    assert len(body["error"]["message"]) > 10
    return answer.status_code, body["error"]["code"], body["error"]["param"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"prompt":NaN}', b'{"a":1,"a":2}', b'{"prompt":"\xff"}', b"[" * 100000, b"-Infinity"],
    ids=["empty", "cut", "array", "nan", "twice", "bad utf-8", "deep", "infinity"],
)
def test_body_that_is_no_json_object_is_400(vendor: Any, content: bytes) -> None:
    """Anything but a strict JSON object is invalid_json."""
    answer = vendor.client.post("/v1/images", content=content, headers=JSON)
    assert refusal_of(answer) == (400, "invalid_json", None)


@pytest.mark.parametrize(
    ("path", "field", "values"),
    [
        ("images", "prompt", [None, "", "x" * 2001, 5]),
        ("images", "width", [63, 2049, 64.5, "64", True, 10**400]),
        ("images", "height", [63, 2049]),
        ("images", "seed", [-1, 4294967296, 1.5]),
        ("images", "strength", [-0.1, 1.1, "1", True]),
        ("images", "image", [5, ""]),
        ("audio", "duration_seconds", [0.4, 31, "4"]),
        ("audio", "sample_rate", [8000, 44100.5]),
        ("videos", "duration_seconds", [0.4, 10.5]),
        ("videos", "width", [62, 1026, 65]),
        ("videos", "fps", [25, True]),
        ("text", "max_characters", [0, 20001]),
    ],
)
def test_value_out_of_bounds_is_422_and_named(vendor: Any, path: str, field: str, values: list[Any]) -> None:
    """Each field has bounds, and the refusal names the field."""
    for value in values:
        answer = vendor.post(f"/v1/{path}", {"prompt": "x", field: value})
        assert refusal_of(answer) == (422, "invalid_value", field), value


def test_number_too_large_for_a_float_is_422(vendor: Any) -> None:
    """A JSON number that becomes infinity is out of bounds, not an error of ours."""
    answer = vendor.client.post("/v1/audio", content=b'{"prompt":"x","duration_seconds":1e999}', headers=JSON)
    assert refusal_of(answer) == (422, "invalid_value", "duration_seconds")


def test_half_a_surrogate_pair_is_422(vendor: Any) -> None:
    """A prompt that is not text in any encoding is refused before it can break an answer."""
    answer = vendor.client.post("/v1/text", content=b'{"prompt":"\\ud800"}', headers=JSON)
    assert refusal_of(answer) == (422, "invalid_value", "prompt")


def test_unknown_fields_are_ignored(vendor: Any) -> None:
    """A field this version does not know does no harm."""
    assert vendor.post("/v1/text", {"prompt": "x", "later": {"a": [1]}}).status_code == 200


def test_body_over_the_limit_is_413(vendor: Any) -> None:
    """More than 24 MiB is refused, whether its length was declared or not."""

    def chunks() -> Any:
        for _ in range(25):
            yield b" " * 2**20

    declared = vendor.client.post("/v1/text", content=b" " * (24 * 2**20 + 1), headers=JSON)
    assert refusal_of(declared) == (413, "body_too_large", None)
    streamed = vendor.client.post("/v1/text", content=chunks(), headers=JSON)
    assert refusal_of(streamed) == (413, "body_too_large", None)


def test_other_media_type_is_415(vendor: Any) -> None:
    """A form is not JSON, whatever its bytes are."""
    answer = vendor.client.post("/v1/text", data={"prompt": "x"})
    assert refusal_of(answer) == (415, "unsupported_media_type", None)


def test_unknown_address_id_or_file_is_404(vendor: Any) -> None:
    """Nothing there is not_found, in the same shape."""
    for path in ("/", "/v1/nothing", "/v1/videos/vid_none", "/v1/files/none.mp4", "/v1/files/../x", "/v1/files/"):
        assert refusal_of(vendor.client.get(path)) == (404, "not_found", None)
    assert refusal_of(vendor.client.delete("/v1/videos/vid_none")) == (404, "not_found", None)


def test_wrong_method_is_405_and_says_what_is_allowed(vendor: Any) -> None:
    """The Allow header lists the methods of the address."""
    answer = vendor.client.get("/v1/images")
    assert refusal_of(answer) == (405, "method_not_allowed", None)
    assert answer.headers["allow"] == "POST"


def test_with_a_token_only_its_bearer_may_call(start: Any) -> None:
    """Without the token, or with another, /v1 is 401; health and files need none."""
    with start(token="secret-1") as own:
        for given in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic secret-1"}):
            for path in ("/v1/text", "/v1/nothing"):
                answer = httpx.post(own.url + path, json={"prompt": "x"}, headers=given)
                assert refusal_of(answer) == (401, "unauthorized", None)
        assert own.post("/v1/text", {"prompt": "x"}).status_code == 200
        assert httpx.get(own.url + "/healthz").status_code == 200
        assert httpx.get(own.url + "/v1/files/none").status_code == 404
