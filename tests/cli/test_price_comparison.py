"""`fairlead catalog prices --against`: a table or JSON, and a status that a script can use."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from fairlead.cli import commands
from operations.servers import SCHEMA, model_text


def _against(tmp_path: Path, price: float, *words: str) -> Result:
    models = tmp_path / "models"
    models.mkdir(exist_ok=True)
    (models / "paint.toml").write_text(model_text("paint", "local", "image", price="0.10"))
    (models / "input.json").write_text(json.dumps(SCHEMA))
    file = tmp_path / "map.json"
    file.write_text(json.dumps({"paint": {"litellm_provider": "local", "output_cost_per_image": price}}))
    arguments = ["catalog", "prices", "--catalog", str(tmp_path), "--against", str(file), *words]
    return CliRunner().invoke(commands, arguments)


def test_difference_is_shown_and_told_by_the_status(tmp_path: Path) -> None:
    """What differs comes first, with both prices; how many of each kind there are is on standard error."""
    ran = _against(tmp_path, 0.25)
    assert ran.exit_code == 1
    first = ran.stdout.splitlines()[1]
    assert first.split()[:4] == ["differs", "acme/paint", "local", "paint"]
    assert first.endswith("output_cost_per_image: 0.25 there, 0.1 here per image")
    assert ran.stderr.startswith("differs: 1, equal: 0, not comparable: 0, missing: ")


def test_equal_prices_end_with_status_0(tmp_path: Path) -> None:
    """As JSON every figure is there with both prices as text."""
    ran = _against(tmp_path, 0.1, "--json")
    assert ran.exit_code == 0
    (row,) = [one for one in json.loads(ran.stdout) if one["result"] == "equal"]
    figure = {"figure": "output_cost_per_image", "unit": "image", "theirs": "0.1", "ours": ["0.1"], "equal": True}
    assert (row["model"], row["figures"], row["left_out"]) == ("acme/paint", [figure], [])


def test_file_that_is_no_map_ends_with_status_2(tmp_path: Path) -> None:
    """A script can tell it from a difference; a page of Markdown is not made of a comparison."""
    assert _against(tmp_path, 0.1, "--markdown").exit_code == 2
    (tmp_path / "no-map.json").write_text("[]")
    ran = CliRunner().invoke(commands, ["catalog", "prices", "--against", str(tmp_path / "no-map.json")])
    assert (ran.exit_code, "is no price map" in ran.stderr) == (2, True)
