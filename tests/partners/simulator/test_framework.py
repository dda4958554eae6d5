"""What all vendors share: the process, the log of calls, files, bounds and unknown addresses."""

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import cv2
import httpx
import pytest
from PIL import Image

IMAGE = {"prompt": "a lighthouse", "width": 64, "height": 64}


def submit_and_poll(simulator: Any, body: dict[str, Any]) -> Any:
    """Submit to BFL and poll until it ended."""
    submitted = simulator.post("/bfl/v1/flux-2-pro", body).json()
    document, _ = simulator.until(
        lambda: simulator.get(submitted["polling_url"]), lambda document: document["status"] != "Pending"
    )
    return document


def test_inherited_socket_is_served(start_simulator: Any) -> None:
    """With --fd the simulator serves the socket it was given and says its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        with start_simulator("--fd", str(number), pass_fds=(number,)) as own:
            assert own.url.endswith(f":{listener.getsockname()[1]}")
            assert own.client.get("/healthz").json() == {"status": "ok"}


def test_sigterm_is_a_clean_exit(own_simulator: Any) -> None:
    """A terminated simulator exits with 0, even with a call hanging."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: own_simulator.post("/bfl/v1/flux-2-pro", {"prompt": "[[fault:hang]]"}))
        time.sleep(0.2)
        own_simulator.process.send_signal(signal.SIGTERM)
        assert own_simulator.process.wait(30) == 0


def test_result_is_a_real_picture_under_the_callers_own_host(simulator: Any) -> None:
    """Addresses handed out begin with the Host the caller used, and lead to a decodable file."""
    address = submit_and_poll(simulator, IMAGE)["result"]["sample"]
    assert address.startswith(simulator.url + "/files/")
    answer = httpx.get(address)
    assert answer.headers["content-type"] == "image/jpeg"
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert Image.open(BytesIO(answer.content)).size == (64, 64)


def test_same_file_has_one_address_at_every_poll(simulator: Any) -> None:
    """A finished task names the same link again."""
    submitted = simulator.post("/bfl/v1/flux-2-pro", IMAGE).json()
    simulator.until(lambda: simulator.get(submitted["polling_url"]), lambda document: document["result"])
    first, second = (simulator.get(submitted["polling_url"]).json()["result"]["sample"] for _ in range(2))
    assert first == second


def test_range_of_a_file_is_served(simulator: Any) -> None:
    """One part, an open end, a suffix, and a range beyond the end."""
    address = submit_and_poll(simulator, IMAGE)["result"]["sample"]
    whole = httpx.get(address).content
    part = httpx.get(address, headers={"range": "bytes=2-5"})
    assert (part.status_code, part.content) == (206, whole[2:6])
    assert part.headers["content-range"] == f"bytes 2-5/{len(whole)}"
    assert httpx.get(address, headers={"range": "bytes=10-"}).content == whole[10:]
    assert httpx.get(address, headers={"range": "bytes=-4"}).content == whole[-4:]
    assert httpx.get(address, headers={"range": f"bytes={len(whole)}-"}).status_code == 416
    assert httpx.head(address).headers["content-length"] == str(len(whole))


def test_unknown_file_is_404(simulator: Any) -> None:
    """A made-up token opens nothing."""
    assert httpx.get(simulator.url + "/files/made-up/output.png").status_code == 404


def test_video_can_be_decoded(simulator: Any, tmp_path: Any) -> None:
    """The one clip is a real MP4 with frames."""
    video = simulator.post("/fal/wan/v2.6/text-to-video", {"prompt": "waves"}).json()
    simulator.until(lambda: simulator.get(video["status_url"]), lambda document: document["status"] == "COMPLETED")
    result = simulator.get(video["response_url"]).json()["video"]
    path = tmp_path / "clip.mp4"
    path.write_bytes(httpx.get(result["url"]).content)
    assert result["content_type"] == "video/mp4"
    capture = cv2.VideoCapture(str(path))
    assert capture.read()[0]


def test_log_keeps_calls_and_no_keys(own_simulator: Any) -> None:
    """A call is logged with method, path, JSON and the hash of the key; the key itself is nowhere."""
    own_simulator.client.post("/bfl/v1/flux-2-pro", json=IMAGE, headers={"x-key": "very-private"})
    answer = own_simulator.client.get("/_simulator/calls", params={"provider": "bfl"})
    [call] = answer.json()["calls"]
    assert (call["method"], call["path"], call["json"], call["status"]) == ("POST", "/v1/flux-2-pro", IMAGE, 200)
    assert call["headers"]["x-key"].startswith("sha256:")
    assert "very-private" not in answer.text
    assert own_simulator.client.get("/_simulator/calls", params={"provider": "openai"}).json() == {"calls": []}
    own_simulator.client.delete("/_simulator/calls")
    assert own_simulator.client.get("/_simulator/calls").json() == {"calls": []}


def test_unknown_provider_is_404_and_lists_the_known(simulator: Any) -> None:
    """The first segment must be a provider."""
    answer = simulator.client.post("/nobody/v1/images", json={})
    assert answer.status_code == 404
    assert "bfl" in answer.json()["error"]


def test_unknown_address_of_a_vendor_is_its_own_404(simulator: Any) -> None:
    """A vendor answers in its own words where it has nothing, and to the wrong method."""
    assert simulator.get("/openai/v1/nothing").json()["error"]["type"] == "invalid_request_error"
    assert simulator.get("/anthropic/v1/messages").json()["error"]["type"] == "not_found_error"
    assert simulator.get("/openai/v1/nothing").status_code == 404


def test_body_over_the_limit_is_413(simulator: Any) -> None:
    """More than 64 MiB is refused by its declared length, before it is read."""
    with socket.create_connection(("127.0.0.1", httpx.URL(simulator.url).port or 0)) as raw:
        raw.sendall(b"POST /openai/v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        assert b" 413 " in raw.recv(100)


@pytest.mark.parametrize(
    "order",
    [
        {"provider": "nobody", "fault": "hang"},
        {"provider": "bfl", "fault": "unheard-of"},
        {"provider": "bfl", "fault": "hang", "times": 0},
        {"provider": "bfl", "fault": "hang", "times": True},
        {"provider": "bfl", "fault": "hang", "path": 5},
        [],
    ],
)
def test_order_that_makes_no_sense_is_422(simulator: Any, order: Any) -> None:
    """Ordering a fault is strict, so that a test with a slip in it fails early."""
    answer = simulator.client.post("/_simulator/faults", json=order)
    assert answer.status_code == 422
    assert answer.json()["error"]
