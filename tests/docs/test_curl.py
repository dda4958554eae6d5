"""docs/curl.md, as it stands: a server on the simulator, and every command typed in."""

from pathlib import Path
from typing import Final

import pytest

from docs.pages import assert_prints, commands, start_server, type_in, with_commands
from servers import environment

_PAGE: Final = "curl.md"


@pytest.mark.req("R-12", "R-13", "R-14", "R-18", "R-24")
def test_every_curl_command_prints_what_the_page_says(tmp_path: Path) -> None:
    """Anyone who types the page into a terminal sees what it says, one command after the other."""
    (start, told), *pairs = commands(_PAGE)
    env = with_commands(environment({"FAIRLEAD_PORT": "0"}))
    with start_server(start, tmp_path, env) as (url, printed):
        assert_prints(printed.replace(url, "http://127.0.0.1:8080"), told)
        simulator = printed.rpartition(" ")[2].strip()
        key = (tmp_path / "fairlead-data" / "first-key").read_text().strip()
        names = {**env, "URL": url, "KEY": key, "SIMULATOR": simulator}
        for pair in pairs:
            type_in(tmp_path, [pair], names)
