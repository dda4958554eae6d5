"""docs/registry.md, as it stands: a server, and every command of its walk typed in."""

from pathlib import Path
from typing import Final

import pytest

from docs.pages import assert_prints, commands, start_server, type_in, with_commands
from servers import environment

_PAGE: Final = "registry.md"


@pytest.mark.req("G-01", "G-03")
def test_registry_walkthrough_prints_what_the_page_says(tmp_path: Path) -> None:
    """Anyone who types the walk into a terminal sees what the page says, one command after the other."""
    (start, told), *pairs = commands(_PAGE)
    env = with_commands(environment({"FAIRLEAD_PORT": "0", "FAIRLEAD_LOCAL_PARTNER": "false"}))
    with start_server(start, tmp_path, env) as (url, printed):
        assert_prints(printed.replace(url, "http://127.0.0.1:8080"), told)
        key = (tmp_path / "fairlead-data" / "first-key").read_text().strip()
        type_in(tmp_path, pairs, {**env, "URL": url, "KEY": key})
