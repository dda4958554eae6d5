"""docs/simulator.md, as it stands: its examples are typed in, and do what is said of them."""

import json
from pathlib import Path
from typing import Final

from docs.pages import commands, run, start_server, with_commands
from servers import environment

_PAGE: Final = "simulator.md"


def test_every_example_of_the_simulator_page_works(tmp_path: Path) -> None:
    """The speech is an MP3, the fault named in a body meets that run, and the ordered one is taken."""
    serve, speak, fail, order = [script for script, _ in commands(_PAGE)][:4]
    env = with_commands(environment({"FAIRLEAD_PORT": "0"}))
    with start_server(serve, tmp_path, env) as (url, printed):
        key = (tmp_path / "fairlead-data" / "first-key").read_text().strip()
        names = {**env, "URL": url, "KEY": key, "SIMULATOR": printed.rpartition(" ")[2].strip()}
        run(speak, tmp_path, names)
        failed = json.loads(run(fail, tmp_path, names))
        ordered = json.loads(run(order, tmp_path, names))
    assert (tmp_path / "hello.mp3").read_bytes()[:3] in (b"ID3", b"\xff\xfb\x90", b"\xff\xf3\x40")
    assert failed["error_type"] == "provider_error"
    assert [(fault["provider"], fault["argument"]) for fault in ordered["faults"]] == [("bfl", "60")]
