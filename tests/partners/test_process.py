"""The vendor as a process: starting, bounds, and ending."""

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil


def test_idle_process_is_small(start: Any) -> None:
    """Before its first generation the vendor holds no numpy, so it stays under 45 MB."""
    with start() as own:
        assert httpx.get(own.url + "/healthz").status_code == 200
        assert psutil.Process(own.process.pid).memory_info().rss < 45_000_000


def test_inherited_socket_is_served(start: Any, listener: socket.socket) -> None:
    """With --fd the vendor serves the socket it was given and says its address."""
    number = listener.fileno()
    with start("--fd", str(number), pass_fds=(number,)) as own:
        assert own.url.endswith(f":{listener.getsockname()[1]}")
        assert own.client.get("/healthz").json() == {"status": "ok"}


def test_process_ends_when_its_stdin_closes_even_while_generating(start: Any, tmp_path: Path) -> None:
    """A child whose parent died ends by itself and leaves no file behind."""
    with start("--exit-with-stdin", temporary=tmp_path) as own:
        body = {"prompt": "x", "duration_seconds": 10, "width": 1024, "height": 1024}
        id_ = own.post("/v1/videos", body).json()["id"]
        while own.client.get(f"/v1/videos/{id_}").json()["progress"] == 0:
            time.sleep(0.02)
        assert list(tmp_path.iterdir())
        own.process.stdin.close()
        assert own.process.wait(30) == 0
    assert not list(tmp_path.iterdir())


def test_process_without_the_flag_outlives_its_stdin(start: Any) -> None:
    """Closing stdin means nothing unless it was asked to."""
    with start() as own:
        own.process.stdin.close()
        assert own.client.get("/healthz").status_code == 200


def test_sigterm_is_a_clean_exit_that_removes_the_files(start: Any, tmp_path: Path) -> None:
    """A terminated vendor exits with 0 and its private folder is gone."""
    with start(temporary=tmp_path) as own:
        body = {"prompt": "x", "duration_seconds": 0.5, "width": 64, "height": 64, "fps": 12}
        own.finished_video(own.post("/v1/videos", body).json()["id"])
        assert len(list(tmp_path.rglob("*.mp4"))) == 1
        own.process.send_signal(signal.SIGTERM)
        assert own.process.wait(30) == 0
    assert not list(tmp_path.iterdir())


def test_two_hundred_concurrent_pictures_all_succeed(vendor: Any) -> None:
    """The queue holds a burst."""
    limits = httpx.Limits(max_connections=200)
    with httpx.Client(base_url=vendor.url, timeout=60, limits=limits) as client, ThreadPoolExecutor(200) as pool:
        bodies = [{"prompt": f"burst {number}", "width": 64, "height": 64} for number in range(200)]
        answers = list(pool.map(lambda body: client.post("/v1/images", json=body), bodies))
    assert [answer.status_code for answer in answers] == [200] * 200
