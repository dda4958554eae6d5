"""Videos: submit, poll, fetch, cancel."""

from pathlib import Path
from typing import Any

import cv2
import pytest

SHORT = {"prompt": "aurora", "duration_seconds": 0.5, "width": 96, "height": 64, "fps": 12, "seed": 9}


@pytest.fixture(scope="module")
def finished(vendor: Any) -> Any:
    """Return a finished short video."""
    submitted = vendor.post("/v1/videos", SHORT)
    assert submitted.status_code == 202
    assert set(submitted.json()) == {"id", "status", "created"}
    return vendor.finished_video(submitted.json()["id"])


def test_finished_video_describes_its_file(vendor: Any, finished: Any) -> None:
    """The task tells where the file is, what it is, and what was used."""
    assert finished["status"] == "succeeded"
    assert (finished["progress"], finished["seed"], finished["error"]) == (1, 9, None)
    assert finished["usage"] == {"seconds": 0.5}
    url = finished["result"].pop("url")
    assert url.startswith(f"{vendor.url}/v1/files/")
    expected = {"mime_type": "video/mp4", "duration_seconds": 0.5, "width": 96, "height": 64, "fps": 12}
    assert finished["result"] == expected
    finished["result"]["url"] = url


def test_file_is_a_video_of_the_asked_frames(vendor: Any, finished: Any, tmp_path: Path) -> None:
    """OpenCV reads every frame at the asked size."""
    answer = vendor.client.get(finished["result"]["url"])
    assert answer.headers["content-type"] == "video/mp4"
    path = tmp_path / "a.mp4"
    path.write_bytes(answer.content)
    video = cv2.VideoCapture(str(path))
    sizes = []
    while (read := video.read())[0]:
        sizes.append(read[1].shape)
    assert sizes == [(64, 96, 3)] * 6
    assert video.get(cv2.CAP_PROP_FPS) == 12


def test_same_seed_gives_the_same_file(vendor: Any, finished: Any) -> None:
    """The file's bytes depend on the request alone, and its name cannot be guessed from them."""
    again = vendor.finished_video(vendor.post("/v1/videos", SHORT).json()["id"])
    assert again["result"]["url"] != finished["result"]["url"]
    first, second = (vendor.client.get(task["result"]["url"]).content for task in (finished, again))
    assert first == second


def test_ranges_of_a_file_are_served(vendor: Any, finished: Any) -> None:
    """First bytes, last bytes and the rest from an offset are 206; beyond the end is 416; junk is ignored."""
    url = finished["result"]["url"]
    whole = vendor.client.get(url).content
    size = len(whole)
    cases = {"bytes=0-9": whole[:10], "bytes=-5": whole[-5:], f"bytes={size - 3}-": whole[-3:]}
    for asked, expected in cases.items():
        answer = vendor.client.get(url, headers={"range": asked})
        assert (answer.status_code, answer.content) == (206, expected)
        assert answer.headers["content-range"].endswith(f"/{size}")
    beyond = vendor.client.get(url, headers={"range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    junk = vendor.client.get(url, headers={"range": "lines=1-2"})
    assert (junk.status_code, junk.content) == (200, whole)
    head = vendor.client.head(url)
    assert (head.status_code, int(head.headers["content-length"]), head.content) == (200, size, b"")


def test_url_follows_the_host_header_of_the_poll(vendor: Any, finished: Any) -> None:
    """A poller that reaches the vendor by another name gets links under that name."""
    path = f"/v1/videos/{finished['id']}"
    task = vendor.client.get(path, headers={"host": "media.internal:81"}).json()
    assert task["result"]["url"].startswith("http://media.internal:81/v1/files/")


def test_running_and_queued_videos_can_be_cancelled(vendor: Any) -> None:
    """A cancelled video stays cancelled, has no result, and lets the next one through."""
    long = {"prompt": "nebula", "duration_seconds": 10, "width": 256, "height": 256}
    ids = [vendor.post("/v1/videos", long).json()["id"] for _ in range(2)]
    for id_ in ids:
        answer = vendor.client.delete(f"/v1/videos/{id_}")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    after = vendor.finished_video(vendor.post("/v1/videos", SHORT).json()["id"])
    assert after["status"] == "succeeded"
    for id_ in ids:
        task = vendor.client.get(f"/v1/videos/{id_}").json()
        assert (task["status"], task["result"]) == ("cancelled", None)


def test_cancelling_an_ended_video_changes_nothing(vendor: Any, finished: Any) -> None:
    """A finished video keeps its result when someone cancels it too late."""
    answer = vendor.client.delete(f"/v1/videos/{finished['id']}")
    assert (answer.status_code, answer.json()["status"]) == (200, "succeeded")


def test_too_many_waiting_videos_are_refused(start: Any) -> None:
    """The 258th video, one running and 256 waiting, gets 429 and a time to come back."""
    long = {"prompt": "x", "duration_seconds": 10, "width": 512, "height": 512}
    with start() as own:
        answers = [own.post("/v1/videos", long) for _ in range(258)]
        assert [answer.status_code for answer in answers[:256]] == [202] * 256
        assert answers[-1].status_code == 429
        assert answers[-1].json()["error"]["code"] == "too_many_tasks"
        assert int(answers[-1].headers["retry-after"]) > 0
