"""What node packs cost: a start with many of them, the first job of a workspace, and a change of workspaces.

The packs are made up: each takes a while to import, and imports torch where that is installed. `--help` shows the
options; docs/benchmarks.md says how to read the figures.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import measuring
from bench.measuring import CannotMeasureError, Claim, Gateway
from bench.sessions import request, sessions

_ROUNDS: Final = 5
_PATIENCE_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.005
_CLAIMED_FIRST_SECONDS: Final = 0.25
_IMPORTS: Final = 2
"""One host checks a workspace's job and another executes it, and each imports the pack."""
_PACK: Final = """
import time
try:
    import torch
except ImportError:
    torch = None
time.sleep({seconds})

class Node:
    RETURN_TYPES = ()
    FUNCTION = "run"
    OUTPUT_NODE = True
    CATEGORY = "bench"

    @classmethod
    def INPUT_TYPES(cls):
        return {{"required": {{"value": ("INT", {{"default": 0}})}}}}

    def run(self, value):
        return {{"ui": {{"text": [str(value)]}}}}

NODE_CLASS_MAPPINGS = {{"Bench{number}": Node}}
"""


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was measured, in seconds."""

    own: float
    packs: float
    firsts: list[float]
    again: list[float]


def main() -> int:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packs", type=int, default=16, help="how many packs (default 16)")
    parser.add_argument("--seconds", type=float, default=0.2, help="what each takes to import (default 0.2)")
    parser.add_argument("--check", action="store_true", help="exit with status 1 when a claim fails")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the data goes (default: the temporary one)")
    options = parser.parse_args()
    return measuring.run_script(lambda stack: _measure(stack, options), check=options.check)


def _measure(stack: ExitStack, options: argparse.Namespace) -> bool:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-", dir=options.folder)))
    print(f"{measuring.machine()}; data on {measuring.file_system_of(folder)}", flush=True)
    data, packs = folder / "data", folder / "packs"
    packs.mkdir()
    for number in range(options.packs):
        (packs / f"bench_{number:03}.py").write_text(_PACK.format(seconds=options.seconds, number=number))
    settings = {
        "FAIRLEAD_ENGINE": "true",
        "FAIRLEAD_ENGINE_ALLOW_ROOT": "true",  # without it there are no packs where root measures
        "FAIRLEAD_NODE_PACKS": str(packs),
        "FAIRLEAD_ENGINE_HOSTS": "2",
    }
    with measuring.gateway(data, "--no-local-partner", settings={"FAIRLEAD_ENGINE": "false"}):
        keys = [measuring.new_workspace(data, f"bench-{number}") for number in range(_ROUNDS)]
    began = time.perf_counter()
    server = stack.enter_context(measuring.gateway(data, "--no-local-partner", settings=settings))
    others = [replace(server, key=key) for key in keys]
    found = uvloop.run(_work(server, others, options.packs - 1, began))
    server.stop()
    print(f"the engine's own nodes answer after {found.own:.2f} s, {options.packs} packs after {found.packs:.2f} s")
    for words, figures in (("first job of a workspace", found.firsts), ("its next, after another's", found.again)):
        print(f"{words}: median {statistics.median(figures):.3f} s, worst {max(figures):.3f} s")
    first = statistics.median(found.firsts)
    beyond = first - _IMPORTS * options.seconds
    claimed = f"The first job of a workspace {_CLAIMED_FIRST_SECONDS} s beyond the two imports of its pack"
    return measuring.print_claims([Claim(claimed, f"{beyond:.3f} s", beyond < _CLAIMED_FIRST_SECONDS)])


async def _work(server: Gateway, others: list[Gateway], last: int, began: float) -> Found:
    own = await _seconds_of(server, {"1": {"class_type": "PreviewAny", "inputs": {"source": "own"}}}, began)
    graph = {"1": {"class_type": f"Bench{last}", "inputs": {"value": 1}}}
    packs = await _seconds_of(server, graph, began)
    firsts = [await _seconds_of(other, graph) for other in others]
    again = [await _seconds_of(other, graph) for other in others]
    return Found(own, packs, firsts, again)


async def _seconds_of(server: Gateway, graph: dict[str, Any], began: float | None = None) -> float:
    """How long a job takes from its submission, or from another moment; one that is refused for now is sent again."""
    start = time.perf_counter() if began is None else began
    async with sessions(server, 1) as (session,), asyncio.timeout(_PATIENCE_SECONDS):
        call = request(server, "POST", "/api/prompt", json.dumps({"prompt": graph}))
        while (reply := await session.ask(call)).status != 200:  # noqa: ASYNC110 -- over HTTP there is nothing to wait on
            await asyncio.sleep(_POLL_SECONDS)
        job = json.loads(reply.body)["prompt_id"]
        while True:
            state = json.loads((await session.ask(request(server, "GET", f"/api/jobs/{job}"))).body)["status"]
            if state == "completed":
                return time.perf_counter() - start
            if state not in ("pending", "in_progress"):
                raise CannotMeasureError(f"A job ended as {state}.")
            await asyncio.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
