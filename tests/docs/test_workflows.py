"""docs/workflows.md, as it stands: its workflow is run, and prints what the page says."""

from pathlib import Path
from typing import Final

from docs.pages import blocks, commands, type_in, with_commands
from servers import environment

_PAGE: Final = "workflows.md"


def test_every_example_of_the_workflows_page_works(tmp_path: Path) -> None:
    """The workflow is kept under its name; each command prints what stands below it."""
    for block in blocks(_PAGE):
        if block.name:
            (tmp_path / block.name).write_text(block.text)
    type_in(tmp_path, commands(_PAGE), with_commands(environment({})))
    assert (tmp_path / "made" / "cyan" / "128x96_00001_.png").stat().st_size > 100
