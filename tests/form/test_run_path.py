"""How long the path of a synchronous run is: the functions of ours that it passes, and the files they are in.

A real server in this process answers runs over a real connection while `sys.setprofile` notes what is called. What
the server does in addition to them happens now and then, so only what each of several runs passes is counted.
"""

import asyncio
import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeAlias

import pytest
import uvloop

import fairlead
from fairlead.server.lifecycle import running_server
from fairlead.server.settings import read_settings
from fake_partner import SECRET, CatalogFolder, FakePartner, reply_json
from server.connections import Caller, serving

_Function: TypeAlias = tuple[str, str, int]

_SOURCE: Final = str(Path(fairlead.__file__).parent)
_BACKGROUND: Final = ("workers", "loop_meter.py")
"""What goes on forty times a second whether there are runs or not."""
_RUNS: Final = 6
_SCHEMA: Final = {
    "type": "object",
    "required": ["prompt"],
    "properties": {"prompt": {"type": "string"}, "units": {"type": "integer", "maximum": 4, "default": 1}},
}
_COMPONENT: Final = 'at_most = "4"\nrequested = { product = ["/units"] }\nmeasured = { answer = "/usage/units" }'
_BODY: Final = json.dumps({"prompt": "A lighthouse at dusk", "units": 2}).encode()


@contextmanager
def _noting(passed: set[_Function]) -> Iterator[None]:
    """Note every function of ours that this thread calls."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_SOURCE):
            passed.add((code.co_filename.removeprefix(f"{_SOURCE}/"), code.co_qualname, code.co_firstlineno))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def _run(caller: Caller, key: str, more: str = "") -> None:
    """Make one run, whose request is sent in one piece."""
    caller.send(
        b"POST /v2/models/fake/metered-1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"X-API-Key: %b\r\n%bContent-Length: %d\r\n\r\n%b" % (key.encode(), more.encode(), len(_BODY), _BODY)
    )
    head, _ = await caller.answer()
    assert head["status"] == "HTTP/1.1 200 OK"


async def _path(folder: Path, *, keyed: bool) -> set[_Function]:
    """What every run passes."""
    numbers = itertools.count()
    paths = []
    async with running_server(read_settings(data=folder / "data", catalog=folder / "catalog")) as server:
        assert server.first_keys.api is not None
        key = server.first_keys.api.text
        async with serving(server.application) as web, web.caller() as caller:
            for _ in range(_RUNS):
                more = f"Idempotency-Key: {next(numbers)}\r\n" if keyed else ""
                passed: set[_Function] = set()
                with _noting(passed):
                    await _run(caller, key, more)
                    await asyncio.sleep(0)
                paths.append(passed)
    return {
        one for one in set.intersection(*paths[1:]) if not one[0].endswith(_BACKGROUND) and _BACKGROUND[0] not in one[0]
    }


@pytest.mark.parametrize(("keyed", "functions", "files"), [(False, 150, 35), (True, 165, 40)])
def test_path_of_a_run_does_not_grow(
    keyed: bool,  # noqa: FBT001 -- a parameter of the test
    functions: int,
    files: int,
    tmp_path: Path,
    partner: FakePartner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run passes no more functions and files than it did when these figures were written; they may only shrink."""
    catalog = CatalogFolder(tmp_path / "catalog")
    catalog.add_provider(partner.url)
    catalog.add_model("fake/metered-1", schema=_SCHEMA, price="0.005", component=_COMPONENT)
    partner.script("/json", reply_json({"made": True, "usage": {"units": 1}}))
    monkeypatch.setenv("FAIRLEAD_ENGINE", "false")
    monkeypatch.setenv("FAIRLEAD_LOCAL_PARTNER", "false")
    monkeypatch.setenv("FAIRLEAD_PROVIDER_FAKE_KEY", SECRET)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        path = runner.run(_path(tmp_path, keyed=keyed))
    assert len(path) <= functions, "\n".join(f"{file} {name}" for file, name, _ in sorted(path))
    assert len({file for file, _, _ in path}) <= files
