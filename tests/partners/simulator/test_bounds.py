"""Everything the simulator keeps has a bound, and what it reads it reads exactly."""

from typing import Any

import pytest

from fairlead_partners.simulator import calls, faults, files, tasks
from fairlead_partners.simulator.forms import read_form
from fairlead_partners.simulator.media import Media
from fairlead_partners.simulator.webhooks import is_near


class Time:
    """A clock that is moved by hand."""

    now = 1000.0

    def clock(self) -> tasks.Clock:
        """Return the clock of this time."""
        return tasks.Clock(0.3, lambda: self.now, lambda: self.now)


def task(clock: tasks.Clock, id_: str, request: Any = None) -> tasks.Task:
    """Make a task."""
    return tasks.Task("bfl", id_, request or {}, {}, {}, clock)


def test_task_passes_through_its_stages() -> None:
    """A third of the time queued, then running, then ended; progress is 1 only at the end."""
    time = Time()
    one = task(time.clock(), "a")
    seen = []
    for later in (0.0, 0.15, 0.31):
        time.now = 1000.0 + later
        seen.append((one.stage, one.progress == 1.0))
    assert seen == [("queued", False), ("running", False), ("ended", True)]
    assert not one.cancel()


def test_oldest_task_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are bounded by number, by bytes and by age; the newest stays."""
    time = Time()
    clock = time.clock()
    kept = tasks.Tasks(clock)
    monkeypatch.setattr(tasks, "TASKS_MAX", 2)
    for id_ in "abc":
        kept.add(task(clock, id_))
    assert [kept.get("bfl", id_) is None for id_ in "abc"] == [True, False, False]
    monkeypatch.setattr(tasks, "KEEP_BYTES_MAX", 100)
    kept.add(task(clock, "d", {"prompt": "x" * 99}))
    assert len(kept) == 1
    time.now += tasks.KEEP_SECONDS + 1
    kept.add(task(clock, "e"))
    assert [kept.get("bfl", id_) is None for id_ in "de"] == [True, False]


def test_deleted_task_is_found_by_its_other_id() -> None:
    """A task that is forgotten is so under all of its ids, and makes room for others."""
    kept = tasks.Tasks(tasks.Clock())
    one, other = task(tasks.Clock(), "a"), task(tasks.Clock(), "b")
    kept.add(one)
    kept.add_alias(one, "file a")
    kept.add(other)
    kept.forget(one)
    assert [kept.get("bfl", id_) for id_ in ("a", "file a", "b")] == [None, None, other]
    kept.forget(one)
    assert len(kept) == 1


def test_task_lets_go_of_long_strings() -> None:
    """A picture in a request is cut."""
    assert len(task(tasks.Clock(), "a", {"image": ["x" * 100_000]}).request["image"][0]) == 8192


def test_files_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest file gives way."""
    kept = files.Files(tasks.Clock())
    monkeypatch.setattr(files, "KEEP_BYTES_MAX", 25)
    for number in range(5):
        kept.add(Media("image/png", "png", bytes(10)), f"{number}.png")
    assert len(kept) == 2


def test_log_is_bounded() -> None:
    """The last two thousand calls are kept."""
    log = calls.Calls()
    for _ in range(calls.CALLS_MAX + 5):
        log.note("bfl", "GET", "/", {}, {}, b"", [])
    assert len(log.documents(None)) == calls.CALLS_MAX


def test_form_is_read_to_the_byte() -> None:
    """Line ends inside a file are the file's own."""
    content = b"\r\n--not-it\r\n\x00\xff\r\n"
    body = (
        b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nwaves\r\n'
        b'--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
        + content
        + b"\r\n--b--\r\n"
    )
    form = read_form('multipart/form-data; boundary="b"', body)
    assert form is not None
    assert form.first() == {"prompt": "waves"}
    [upload] = form.files["image"]
    assert (upload.file_name, upload.content_type, upload.content) == ("a.png", "image/png", content)
    assert read_form("multipart/form-data; boundary=b", body[:-10]) is None
    assert read_form("text/plain", body) is None


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("http://127.0.0.1:9/x", True),
        ("http://localhost/x", True),
        ("http://192.168.1.9/x", True),
        ("http://[::1]/x", True),
        ("http://example.com/x", False),
        ("http://8.8.8.8/x", False),
        ("http://169.254.169.254/latest", False),
        ("http://0.0.0.0/x", False),
        ("file:///etc/passwd", False),
        ("http://[", False),
    ],
)
def test_webhooks_stay_on_the_machines_own_network(address: str, near: bool) -> None:  # noqa: FBT001 -- a table of cases
    """Only literal private addresses and localhost are posted to; names are not resolved."""
    assert is_near(address) is near


def test_faults_a_vendor_does_not_know_become_the_nearest_it_has() -> None:
    """A synchronous vendor hangs instead of being stuck, and so on."""
    found = dict.fromkeys(("refused-output", "stuck", "failed", "expired-link", "latency"), "")
    assert set(faults.settle(found, frozenset({"refused"}))) == {"refused", "hang", "server-error", "latency"}
    assert faults.settle(found, faults.WORK) == found


def test_words_are_found_anywhere_and_in_any_number_up_to_eight() -> None:
    """Names with and without an argument; what is no fault is skipped."""
    found = faults.in_words(b'{"a":"[[fault:latency:2.5]]","b":["[[fault:nothing]] [[fault:refused]]"]}')
    assert found == {"latency": "2.5", "refused": ""}
