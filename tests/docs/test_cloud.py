"""docs/cloud.md, as it stands: its walk is typed in, and its client watches everything that can happen to a job."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import PIL.Image
import pytest

from docs.pages import assert_prints, blocks, commands, run, start_server, type_in, with_commands
from machine import limit
from servers import Server, environment, serving, wait_until

_PAGE: Final = "cloud.md"
_PACKS: Final = Path(__file__).with_name("node_packs")
_GREETING: Final = '{"type": "feature_flags", "data": {"supports_preview_metadata": true}}'
_ONE_AT_A_TIME: Final = ("--subscription", "standard")
_SECONDS: Final = 60
_KINDS: Final = frozenset(
    {
        "status", "notification", "execution_start", "executing", "progress", "progress_state", "executed",
        "execution_cached", "execution_success", "execution_error", "execution_interrupted",
        "PREVIEW_IMAGE", "TEXT", "PREVIEW_IMAGE_WITH_METADATA",
    }
)  # fmt: skip
"""Every message and every frame of the specification."""
_TOLD: Final = """\
status 0 left
status 1 left
execution_start
execution_cached known already: nothing
progress_state node 1 at 0 of 1
executing node 1
PREVIEW_IMAGE JPEG, … bytes
TEXT node 1: 3 steps are done
executing node 2
executed node 2 shows …
execution_success
status 0 left
executing nothing more
"""
_WAITED: Final = """\
execution_start
execution_interrupted
execution_start
execution_success
status 0 left
executing nothing more
"""


@pytest.mark.timeout(limit(600))
@pytest.mark.req("C-02", "C-04", "C-05", "C-06", "C-11", "C-13")
def test_workflow_walkthrough_prints_what_the_page_says(tmp_path: Path) -> None:
    """Anyone who types the walk into a terminal sees what the page says, one command after the other."""
    _keep_files(tmp_path)
    (start, told), *pairs = commands(_PAGE)
    env = with_commands(environment({"FAIRLEAD_PORT": "0", "FAIRLEAD_ENGINE": "true"}))
    with start_server(start, tmp_path, env) as (url, printed):
        assert_prints(printed.replace(url, "http://127.0.0.1:8080"), told)
        key = (tmp_path / "fairlead-data" / "first-key").read_text().strip()
        type_in(tmp_path, pairs, {**env, "URL": url, "KEY": key})


def test_workflow_of_the_readme_makes_its_picture(tmp_path: Path) -> None:
    """Its one block of commands is typed in, and leaves the picture it says."""
    (script,) = (block.text for block in blocks("../README.md") if "api/prompt" in block.text)
    with serving(tmp_path / "data", env={"FAIRLEAD_ENGINE": "true"}) as server:
        run(script, tmp_path, {**with_commands(environment()), "URL": server.url, "KEY": server.key})
    with PIL.Image.open(tmp_path / "harbour.png") as picture:
        assert picture.size == (512, 384)


class _Watchers:
    """Runs the page's client, for a workspace in which one job is executed at a time."""

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder = folder
        self._environment = environment({"URL": server.url, "KEY": server.new_workspace("watched", *_ONE_AT_A_TIME)})
        self._headers = {"X-API-Key": self._environment["KEY"]}
        self._url = server.url

    def workflow(self, class_type: str, seed: int) -> str:
        """Keep a workflow of one node whose result is shown; the name of its file."""
        node = {"class_type": class_type, "inputs": {"seed": seed, "steps": 3}}
        graph = {"1": node, "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}}}
        path = self._folder / f"{class_type}-{seed}.json"
        path.write_text(json.dumps(graph))
        return path.name

    def watch(self, *names: str, greeting: str | None = None) -> str:
        """Submit workflows and wait for their ends; everything that was printed."""
        with self.watching(*names, greeting=greeting) as watcher:
            printed, _ = watcher.communicate(timeout=_SECONDS)
        assert watcher.returncode == 0, printed
        return printed

    @contextmanager
    def watching(self, *names: str, greeting: str | None = None) -> Iterator[subprocess.Popen[str]]:
        """Run the client while something else is done."""
        more = {} if greeting is None else {"GREETING": greeting}
        watcher = subprocess.Popen(
            [sys.executable, "watch.py", *names],
            cwd=self._folder,
            env={**self._environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield watcher
        finally:
            watcher.kill()
            watcher.communicate()

    def interrupt(self) -> None:
        """Stop what is executed, as soon as another job waits for it."""
        wait_until(lambda: all(self._get("/api/queue").values()), "a job is executed, and another waits")
        answer = httpx.post(f"{self._url}/api/interrupt", headers=self._headers)
        assert answer.status_code == 200, answer.text

    def _get(self, path: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = httpx.get(f"{self._url}{path}", headers=self._headers).json()
        return found


@pytest.mark.req("C-08", "C-09")
def test_client_written_from_the_specification_sees_every_kind_of_message(tmp_path: Path) -> None:
    """Jobs that tell everything, are known, fail, are interrupted and have to wait show it every kind there is."""
    _keep_files(tmp_path)
    with serving(tmp_path / "data", env={"FAIRLEAD_ENGINE": "true", "FAIRLEAD_NODE_PACKS": str(_PACKS)}) as server:
        watchers = _Watchers(tmp_path, server)
        telling = watchers.watch(watchers.workflow("Telling", 1))
        assert_prints(telling, _TOLD)
        again = watchers.watch(watchers.workflow("Telling", 1))
        assert_prints(again, 'execution_cached known already: 1, 2\nexecuted node 2 shows {"text": ["1"]}')
        with_metadata = watchers.watch(watchers.workflow("Telling", 2), greeting=_GREETING)
        assert_prints(with_metadata, _TOLD.replace("PREVIEW_IMAGE JPEG", "PREVIEW_IMAGE_WITH_METADATA node 1"))
        assert "PREVIEW_IMAGE " not in with_metadata
        failing = watchers.watch(watchers.workflow("Failing", 3))
        assert_prints(failing, "execution_error ValueError: the seed 3 is not to its liking")
        with watchers.watching(watchers.workflow("Lasting", 4), watchers.workflow("Telling", 4)) as watcher:
            watchers.interrupt()
            waiting, _ = watcher.communicate(timeout=_SECONDS)
        assert_prints(waiting, _WAITED)
        assert_prints(waiting, "notification All parallel jobs of your subscription are busy…")
    assert _kinds(telling, again, with_metadata, failing, waiting) - {"feature_flags"} == _KINDS


def _kinds(*printed: str) -> frozenset[str]:
    return frozenset(line.partition(" ")[0] for text in printed for line in text.splitlines())


def _keep_files(folder: Path) -> None:
    for block in blocks(_PAGE):
        if block.name:
            path = folder / block.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
