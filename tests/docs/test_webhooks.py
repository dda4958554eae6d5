"""docs/webhooks.md: its receiver believes what we sign, and nothing else."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pytest

from docs.pages import blocks
from fairlead.domain.runs.states import RunState
from fairlead.domain.runs.webhooks import EndedRun, message_of, secret_text, signed_headers

_OLD: Final = bytes(range(32))
_NEW: Final = bytes(range(1, 33))
_RUN: Final = EndedRun("run-1", "acme/one", RunState.SUCCEEDED, "completed", 0, "https://router.example")

Verify: TypeAlias = Callable[[str, Mapping[str, str], bytes], bool]


@pytest.fixture
def verify() -> Verify:
    """Return the receiver's function as the page has it."""
    (block,) = [block for block in blocks("webhooks.md") if block.name == "verify.py"]
    names: dict[str, Any] = {}
    exec(compile(block.text, block.name, "exec"), names)  # noqa: S102 -- it is our own page that is tried
    found: Verify = names["verify"]
    return found


def make_message(*secrets: bytes, age: int = 0) -> tuple[Mapping[str, str], bytes]:
    """Return the headers, as a receiver's framework has them, and the body of a message."""
    body = message_of(_RUN)
    headers = signed_headers(secrets, _RUN.run_id, int(time.time()) - age, body)
    return {name.lower(): value for name, value in headers.items()}, body


def test_example_accepts_a_signed_message(verify: Verify) -> None:
    """The example accepts a message with one signature, and one that two secrets have signed."""
    assert verify(secret_text(_NEW), *make_message(_NEW))
    for secret in (_OLD, _NEW):
        assert verify(secret_text(secret), *make_message(_NEW, _OLD))


def test_example_refuses_a_forged_or_replayed_message(verify: Verify) -> None:
    """Another secret, another body, another id, and a message that is kept and posted again later."""
    headers, body = make_message(_NEW)
    assert not verify(secret_text(_OLD), headers, body)
    assert not verify(secret_text(_NEW), headers, body + b" ")
    assert not verify(secret_text(_NEW), {**headers, "webhook-id": "msg_run-2"}, body)
    assert not verify(secret_text(_NEW), *make_message(_NEW, age=301))
