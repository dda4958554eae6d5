"""The Idempotency-Key header."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

SMALL = {"prompt": "quiet lake", "width": 64, "height": 64}


def test_repeat_with_the_same_key_is_a_replay(vendor: Any) -> None:
    """The whole first answer comes back, marked as a replay."""
    first, again = (vendor.post("/v1/images", SMALL, key="replay") for _ in range(2))
    assert first.content == again.content
    assert "idempotent-replay" not in first.headers
    assert again.headers["idempotent-replay"] == "true"


def test_order_of_fields_and_defaults_written_out_do_not_make_another_request(vendor: Any) -> None:
    """The key is compared with what is asked, not with how it is spelled."""
    vendor.post("/v1/images", SMALL, key="spelling")
    again = vendor.post("/v1/images", {"height": 64, "strength": 0.6, **SMALL}, key="spelling")
    assert again.headers["idempotent-replay"] == "true"


def test_key_used_for_something_else_is_a_conflict(vendor: Any) -> None:
    """Another body, or another endpoint, under one key is refused."""
    vendor.post("/v1/text", {"prompt": "one"}, key="conflict")
    for path, prompt in (("/v1/text", "two"), ("/v1/audio", "one")):
        answer = vendor.post(path, {"prompt": prompt}, key="conflict")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "idempotency_conflict")


def test_concurrent_calls_with_one_key_generate_once(vendor: Any) -> None:
    """Of many simultaneous calls exactly one generates; the others get its answer."""
    body = {"prompt": "once", "width": 256, "height": 256}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: vendor.post("/v1/images", body, key="together"), range(8)))
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotent-replay" not in answer.headers for answer in answers) == 1


def test_failure_is_not_remembered(vendor: Any) -> None:
    """A key whose call was refused can be used again with a corrected body."""
    assert vendor.post("/v1/text", {}, key="failed").status_code == 422
    corrected = vendor.post("/v1/text", {"prompt": "x"}, key="failed")
    assert corrected.status_code == 200
    assert "idempotent-replay" not in corrected.headers


def test_key_of_a_wrong_length_is_refused(vendor: Any) -> None:
    """A key has 1 to 255 characters."""
    for key in ("", "x" * 256):
        answer = vendor.post("/v1/text", {"prompt": "x"}, key=key)
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, "Idempotency-Key")


def test_repeated_submission_is_one_video(vendor: Any) -> None:
    """A submission repeated with its key is the same task."""
    body = {"prompt": "loop", "duration_seconds": 0.5, "width": 64, "height": 64, "fps": 12}
    first, again = (vendor.post("/v1/videos", body, key="video") for _ in range(2))
    assert first.json() == again.json()
    assert again.headers["idempotent-replay"] == "true"


def test_restarted_vendor_gives_the_same_bytes_for_a_forgotten_key(vendor: Any, start: Any) -> None:
    """Without a seed the key decides it, so a repeat after a restart is the same work and ids."""
    with start() as other:
        answers = [each.post("/v1/images", SMALL, key="restart").json() for each in (vendor, other)]
        sounds = [
            each.post("/v1/audio", {"prompt": "x", "duration_seconds": 0.5}, key="sound").content
            for each in (vendor, other)
        ]
    assert answers[0]["data"] == answers[1]["data"]
    assert (answers[0]["id"], answers[0]["seed"]) == (answers[1]["id"], answers[1]["seed"])
    assert sounds[0] == sounds[1]
